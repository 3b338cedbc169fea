"""Vectors that were computed before, by text: so that no side embeds, and all search the same vectors."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class Lookup:
    """The vectors of a folder that `save_lookup` wrote."""

    def __init__(self, folder: Path) -> None:
        named: list[tuple[str, str]] = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
        self._vectors: NDArray[np.float32] = np.load(folder / "vectors.npy")
        self._texts = [text for _, text in named]
        self._rows = {text: row for row, text in enumerate(self._texts)}
        self._ids = {id_: row for row, (id_, _) in enumerate(named) if id_}
        self.dim = int(self._vectors.shape[1])
        self.parts: list[str] = []  # texts that had to be looked up as parts

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vector of each text. A part of a document, and a summary (`ID: …`), has the vector of the document."""
        return self._vectors[[self._find_row(text) for text in texts]]

    def _find_row(self, text: str) -> int:
        row = self._rows.get(text)
        if row is None:
            row = self._ids.get(text.removeprefix("Document: ").partition(": ")[0])
        if row is None:
            self.parts.append(text)
            row = next((row for row, whole in enumerate(self._texts) if text.strip() in whole), None)
        if row is None:
            raise KeyError(f"there is no vector of the text {text[:80]!r}")
        return row


def save_lookup(folder: Path, named: Sequence[tuple[str, str]], vectors: NDArray[np.float32]) -> None:
    """Writes what a Lookup reads: ids (empty for a query) and texts, and a vector for each."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.json").write_text(json.dumps(named), encoding="utf-8")
    np.save(folder / "vectors.npy", vectors)
