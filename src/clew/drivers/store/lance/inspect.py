"""The doctor of a collection in Lance: what the checksums, the counts and the rows say of each other; its repair."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from clew.core.doctor import Defect, Inspection
from clew.core.facets import collect_facets
from clew.core.types import Chunk, Document
from clew.drivers.store.inspection import InspectedStore, Listed, RawDocument, find_ids, restore
from clew.drivers.store.lance import rows as made
from clew.drivers.store.lance import write
from clew.drivers.store.lance.content import Content, Draft
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.schema import CHUNK, DOCUMENT, PIECE, Row
from clew.drivers.store.lance.select import Select, select
from clew.drivers.store.lance.snapshot import Snapshot


class InspectMethods(InspectedStore):
    """What `doctor` asks of a store; part of LanceStore."""

    _content: Content

    def inspect(self, *, max_chunks: int | None = None) -> Inspection:
        """What is wrong with the counts, the rows and each document, and how much was checked."""
        with translate_errors(self._content.place):
            return super().inspect(max_chunks=max_chunks)

    def list_raw(self) -> list[Listed]:
        """Every document."""
        rows = self._content.read().find(Select(DOCUMENT), ("id", "uri", "title", "chunks"))
        return [Listed(row["id"], row["chunks"] or 0, row["uri"] or row["title"]) for row in rows]

    def inspect_tables(self, *, is_quick: bool) -> Iterator[Defect]:  # noqa: ARG002
        """What is wrong with the rows as a whole: counts of the head, and rows that belong to nothing."""
        snapshot = self._content.read()
        for name, count in _count(snapshot).items():
            if getattr(snapshot.head, name) != count:
                problem = f"the collection says {getattr(snapshot.head, name)} {name} where there are {count}"
                yield Defect("counts", problem, "", "rebuild")
        if orphans := _find_orphans(snapshot):
            yield Defect("orphans", f"{len(orphans)} rows belong to nothing", "", "delete")

    def read_raw(self, doc_id: str) -> RawDocument | None:
        """The rows of a document; None if it is not there."""
        return read_raw(self._content.read(), doc_id)

    def read_facets(self, doc_ids: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What filters see: the facets of documents by id, and facets and seconds of their chunks by id."""
        snapshot = self._content.read()
        wholes = snapshot.find(select(DOCUMENT, id=set(doc_ids)), ("id", "facets"))
        parts = snapshot.find(select(CHUNK, doc=[row["row"] for row in wholes]), ("id", "facets", "seconds"))
        seen = {row["id"]: (row["facets"], row["seconds"]) for row in parts}
        return {row["id"]: row["facets"] for row in wholes}, seen

    def make_facets(self, document: Document, chunk: Chunk | None = None) -> Any:
        """The facets that the store writes."""
        return collect_facets(document, chunk)

    def repair(self, defects: list[Defect]) -> None:
        """Keeps what is sound of damaged documents, deletes what belongs to nothing, and adds up the counts again."""
        self._content.write(lambda draft: _repair(draft, defects))


def read_raw(rows: Snapshot | Draft, doc_id: str) -> RawDocument | None:
    """The rows of a document; None if it is not there."""
    for document in rows.find(select(DOCUMENT, id=[doc_id]), made.DOCUMENT_COLUMNS):
        pieces = rows.find(select(PIECE, doc=[document["row"]]), made.PIECE_COLUMNS)
        chunks = rows.find(select(CHUNK, doc=[document["row"]]), made.CHUNK_COLUMNS)
        return RawDocument(
            [document[name] for name in made.RECORD],
            [made.piece_columns(piece) for piece in sorted(pieces, key=lambda row: int(row["n"]))],
            [made.chunk_columns(chunk, document, None) for chunk in chunks],
        )
    return None


def _count(rows: Snapshot | Draft) -> dict[str, int]:
    chunks = rows.find(Select(CHUNK), ("length",))
    documents = len(rows.find(Select(DOCUMENT), ("id",)))
    return {"documents": documents, "chunks": len(chunks), "length": sum(row["length"] or 0 for row in chunks)}


def _find_orphans(rows: Snapshot | Draft) -> list[Row]:
    """The pieces and chunks of documents that are not there."""
    known = {row["row"] for row in rows.find(Select(DOCUMENT), ("id",))}
    return [
        row for kind in (PIECE, CHUNK) for row in rows.find(Select(kind), ("doc", "length")) if row["doc"] not in known
    ]


def _repair(draft: Draft, defects: Sequence[Defect]) -> None:
    restore(
        find_ids(defects, "rechunk", "keep", "remove"),
        lambda doc_id: read_raw(draft, doc_id),
        lambda doc_id: write.drop_documents(draft, [doc_id]),
        lambda document: write.put_document(draft, document, []),
    )
    draft.remove(_find_orphans(draft))
    real = _count(draft)
    draft.head = replace(draft.head, documents=real["documents"], chunks=real["chunks"], length=real["length"])
