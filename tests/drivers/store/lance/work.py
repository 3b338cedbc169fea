"""Processes that write; each writes a line for every document that was stored when `put` came back."""

import os
import sys
from pathlib import Path

import numpy as np

from clew.core.types import Chunk, Document
from clew.drivers.store import lance
from clew.drivers.store.store import Store

DIM = 4
CHUNKS = 3


def make_document(number: int, version: str) -> tuple[Document, list[Chunk], np.ndarray, list[dict[str, int]]]:
    """A document of three chunks, all of which name its version."""
    name, texts = f"d{number}", [f"part{part} of{number} {version}" for part in range(CHUNKS)]
    ends = np.cumsum([len(text) + 1 for text in texts]).tolist()
    chunks = [
        Chunk(f"{name}/{part}", name, part, CHUNKS, text, end - len(text) - 1, end - 1)
        for part, (text, end) in enumerate(zip(texts, ends, strict=True))
    ]
    vectors = np.eye(DIM, dtype=np.float32)[[number % DIM] * CHUNKS]
    return Document(name, "\n".join(texts)), chunks, vectors, [dict.fromkeys(text.split(), 1) for text in texts]


def open_store(address: str) -> Store:
    return lance.open_store(address, collection="one", embedder="model", dim=DIM)


def write(address: str, said: str, writer: str, turns: int) -> None:
    """Writes the same six documents as every other writer, again and again."""
    store = open_store(address)
    with Path(said).open("a", buffering=1) as file:
        file.write("begun\n")
        for turn in range(turns):
            for number in range(6):
                store.put(*make_document(number, f"{writer}v{turn}"))
                file.write(f"{number} {writer}v{turn}\n")
    store.close()


def main() -> None:
    """Starts a writer for each line of four words and says its process id; the modules are loaded once for all."""
    for line in sys.stdin:
        if line == "\n":
            sys.stdout.write(f"{os.wait()[1]}\n")
            sys.stdout.flush()
            continue
        address, said, writer, turns = line.split()
        process = os.fork()
        if not process:
            status = 1
            try:
                write(address, said, writer, int(turns))
                status = 0
            finally:
                os._exit(status)
        sys.stdout.write(f"{process}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
