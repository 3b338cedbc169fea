"""Staged vectors: those of another model beside the ones in use, made for every row that has none.

A chunk that changes gets a new row, and with the old one its staged vector goes. So the missing ones are always known,
and interrupted work continues where it stopped.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from clew.core.errors import ConcurrentChange, ModelSwitched, StoreMismatch
from clew.core.protocols import Embedder
from clew.core.stored import StagedModel
from clew.core.types import Chunk, Matrix
from clew.drivers.store import checks
from clew.drivers.store.backend import CHUNK, DOCUMENT, STAGED, Backend, Row, Select, Transaction, select

BATCH = 256  # texts that are embedded together; at most this many are embedded again after a crash
MAX_ATTEMPTS = 100  # to switch while others change the collection
OnProgress = Callable[[int, int], None]  # how many are done, of how many
_TEXTS = {CHUNK: ("text", "headings", "context"), DOCUMENT: ("summary", "vector")}


def stage_vectors(backend: Backend, embedder: Embedder, on_progress: OnProgress | None = None) -> int:
    """Makes the staged vectors of a model that are missing; how many were made."""

    def begin(tx: Transaction) -> None:
        if tx.head.staged is None:
            tx.head = replace(tx.head, staged=StagedModel(embedder.name, embedder.dim, was_used=False))

    backend.write(begin, is_change=False)
    check_staged_model(backend.place, backend.head().staged, embedder)
    total, done = sum(len(missing) for _, missing in _list_missing(backend)), 0
    if on_progress and total:
        on_progress(0, total)  # a batch may take long
    for kind, missing in _list_missing(backend):
        if not missing:
            continue
        embedded = embedder.embed([_get_text(row) for row in missing], role="passage")
        vectors = checks.check_embeddings(embedded, len(missing), embedder)
        _write_vectors(backend, embedder, kind, missing, vectors)
        done += len(missing)
        if on_progress:
            on_progress(done, max(total, done))
    return done


def _list_missing(backend: Backend) -> Iterator[tuple[int, list[Row]]]:
    """The rows that have no staged vector, a batch at a time, with their kind."""
    for kind, columns in _TEXTS.items():
        after = 0
        while True:
            wanted = Select(kind, (("row", ">", after),), order="row", limit=BATCH)
            with backend.read() as snapshot:
                found = snapshot.find(wanted, ("row", *columns))
                known = {
                    row["row"] for row in snapshot.find(select(STAGED, row=[row["row"] for row in found]), ("row",))
                }
            if not found:
                break
            after = found[-1]["row"]
            needed = found if kind == CHUNK else [row for row in found if row["vector"] is not None]
            yield kind, [row for row in needed if row["row"] not in known]


def _get_text(row: Row) -> str:
    if row["kind"] == DOCUMENT:
        return str(row["summary"])
    return Chunk("", "", 0, 0, row["text"], 0, 0, tuple(json.loads(row["headings"])), row["context"]).embed_text


def _write_vectors(backend: Backend, embedder: Embedder, kind: int, missing: Sequence[Row], vectors: Matrix) -> None:
    """Stores the vectors of rows, except of those whose text has changed since."""
    names = _TEXTS[kind][:1] if kind == DOCUMENT else _TEXTS[kind]

    def write(tx: Transaction) -> None:
        check_staged_model(backend.place, tx.head.staged, embedder)  # another process may have discarded them
        numbers = [row["row"] for row in missing]
        now = {row["row"]: row for row in tx.find(select(kind, row=numbers), ("row", *names))}
        tx.remove(tx.find(select(STAGED, row=numbers), ("row",)))
        tx.add(
            {"kind": STAGED, "row": row["row"], "vector": vector}
            for row, vector in zip(missing, vectors, strict=True)
            if row["row"] in now and all(now[row["row"]][name] == row[name] for name in names)
        )

    backend.write(write, is_change=False)


def switch_to_staged_model(backend: Backend, embedder: Embedder) -> None:
    """Exchanges the vectors in use with the staged ones; what is still missing is made first."""
    for _ in range(MAX_ATTEMPTS):
        head = backend.head()
        check_staged_model(backend.place, head.staged, embedder)
        stage_vectors(backend, embedder)
        if backend.swap_vectors(head.change):
            return
    raise ConcurrentChange(f"{backend.place}: others changed it again and again meanwhile; try again")


def discard_staged_vectors(backend: Backend) -> bool:
    """Deletes the staged vectors; whether there were any."""

    def discard(tx: Transaction) -> bool:
        had = tx.head.staged is not None
        tx.head = replace(tx.head, staged=None)
        return had

    return backend.write(discard, is_change=False)


def check_staged_model(place: str, staged: StagedModel | None, embedder: Embedder) -> None:
    """StoreMismatch unless the staged vectors are of this model."""
    if staged is None or (staged.embedder, staged.dim) != (embedder.name, embedder.dim):
        other = f"of {staged.embedder} ({staged.dim} dimensions)" if staged else "none"
        raise StoreMismatch(
            f"{place}: the vectors kept beside those in use are {other}, not of {embedder.name} ({embedder.dim}); "
            "delete them first (`clew reembed --discard`)"
        )


def model_switched_error(place: str, embedder: str, before: str) -> ModelSwitched:
    """The error for a collection that was switched to another model while it was open."""
    return ModelSwitched(f"{place} was switched from {before} to {embedder} meanwhile; open it again", embedder)


def other_model_error(place: str, name: str, dim: int, embedder: str, width: int) -> StoreMismatch:
    """The error for a collection that was filled by another model than the one it is opened with."""
    return StoreMismatch(
        f"{place} was filled with {name} ({dim} dimensions) and cannot be searched or extended with {embedder} "
        f"({width}); open it with {name}, or run `clew reembed --to {embedder}`"
    )


def check_model_in_use(place: str, embedder: Embedder, name: str, dim: int) -> None:
    """StoreMismatch unless a model is the one that the collection has by now."""
    if (embedder.name, embedder.dim) != (name, dim):
        raise StoreMismatch(
            f"{place} has vectors of {name} ({dim} dimensions) by now, not of {embedder.name} ({embedder.dim})"
        )
