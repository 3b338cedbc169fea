"""What `doctor` asks of a store, the same for every store: what is wrong with each document, and what is sound of it.

A row that is not as written is told by its checksum, rows that do not fit together by comparing them. What is derived
is made again. Of a document whose rows are damaged, the sound ones are kept: its record, its text or messages, and
where these are damaged, what its chunks say.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from clew.core.doctor import Area, Defect, Inspection, Remedy
from clew.core.errors import CollectionDamaged
from clew.core.ids import make_document_id
from clew.core.stored import StoredDocument
from clew.core.thread import SEPARATOR, THREAD_KIND, is_thread
from clew.core.time import from_iso, to_timestamp
from clew.core.types import Chunk, Document, DocumentRecord, Section
from clew.drivers.store import codec, write
from clew.drivers.store import rows as made
from clew.drivers.store.backend import CHUNK, DOCUMENT, PIECE, Backend, Select, Transaction, select
from clew.drivers.store.checks import UNIT_TOLERANCE, are_terms_right
from clew.drivers.store.checksums import ADVICE, UNCHECKED, matches, matches_chunk
from clew.drivers.store.entries import facets_to_json
from clew.drivers.store.read import read_chunks_by_id, read_stored_documents

BATCH = 32  # documents that are read at once; one by one where one of them is damaged
MAX_PLACED = 2000  # chunks of a thread that are read as a search does: each adds up what stands before it
ATTEMPTS = 10  # to look at what others change meanwhile
UNREADABLE = (CollectionDamaged, ValueError, TypeError, KeyError, AttributeError)  # by damage, and by nothing else
Row = Sequence[Any]
T = TypeVar("T")


class RawDocument(NamedTuple):
    """The columns of a document's record, pieces and chunks, whether or not they are as written."""

    record: Row
    pieces: Sequence[Row]
    chunks: Sequence[Row]


class Listed(NamedTuple):
    """A document as a list shows it, whether or not its record is as written."""

    id: str
    chunks: int
    name: str


def inspect_collection(backend: Backend, max_chunks: int | None) -> Inspection:
    """What is wrong with the tables, each document and the index, and how much was checked."""
    try:
        listed = _list_documents(backend)
        chosen = _sample(listed, max_chunks)
        ids, is_sample = tuple(each.id for each in chosen), len(chosen) < len(listed)
        defects = [*backend.inspect(is_quick=is_sample), *_inspect_documents(backend, ids)]
    except CollectionDamaged as error:  # what cannot be read cannot be looked at further
        return Inspection((Defect("truth", str(error).partition("; ")[0], "", backend.remedy_unreadable),))
    checked = {"documents": len(chosen), "chunks": sum(each.chunks or 0 for each in chosen)}
    names = {each.id: each.name for each in listed if each.name}
    return Inspection(tuple(defects), checked, ids, is_sample, names)


def repair_collection(backend: Backend, defects: Sequence[Defect]) -> None:
    """Keeps what is sound of damaged documents, deletes what belongs to nothing, and adds up the counts again."""
    wrong = (each.document for each in defects if each.remedy in ("rechunk", "keep", "remove") and each.document)
    ids = list(dict.fromkeys(wrong))

    def restore(tx: Transaction) -> None:
        """Replaces documents that are not whole by what is sound of them, without chunks; those without a text go.

        It decides by what is stored now: another process may have written one anew since it was found damaged.
        """
        for doc_id in ids:
            document, remedy = salvage(read_raw(tx, doc_id))
            if remedy in ("keep", "remove"):
                write.drop_documents(tx, [doc_id])
            if document and remedy == "keep":
                write.put_document(tx, document, [])
        write.rebuild_blocks(tx, ids)

    backend.repair(defects, ids, restore)


def _list_documents(backend: Backend) -> list[Listed]:
    with backend.read() as snapshot:
        rows = snapshot.find(Select(DOCUMENT), ("id", "uri", "title", "chunks"))
    return [Listed(doc_id, _to_int(chunks), str(uri or title)) for doc_id, uri, title, chunks in rows]


