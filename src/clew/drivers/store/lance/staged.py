"""Staged vectors: a dataset of their own beside the collection, named by its head; a switch writes the rows anew."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from clew.core.errors import ConcurrentChange
from clew.core.protocols import Embedder
from clew.core.stored import StagedModel
from clew.core.types import Matrix, Vector
from clew.drivers.store.lance.content import Content, Draft
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.schema import (
    ARRAYS,
    CHUNK,
    DOCUMENT,
    SCALARS,
    Head,
    Row,
    make_schema,
    make_table,
)
from clew.drivers.store.lance.select import select
from clew.drivers.store.lance.snapshot import Snapshot
from clew.drivers.store.lance.staged_datasets import (
    drop_staged,
    list_staged,
    locate_staged,
    read_staged,
    write_staged,
)
from clew.drivers.store.lance.table import MAX_ATTEMPTS
from clew.drivers.store.staging import (
    Kind,
    MissingVector,
    OnProgress,
    StagedVectors,
    check_staged_model,
    parse_missing_row,
    stage_missing_vectors,
)

T = TypeVar("T")
_COLUMNS: Mapping[Kind, tuple[str, ...]] = {"chunks": ("text", "headings", "context"), "summaries": ("summary",)}
_KINDS: Mapping[Kind, int] = {"chunks": CHUNK, "summaries": DOCUMENT}


class LanceStagedVectors:
    """The staged vectors of a collection, as of one version of it."""

    def __init__(self, content: Content, snapshot: Snapshot, options: Mapping[str, str]) -> None:
        self._content, self._snapshot, self._options = content, snapshot, dict(options)
        staged = snapshot.head.staged or {}
        self._dim, self._uri = staged.get("dim", 0), _locate(content, staged)
        self._known = read_staged(self._uri, self._options, self._dim)

    def count_missing(self) -> int:
        """How many rows need a vector from the model."""
        return sum(len(self._list(kind)) for kind in _COLUMNS)

    def list_missing(self, kind: Kind, after: int, limit: int) -> list[MissingVector]:
        """The next rows after one that have no staged vector."""
        rows = sorted((row for row in self._list(kind) if row["row"] > after), key=lambda row: int(row["row"]))
        return [parse_missing_row([row["row"], *(row[name] for name in _COLUMNS[kind])]) for row in rows[:limit]]

    def _list(self, kind: Kind) -> list[Row]:
        found = self._snapshot.find(select(_KINDS[kind]), (*_COLUMNS[kind], "vector", "doc", "chunks"))
        lacking = [row for row in found if not self._is_staged(kind, row)]
        if kind == "chunks":
            return lacking
        shared = {document["row"] for document, _ in self._list_shared()}
        return [row for row in lacking if row.get("vector") is not None and row["row"] not in shared]

    def _is_staged(self, kind: Kind, row: Row) -> bool:
        known = self._known.get(row["row"])
        return known is not None and known[0] == _print(row, kind)

    def _list_shared(self) -> Iterator[tuple[Row, Row]]:
        """Documents of one chunk whose summary has the vector of that chunk, with it."""
        documents = [
            row
            for row in self._snapshot.find(select(DOCUMENT), ("doc", "chunks", "summary", "vector"))
            if row.get("vector") is not None and row["chunks"] == 1
        ]
        wanted = select(CHUNK, doc=[row["row"] for row in documents])
        chunks = {row["doc"]: row for row in self._snapshot.find(wanted, ("doc", "vector", *_COLUMNS["chunks"]))}
        for row in documents:
            if np.array_equal(chunks[row["row"]]["vector"], row["vector"]):
                yield row, chunks[row["row"]]

    def write_vectors(self, kind: Kind, missing: Sequence[MissingVector], vectors: Matrix) -> None:
        """Stores the vectors of rows, except of those whose text has changed since."""
        found = self._snapshot.find(select(_KINDS[kind], row=[each.row for each in missing]), _COLUMNS[kind])
        now = {row["row"]: row for row in found}
        made: dict[int, tuple[str, Vector]] = {}
        for each, vector in zip(missing, vectors, strict=True):
            row = now.get(each.row)
            if row is not None and tuple(row[name] for name in _COLUMNS[kind]) == each.columns:
                made[each.row] = (_print(row, kind), vector)
        self._append(made)

    def copy_chunk_vectors_to_summaries(self) -> None:
        """Stages the vector of a document's only chunk for its summary too, where the two share the one in use."""
        made: dict[int, tuple[str, Vector]] = {}
        for document, chunk in self._list_shared():
            known = self._known.get(chunk["row"])
            if known is not None and not self._is_staged("summaries", document):
                made[document["row"]] = (_print(document, "summaries"), known[1])
        self._append(made)

    def _append(self, made: Mapping[int, tuple[str, Vector]]) -> None:
        if made:
            write_staged(self._uri, self._options, self._dim, made)
            self._known |= made
            if _locate(self._content, self._content.read().head.staged or {}) != self._uri:
                drop_staged(self._uri, self._options)  # others discarded it meanwhile, and this wrote it again

    def copy_valid(self, uri: str) -> None:
        """Writes those of the vectors to another dataset whose row still is what they were made of."""
        columns = ("row", "kind", *(name for names in _COLUMNS.values() for name in names))
        for rows in self._snapshot.scan_batches(f"kind IN ({DOCUMENT}, {CHUNK})", columns):
            valid = [row["row"] for row in rows if self._is_staged(_name_kind(row), row)]
            if valid:
                write_staged(uri, self._options, self._dim, {row: self._known[row] for row in valid})

    def get_vector(self, row: Row) -> Vector | None:
        """The staged vector of a row."""
        known = self._known.get(row["row"])
        return None if known is None else known[1]


