"""The doctor of a collection in Lance: what the checksums, the counts and the rows say of each other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from clew.core.doctor import Defect, Inspection
from clew.core.errors import CollectionDamaged, NotFound
from clew.core.facets import collect_facets
from clew.core.stored import StoredDocument
from clew.core.time import to_timestamp
from clew.core.types import Document
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.evidence import RawDocument, parse_spans
from clew.drivers.store.inspection import DocumentReader, find_ids, inspect_documents, sample_documents
from clew.drivers.store.lance import rows as made
from clew.drivers.store.lance import write
from clew.drivers.store.lance.content import Content, Draft
from clew.drivers.store.lance.errors import translate_errors
from clew.drivers.store.lance.schema import CHUNK, DOCUMENT, PIECE, Row
from clew.drivers.store.lance.select import Select, select
from clew.drivers.store.lance.snapshot import Snapshot
from clew.drivers.store.mend import Mending, plan_mending


class InspectMethods:
    """What `doctor` asks of a store; part of LanceStore."""

    _content: Content

    def inspect(self: "InspectedStore", *, max_chunks: int | None = None) -> Inspection:
        """What is wrong with the counts, the rows and each document, and how much was checked."""
        try:
            with translate_errors(self._content.place):
                snapshot = self._content.read()
                documents = snapshot.find(Select(DOCUMENT), ("id", "uri", "title", "chunks"))
                sizes = [(row["id"], row["chunks"] or 0) for row in documents]
                ids = sample_documents(sizes, max_chunks)
                defects = [*_inspect_rows(snapshot), *inspect_documents(self, ids)]
        except CollectionDamaged as error:
            return Inspection((Defect("truth", str(error)),))
        names = {row["id"]: row["uri"] or row["title"] for row in documents if row["uri"] or row["title"]}
        checked = {"documents": len(ids), "chunks": sum(dict(sizes)[doc_id] for doc_id in ids)}
        return Inspection(tuple(defects), checked, tuple(ids), len(ids) < len(sizes), names)

    def plan_mending(self, doc_id: str) -> Mending:
        """What mends a document whose record or text is damaged."""
        return plan_mending(_read_raw(self._content.read(), doc_id))

    def find_wrong_filters(self, stored: Sequence[StoredDocument]) -> set[str]:
        """The ids of those documents that filters see otherwise than they are: by labels, authors, times, meta."""
        snapshot = self._content.read()
        rows = snapshot.find(select(DOCUMENT, id={each.document.id for each in stored}), ("id", "facets"))
        whole = {row["id"]: (row["row"], row["facets"]) for row in rows}
        found = snapshot.find(select(CHUNK, doc=[row["row"] for row in rows]), ("id", "facets", "seconds"))
        seen = {row["id"]: (row["facets"], row["seconds"]) for row in found}
        return {
            each.document.id
            for each in stored
            if whole[each.document.id][1] != collect_facets(each.document)
            or any(
                seen.get(chunk.id) != (collect_facets(each.document, chunk), to_timestamp(chunk.at))
                for chunk in each.chunks
            )
        }

    def repair(self, defects: list[Defect]) -> None:
        """Mends and removes what the defects call for, and adds up the counts again."""
        if defects:
            self._content.write(lambda draft: _repair(draft, defects))


class InspectedStore(DocumentReader, Protocol):
    """What the methods need of the store that they are part of."""

    _content: Content


def _inspect_rows(snapshot: Snapshot) -> Iterator[Defect]:
    """What is wrong with the rows as a whole: counts of the head, and rows that belong to nothing."""
    head, real = snapshot.head, _count(snapshot)
    for name, count in real.items():
        if getattr(head, name) != count:
            problem = f"the collection says {getattr(head, name)} {name} where there are {count}"
            yield Defect("counts", problem, "", "recount")
    if orphans := _find_orphans(snapshot):
        yield Defect("orphans", f"{len(orphans)} rows belong to nothing", "", "delete")


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


def _read_raw(rows: Snapshot | Draft, doc_id: str) -> RawDocument:
    """The rows of a document, whether or not they are as written, or NotFound."""
    found = rows.find(select(DOCUMENT, id=[doc_id]), (*made.DOCUMENT_COLUMNS, "facets"))
    if not found:
        raise not_found_error(doc_id)
    document = found[0]
    pieces = sorted(rows.find(select(PIECE, doc=[document["row"]]), made.PIECE_COLUMNS), key=lambda row: int(row["n"]))
    chunks = rows.find(select(CHUNK, doc=[document["row"]]), made.CHUNK_COLUMNS)
    spans, counts = parse_spans([made.chunk_columns(row, document, None) for row in chunks])

    def is_filtered_so(given: Document) -> bool:
        return frozenset(document["facets"]) == collect_facets(given)

    record = [document[name] for name in made.RECORD]
    return RawDocument(record, [made.piece_columns(piece) for piece in pieces], spans, counts, is_filtered_so)


def _repair(draft: Draft, defects: Sequence[Defect]) -> None:
    for doc_id in find_ids(defects, "mend", "keep", "trim", "remove"):
        _mend(draft, doc_id)
    draft.remove(_find_orphans(draft))
    real = _count(draft)
    draft.head = replace(draft.head, documents=real["documents"], chunks=real["chunks"], length=real["length"])


def _mend(draft: Draft, doc_id: str) -> None:
    """Writes what mends a document; without a text that can be trusted it goes."""
    try:
        mending = plan_mending(_read_raw(draft, doc_id))
    except NotFound:
        return
    if mending.remedy == "remove":
        write.drop_documents(draft, [doc_id])
        return
    (document,) = write.find_threads(draft, [doc_id]).values()
    doc, gone = document["row"], {*mending.lost, *(piece.n for piece in mending.pieces)}
    draft.remove(draft.find(select(PIECE, doc=[doc], n=gone), ("doc",)))
    write.add_pieces(draft, doc, mending.pieces)
    columns: dict[str, Any] = {"document_kind" if name == "kind" else name: to for name, to in mending.record.items()}
    if mending.remedy == "keep":
        columns["vector"] = None
    if mending.remedy == "trim":
        pieces = draft.find(select(PIECE, doc=[doc]), ("n", "text"))
        chunks = draft.find(select(CHUNK, doc=[doc]), ("doc", "piece", "length"))
        lost = [row for row in chunks if row["piece"] not in {each["n"] for each in pieces}]
        draft.remove(lost)
        columns |= {"chars": sum(len(row["text"]) for row in pieces), "chunks": len(chunks) - len(lost)}
    write.change_document(draft, document, **columns)