def _to_int(value: Any) -> int:
    return value if isinstance(value, int) else 0  # damage may leave a text


def read_raw(rows: Transaction, doc_id: str) -> RawDocument | None:
    """The rows of a document, whether or not they are as written; None if it is not there."""
    for document in rows.find(select(DOCUMENT, id=[doc_id]), made.RECORD):
        doc = [document["row"]]
        pieces = rows.find(replace(select(PIECE, doc=doc), order="n"), made.PIECE_COLUMNS)
        chunks = rows.find(select(CHUNK, doc=doc), made.CHUNK_COLUMNS)
        return RawDocument(
            [document[name] for name in made.RECORD],
            [made.piece_columns(piece) for piece in pieces],
            [made.chunk_columns(chunk, document, None) for chunk in chunks],
        )
    return None


def _sample(listed: Sequence[Listed], max_chunks: int | None) -> Sequence[Listed]:
    """All documents, or random ones that have about so many chunks together: others every day."""
    if max_chunks is None or sum(each.chunks for each in listed) <= max_chunks:
        return listed
    chosen, total = list[Listed](), 0
    for each in random.sample(listed, len(listed)):
        if not chosen or total + each.chunks <= max_chunks:
            chosen.append(each)
            total += each.chunks
        if total >= max_chunks or len(chosen) >= max_chunks:
            break
    return chosen


def _inspect_documents(backend: Backend, ids: Sequence[str]) -> Iterator[Defect]:
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        try:
            found = list(read_stored_documents(backend, batch))
            wrong = list(dict.fromkeys(each.document for each in _inspect_found(backend, found)))
        except UNREADABLE:
            wrong = list(batch)
        for doc_id in wrong:
            yield from inspect_while_unchanged(lambda: backend.head().change, partial(_inspect_alone, backend, doc_id))


def inspect_while_unchanged(get_change: Callable[[], int], inspect: Callable[[], Iterable[Defect]]) -> list[Defect]:
    """What an inspection finds: what is being changed meanwhile may look wrong, so it is looked at again."""
    for _ in range(ATTEMPTS):
        before = get_change()
        found = list(inspect())
        if not found or get_change() == before:
            break
    return found


def _inspect_alone(backend: Backend, doc_id: str) -> Iterator[Defect]:
    """What is wrong with one document, which may not be readable."""
    try:
        found = list(read_stored_documents(backend, [doc_id]))
    except UNREADABLE as error:
        problem = str(error).removesuffix(f"; {ADVICE}")
        if not isinstance(error, CollectionDamaged):
            problem = f"the document {doc_id!r} cannot be read ({error})"
        with backend.read() as snapshot:
            raw = read_raw(Transaction(snapshot), doc_id)
        yield Defect("truth", problem, doc_id, salvage(raw)[1])
        return
    yield from _inspect_found(backend, found)