def _name_kind(row: Row) -> Kind:
    return "chunks" if row["kind"] == CHUNK else "summaries"


def _print(row: Row, kind: Kind) -> str:
    """What a vector was made of."""
    return "\x1f".join(str(row[name]) for name in _COLUMNS[kind])


def _locate(content: Content, staged: Mapping[str, Any]) -> str:
    return locate_staged(content.table.folder, staged.get("name", ""))


def parse_staged_model(head: Head) -> StagedModel | None:
    """The model of the staged vectors, if there are any."""
    staged = head.staged
    return None if staged is None else StagedModel(staged["embedder"], staged["dim"], staged["was_used"])


def stage_vectors(
    content: Content, options: Mapping[str, str], embedder: Embedder, on_progress: OnProgress | None
) -> int:
    """Makes the staged vectors of a model that are missing; how many were made."""

    def begin(draft: Draft) -> None:
        if draft.head.staged is None:
            draft.head = replace(draft.head, staged=_name_staged(embedder.name, embedder.dim, was_used=False))

    content.write(begin, is_change=False)

    def run(work: Callable[[StagedVectors], T]) -> T:
        snapshot = content.read_for_staging()
        check_staged_model(content.place, parse_staged_model(snapshot.head), embedder)
        with translate_errors(content.place):
            return work(LanceStagedVectors(content, snapshot, options))

    return stage_missing_vectors(run, embedder, on_progress)


def _name_staged(embedder: str, dim: int, *, was_used: bool) -> Mapping[str, Any]:
    return {"embedder": embedder, "dim": dim, "was_used": was_used, "name": uuid.uuid4().hex}


def discard_staged_vectors(content: Content, options: Mapping[str, str]) -> bool:
    """Deletes the staged vectors; whether there were any."""
    dropped: list[Mapping[str, Any]] = []

    def decide(draft: Draft) -> bool:
        dropped[:] = [] if draft.head.staged is None else [draft.head.staged]
        draft.head = replace(draft.head, staged=None)
        return bool(dropped)

    found = content.write(decide, is_change=False)
    for staged in dropped:
        with translate_errors(content.place):
            drop_staged(_locate(content, staged), options)
    return found


def purge_staged_vectors(content: Content, options: Mapping[str, str]) -> list[str]:
    """Removes what is staged of deleted rows, texts and datasets from the files; what could not be done.

    Those that stay get a dataset of another name: whoever still writes to the old one brings nothing back.
    """
    snapshot = content.read()
    with translate_errors(content.place):
        if snapshot.head.staged is not None:
            fresh = {**snapshot.head.staged, "name": uuid.uuid4().hex}
            LanceStagedVectors(content, snapshot, options).copy_valid(_locate(content, fresh))

            def decide(draft: Draft) -> None:
                draft.head = replace(draft.head, staged=fresh)

            content.write(decide, is_change=False, is_eraser=True)
        for uri in _list_unused(content, options):
            drop_staged(uri, options)
        return [
            f"others write staged vectors to {uri} meanwhile; run the erasure again"
            for uri in _list_unused(content, options)
        ]


def _list_unused(content: Content, options: Mapping[str, str]) -> list[str]:
    """The datasets of staged vectors that the collection does not name, of interrupted or discarded work."""
    used = _locate(content, content.read().head.staged or {})
    return [uri for uri in list_staged(content.table.folder, options) if uri != used]


def switch_to_staged_model(content: Content, options: Mapping[str, str], embedder: Embedder) -> None:
    """Writes all rows with the staged vectors in place of those in use, which are then the staged ones.

    What is still missing is made first. A change that others make meanwhile makes it begin again: it is caught up with.
    """
    content.check_writable()
    for _ in range(MAX_ATTEMPTS):
        snapshot = content.read_for_staging()
        check_staged_model(content.place, parse_staged_model(snapshot.head), embedder)
        with translate_errors(content.place):
            staged = LanceStagedVectors(content, snapshot, options)
            stage_missing_vectors(lambda work: work(staged), embedder)  # noqa: B023
            if _swap(content, snapshot, staged, options, embedder):
                return
    raise ConcurrentChange(f"{content.place}: others changed it again and again meanwhile; try again")


def _swap(
    content: Content, snapshot: Snapshot, staged: LanceStagedVectors, options: Mapping[str, str], embedder: Embedder
) -> bool:
    old, schema = snapshot.head, make_schema(embedder.dim, is_half=snapshot.head.is_half)
    used = _name_staged(old.embedder, old.dim, was_used=True)
    head = replace(old, embedder=embedder.name, dim=embedder.dim, staged=used, change=old.change + 1)
    uri = _locate(content, used)

    def make_batches() -> Iterator[pa.RecordBatch]:
        yield from make_table([head.to_row()], schema).to_batches()
        for rows in snapshot.scan_batches(f"kind <> {0}", (*SCALARS, *ARRAYS)):
            kept: dict[int, tuple[str, Vector | None]] = {}
            for row in rows:
                if row["vector"] is not None:
                    kept[row["row"]] = (_print(row, _name_kind(row)), row["vector"])
                    row["vector"] = staged.get_vector(row)
                row["facets"] = None if row["facets"] is None else sorted(row["facets"])
            if kept:
                write_staged(uri, options, old.dim, kept)
            yield from make_table(rows, schema).to_batches()

    reader = pa.RecordBatchReader.from_batches(schema, make_batches())
    if content.table.replace(snapshot.dataset, reader, schema):
        drop_staged(_locate(content, old.staged or {}), options)
        return True
    drop_staged(uri, options)
    return False