def read_facets(backend: Backend, doc_ids: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What filters see: the facets of documents by id, and facets and seconds of their chunks by id."""
    with backend.read() as snapshot:
        wholes = snapshot.find(select(DOCUMENT, id=set(doc_ids)), ("id", "facets", "row"))
        parts = snapshot.find(select(CHUNK, doc=[row for *_, row in wholes]), ("id", "facets", "seconds"))
    return {doc_id: facets for doc_id, facets, _ in wholes}, {chunk_id: (*seen,) for chunk_id, *seen in parts}


def _inspect_found(backend: Backend, found: Sequence[StoredDocument]) -> Iterator[Defect]:
    ids = [each.document.id for each in found]
    wholes, parts = read_facets(backend, ids)
    with backend.read() as snapshot:
        pending = {doc_id for (doc_id,) in snapshot.find(select(DOCUMENT, id=ids, pending=[1]), ("id",))}

    def make_facets(document: Document, chunk: Chunk | None = None) -> Any:
        return backend.pack_facets(facets_to_json(document, chunk))

    for stored in found:
        yield from inspect_stored(stored, is_pending=stored.document.id in pending)
        document, name = stored.document, f"the document {stored.document.id!r}"
        seen = [(make_facets(document, chunk), to_timestamp(chunk.at)) for chunk in stored.chunks]
        if wholes.get(document.id) != make_facets(document) or seen != [parts.get(chunk.id) for chunk in stored.chunks]:
            problem = f"filters see {name} otherwise than it is (labels, author, time or meta)"
            yield Defect("filters", problem, document.id, "rechunk")
        if is_thread(document) and not _are_places_right(backend, stored.chunks):
            problem = f"the sizes of the messages of {name} are not those that its chunks are placed by"
            yield Defect("counts", problem, document.id, "rechunk")


def _are_places_right(backend: Backend, chunks: Sequence[Chunk]) -> bool:
    shown = {chunk.id: chunk for chunk in chunks[:: 1 + len(chunks) // MAX_PLACED]}
    try:
        with backend.read() as snapshot:
            return read_chunks_by_id(snapshot, list(shown)) == shown
    except CollectionDamaged:
        return False


def inspect_stored(stored: StoredDocument, *, is_pending: bool = False) -> Iterator[Defect]:
    """What is wrong with a document whose rows are as they were written; the vector of its summary may be pending."""
    document, chunks, sections = stored.document, stored.chunks, stored.document.sections
    name, summary = f"the document {document.id!r}", stored.summary_vector
    misplaced = sum(chunk.text != document.text[chunk.start : chunk.end] for chunk in chunks)
    off = _count_wrong_lengths(stored.vectors)
    are_terms_wrong = not all(map(are_terms_right, stored.terms))
    is_cut_off = not _are_sections_in_order(document)
    is_misnumbered = any(chunk.index != number or chunk.total != len(chunks) for number, chunk in enumerate(chunks))
    lacks_vector = bool(document.summary and summary is None and chunks) and not is_pending
    has_wrong_vector = summary is not None and bool(_count_wrong_lengths(summary[None]))
    faults: list[tuple[object, Area, str, Remedy]] = [
        (misplaced, "spans", f"{misplaced} chunks of {name} are not where they say in its text", "rechunk"),
        (is_cut_off, "spans", f"the sections of {name} do not lie in its text in order", "keep"),
        (is_misnumbered, "counts", f"the chunks of {name} are not numbered from 0 to the last", "rechunk"),
        (off, "vectors", f"{off} vectors of {name} are not of unit length", "rechunk"),
        (are_terms_wrong, "postings", f"the terms of {name} are not sorted, or not counted", "rechunk"),
        (lacks_vector, "summaries", f"the summary of {name} has no vector", "rebuild"),
        (has_wrong_vector, "summaries", f"the vector of the summary of {name} is not of unit length", "rebuild"),
    ]
    yield from (Defect(area, problem, document.id, remedy) for is_wrong, area, problem, remedy in faults if is_wrong)
    parents = ((place, each.parent) for place, each in enumerate(sections) if each.parent is not None)
    if any(not 0 <= parent < len(sections) or parent == place for place, parent in parents):
        yield Defect(
            "threads" if is_thread(document) else "spans",
            f"a section of {name} stands below one that is not there",
            document.id,
            next_step="add its source again; a thread that was added message by message can be read, but not followed",
        )


def _are_sections_in_order(document: Document) -> bool:
    at = 0
    for section in document.sections:
        if not at <= section.start <= section.end <= len(document.text):
            return False
        at = section.start
    return True


def _count_wrong_lengths(vectors: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> int:
    """How many vectors are not of unit length, of those that are made."""
    vectors = vectors[~np.isnan(vectors).all(axis=1)]
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return int((~(np.abs(lengths - 1.0) <= UNIT_TOLERANCE)).sum())


def inspect_staged(name: str | None, used: str, count: int, *, has_wrong: bool) -> Iterator[Defect]:
    """What is wrong with staged vectors: of no model, of that in use, of another width or length."""
    problems = {
        f"{count} staged vectors are of no model": name is None and count,
        f"vectors of {name} are staged, which is the model in use": name == used,
        f"staged vectors of {name} are not of its width, or not of unit length": name is not None and has_wrong,
    }
    yield from (Defect("staged", problem, "", "delete") for problem, is_wrong in problems.items() if is_wrong)


def salvage(raw: RawDocument | None) -> tuple[Document | None, Remedy]:
    """The document that the sound rows make, and its remedy: `rechunk` where it is whole, else `keep` or `remove`."""
    if raw is None:
        return None, ""
    record = _read_or_none(lambda: codec.parse_record(raw.record))
    whole = _read_or_none(partial(codec.build_document, raw.record, raw.pieces))
    if whole and _are_sections_in_order(whole):
        return whole, "rechunk"
    chunks = sorted((each for each in raw.chunks if matches_chunk(each)), key=lambda each: (each[11] or 0, each[13]))
    pieces = [each for each in raw.pieces if matches(each[-1], each[-2], *each[:-2])]
    if not pieces and not chunks:
        return None, "remove"
    is_split = any(each[11] is not None for each in chunks) or any(each[5] is not None for each in pieces)
    text, sections = _join_messages(pieces, chunks) if is_split else _join_page(raw, pieces, chunks)
    if record is None:
        record = _make_record(raw.record, chunks, sections, THREAD_KIND if is_split else "page")
    kept = (record.kind, record.title, record.uri, record.summary, record.meta, "", "", record.access)
    return Document(record.id, text, sections, *kept, record.summary_by, record.created, record.updated), "keep"


def _read_or_none(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except UNREADABLE:
        return None


def _make_record(columns: Row, chunks: Sequence[Row], sections: Sequence[Section], kind: str) -> DocumentRecord:
    """A record of what is certain: labels are not, so that only who has no filter sees the document."""
    doc_id, _, uri, *_ = columns
    title = next((section.label for section in sections if section.label), "")
    channel = next((meta["channel"] for each in chunks if "channel" in (meta := codec.parse_meta(each[8]))), "")
    uri = uri if doc_id == make_document_id(str(uri)) else ""
    return DocumentRecord(doc_id, title, uri, kind, meta={"channel": channel} if channel else {}, access=frozenset())


def _join_page(raw: RawDocument, pieces: Sequence[Row], chunks: Sequence[Row]) -> tuple[str, tuple[Section, ...]]:
    """The text and sections of a page; its text alone as its chunks say it where a piece of it is damaged or gone."""
    text = "".join(each[1] for each in pieces)
    if len(pieces) < len(raw.pieces) or len(text) < max((each[14] for each in chunks), default=0):
        return _join_chunks(chunks) or text, ()
    sections = _read_or_none(lambda: codec.join_pieces("", pieces)[1]) or ()
    return text, sections if _are_sections_in_order(Document("", text, sections)) else ()


def _join_messages(pieces: Sequence[Row], chunks: Sequence[Row]) -> tuple[str, tuple[Section, ...]]:
    """The text and sections of the messages whose piece is sound, or a chunk of theirs."""
    made = {each[0]: each for each in pieces if _has_one_section(each)}
    for n in {each[11] for each in chunks} - made.keys():
        own = [each for each in chunks if each[11] == n]
        text, meta = _join_chunks(own) + SEPARATOR, codec.parse_meta(own[0][8])
        if message := meta.get("message"):
            access = frozenset(map(str, meta["access"])) if "access" in meta else None
            author, at, guessed = str(meta.get("author", "")), from_iso(own[0][7]), bool(meta.get("guessed"))
            section = Section(0, len(text), "", None, message, author, at, None, guessed, access)
            reply = meta.get("reply_to")
            made[n] = (n, text, codec.sections_to_json([section]), 0, 0, message, reply, None, 0, UNCHECKED)
    return codec.join_pieces("", [made[n] for n in sorted(made)])


def _has_one_section(piece: Row) -> bool:
    sections = _read_or_none(lambda: codec.parse_sections(piece[2])) or []
    return [(each.start, each.end) for each in sections] == [(0, len(piece[1]))]


def _join_chunks(chunks: Sequence[Row]) -> str:
    """What chunks say, each at its place; blanks where none says anything."""
    text = ""
    for columns in chunks:
        said, start = columns[4], columns[13]
        text = text.ljust(start) + said[max(0, len(text) - start) :]
    return text
