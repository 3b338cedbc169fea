"""The inspection and repair of a store for `doctor`, over the rows of any backend.

Checksums reveal corrupt rows, comparisons reveal inconsistent ones. A repair rebuilds derived data. For a document with
damaged rows it keeps the sound ones: its record, its text or messages, and where these are damaged, the text of its
chunks. Each backend adds checks of its own files, indexes and tables.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from clew.core.doctor import Area, Defect, Inspection, Remedy
from clew.core.errors import CollectionDamaged
from clew.core.ids import make_document_id
from clew.core.stored import PackedTerms, StoredDocument
from clew.core.thread import SEPARATOR, THREAD_KIND, is_thread
from clew.core.time import from_iso, to_timestamp
from clew.core.types import Chunk, Document, DocumentRecord, Section
from clew.drivers.store import checksums, write
from clew.drivers.store import rows as made
from clew.drivers.store.backend import (
    BLOCK,
    CHUNK,
    DOCUMENT,
    PIECE,
    STAGED,
    TABLES,
    Backend,
    Operator,
    Row,
    Select,
    Transaction,
    select,
)
from clew.drivers.store.checks import UNIT_TOLERANCE
from clew.drivers.store.checksums import ADVICE, UNCHECKED
from clew.drivers.store.read import read_chunks_by_id, read_stored_documents
from clew.drivers.store.rows import MAX_COUNT, facets_to_json

BATCH = 32  # documents per read; if one of them is damaged, each is read alone
MAX_ROWS = 20_000  # chunks whose documents are counted together
MAX_PLACED = 2000  # chunks of a thread that are read as in a search, which adds up the sizes before each
MAX_STAGED = 1000  # staged vectors whose length is checked
ATTEMPTS = 10  # to inspect something that others keep changing
UNREADABLE = (CollectionDamaged, ValueError, TypeError, KeyError, AttributeError)  # raised only by damaged data
RECOVERED, SHOWN = "recovered-", 60  # the id prefix of documents without a record, and characters of text to quote
_PARTS = {PIECE: ("doc", "text"), BLOCK: ("doc",), CHUNK: ("doc", "length", "pending")}
T = TypeVar("T")


def inspect_collection(backend: Backend, *, max_chunks: int | None = None) -> Inspection:
    """Find defects of the tables, the documents and the index, and count the checked items."""
    try:
        with backend.read() as snapshot:
            counted = count_rows(rows := Transaction(snapshot))
            defects = list(_inspect_rows(rows, counted))
        listed = list(counted.documents.values())
        chosen = _sample(listed, max_chunks)
        ids, is_sample = tuple(row["id"] for row in chosen), len(chosen) < len(listed)
        defects += [*backend.inspect(is_quick=is_sample), *_inspect_documents(backend, ids)]
    except CollectionDamaged as error:  # unreadable: no further checks are possible
        return Inspection((Defect("truth", str(error).partition("; ")[0], "", backend.remedy_unreadable),))
    checked = {"documents": len(chosen), "chunks": sum(_to_int(row["chunks"]) for row in chosen)}
    names = {row["id"]: str(row["uri"] or row["title"]) for row in listed if row["uri"] or row["title"]}
    return Inspection(tuple(defects), checked, ids, is_sample, names)


def repair_collection(backend: Backend, defects: Sequence[Defect]) -> None:
    """Keep the sound parts of damaged documents, delete orphan rows, and recount."""
    wrong = (each.document for each in defects if each.remedy in ("rechunk", "keep", "remove") and each.document)
    ids = list(dict.fromkeys(wrong))

    def mend(tx: Transaction) -> None:
        """Repair the current state: another process may have replaced a document since the inspection.

        Replace incomplete documents by their sound parts, without chunks; drop those without text.
        """
        counted = count_rows(tx)
        tx.number_from(counted.last)
        tx.head = replace(tx.head, **counted.counts)  # type: ignore[arg-type]
        tx.remove(counted.strays)
        found = tx.find(select(DOCUMENT, id=set(ids)), made.RECORD)
        salvaged = [salvage(tx, row) for row in found]
        write.drop_documents(tx, [row["id"] for row, (_, to) in zip(found, salvaged, strict=True) if to != "rechunk"])
        for document in (*counted.lost.values(), *(each for each, remedy in salvaged if remedy == "keep")):
            if document:
                write.put_document(tx, document, [])
        write.rebuild_blocks(tx, ids)
        if any(each.area == "staged" and each.remedy for each in defects):
            tx.remove(_find_wrong_staged(tx))
            if not tx.find(replace(select(STAGED), limit=1), ()):
                tx.head = replace(tx.head, staged=None)
        tx.head = replace(tx.head, change=tx.head.change + 1)

    backend.repair(defects, ids, mend)


# -- rows


@dataclass
class Counted:
    """A recount of the rows of a collection: documents by number, counts, and rows without a document (`strays`).

    lost: Documents without a record, by number, salvaged from their sound rows.
    """

    documents: dict[Any, Row]
    counts: dict[str, int]
    last: int
    miscounted: list[str] = field(default_factory=list)
    strays: list[Row] = field(default_factory=list)
    lost: dict[Any, Document | None] = field(default_factory=dict)


def count_rows(rows: Transaction) -> Counted:
    """Recount the rows, some documents at a time."""
    documents = {row["row"]: row for row in rows.find(Select(DOCUMENT), ("id", "uri", "title", "chunks", "chars"))}
    counts = {"documents": len(documents), "chunks": 0, "length": 0, "pending": 0}
    counted, numbers = Counted(documents, counts, max(documents, default=0)), set(documents)
    for docs, where in _split_documents(documents):
        parts = {kind: rows.find(Select(kind, where), columns) for kind, columns in _PARTS.items()}
        own, chars = parts[CHUNK], Counter[Any]()
        for piece in parts[PIECE]:
            chars[piece["doc"]] += len(piece["text"] or "")  # none where it is damaged
        chunks = Counter(row["doc"] for row in own)
        counts["chunks"] += len(own)
        counts["length"] += sum(_to_int(row["length"]) for row in own)
        counts["pending"] += sum(row["pending"] == 1 for row in own)
        sizes = ((documents[doc], chunks[doc], chars[doc]) for doc in docs)
        counted.miscounted += [row["id"] for row, *real in sizes if [row["chunks"], row["chars"]] != real]
        counted.strays += [row for some in parts.values() for row in some if row["doc"] not in documents]
        numbers.update(row["row"] for row in own)
    counted.last = max(numbers, default=0)
    lost = list(dict.fromkeys(row["doc"] for row in counted.strays if row["kind"] != BLOCK))
    records = [row for row in rows.find(Select(DOCUMENT), made.RECORD) if not _is_as_written(row)] if lost else []
    for doc in lost:
        moved = next((row for row in records if _is_as_written({**row, "row": doc})), None)
        if moved:  # its number is damaged
            counted.strays.append({**documents.pop(moved["row"]), "doc": doc})
        counted.lost[doc] = salvage(rows, {"id": f"{RECOVERED}{doc}", "uri": "", **(moved or {}), "row": doc})[0]
    counted.strays += [row for row in rows.find(Select(STAGED), ()) if row["row"] not in numbers]
    return counted


def _is_as_written(record: Row) -> bool:
    return checksums.matches(*(record[name] for name in ("sum", *made.RECORD[:-1])))


def _split_documents(
    documents: Mapping[int, Row],
) -> Iterator[tuple[Sequence[int], tuple[tuple[str, Operator, int], ...]]]:
    """Yield batches of documents (numbers) with about MAX_ROWS chunks, and the condition for the rows of each batch."""
    batch, size, after = list[int](), 0, tuple[tuple[str, Operator, int], ...]()
    for doc in sorted(documents):
        if size > MAX_ROWS:
            yield batch, (*after, ("doc", "<", doc))
            batch, size, after = [], 0, (("doc", ">", doc - 1),)
        batch.append(doc)
        size += 1 + _to_int(documents[doc]["chunks"])
    yield batch, after


def _to_int(value: Any) -> int:
    return value if isinstance(value, int) else 0  # a damaged number may be a text


def _inspect_rows(rows: Transaction, counted: Counted) -> Iterator[Defect]:
    """Yield the defects of counts, orphan rows and staged vectors."""
    head = rows.head
    for name, real in counted.counts.items():
        if (stored := getattr(head, name)) != real:
            yield Defect("counts", f"the collection says {stored} {name} where there are {real}", "", "rebuild")
    if counted.last > head.last:
        yield Defect("counts", "there are rows after the last row of the collection", "", "rebuild")
    for doc_id in counted.miscounted:
        yield Defect("counts", f"the document {doc_id!r} miscounts its chunks or characters", doc_id, "rechunk")
    kept = {doc: document for doc, document in counted.lost.items() if document}
    for document in kept.values():
        if not document.id.startswith(RECOVERED):
            yield Defect(
                "truth", f"the number of the document {document.uri or document.id!r} is damaged", document.id, "keep"
            )
            continue
        problem = f"the record of the document that begins {document.text[:SHOWN]!r} is gone"
        advice = f"its text is kept as {document.id}, which nobody sees by a label; add its source again, then drop it"
        yield Defect("truth", problem, document.id, "keep", next_step=advice)
    for kind, count in Counter(row["kind"] for row in counted.strays if row.get("doc") not in kept).items():
        yield Defect("orphans", f"{count} rows of {TABLES[kind]} belong to nothing", "", "delete")
    is_in_use = head.staged is not None and head.staged.embedder == head.embedder
    if (wrong := _find_wrong_staged(rows, MAX_STAGED)) or is_in_use:
        problem = f"{len(wrong)} staged vectors are damaged, of another width, of the model in use, or of none"
        yield Defect("staged", problem, "", "delete")


def _find_wrong_staged(rows: Transaction, limit: int | None = None) -> list[Row]:
    """Find staged vectors that are damaged or of a wrong dimension; all if the staged model is missing or active."""
    found, model = rows.find(replace(select(STAGED), limit=limit), ()), rows.head.staged
    if model is None or model.embedder == rows.head.embedder:
        return found

    def is_right(batch: Sequence[Row]) -> bool:
        read = _read_or_none(lambda: rows.find(select(STAGED, row=[each["row"] for each in batch]), ("vector",))) or []
        vectors = [each["vector"] for each in read if each["vector"] is not None and len(each["vector"]) == model.dim]
        return len(vectors) == len(batch) and not _count_wrong_lengths(np.stack(vectors))

    batches = (found[start : start + BATCH] for start in range(0, len(found), BATCH))
    return [each for batch in batches if not is_right(batch) for each in batch if not is_right([each])]


# -- documents


def _sample(listed: Sequence[Row], max_chunks: int | None) -> Sequence[Row]:
    """Return all documents, or a random sample with about `max_chunks` chunks."""
    if max_chunks is None or sum(_to_int(row["chunks"]) for row in listed) <= max_chunks:
        return listed
    chosen, total = list[Row](), 0
    for row in random.sample(listed, len(listed)):
        size = _to_int(row["chunks"])
        if not chosen or total + size <= max_chunks:
            chosen.append(row)
            total += size
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
    """Inspect, and repeat while the collection changes: a concurrent change may look like a defect."""
    for _ in range(ATTEMPTS):
        before = get_change()
        found = list(inspect())
        if not found or get_change() == before:
            break
    return found


def _inspect_alone(backend: Backend, doc_id: str) -> Iterator[Defect]:
    """Yield the defects of one document, which may be unreadable."""
    try:
        found = list(read_stored_documents(backend, [doc_id]))
    except UNREADABLE as error:
        problem = f"the document {doc_id!r} cannot be read ({error})"
        if isinstance(error, CollectionDamaged):
            problem = error.message.removesuffix(f"; {ADVICE}")
        with backend.read() as snapshot:
            rows = Transaction(snapshot)
            records = rows.find(select(DOCUMENT, id=[doc_id]), made.RECORD)
            yield Defect("truth", problem, doc_id, salvage(rows, records[0])[1] if records else "")
        return
    yield from _inspect_found(backend, found)


def read_facets(backend: Backend, doc_ids: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the filterable columns by id: facets and `pending` of documents; facets, time and channel of chunks."""
    with backend.read() as snapshot:
        wholes = snapshot.find(select(DOCUMENT, id=set(doc_ids)), ("row", "id", "facets", "pending"))
        parts = snapshot.find(select(CHUNK, doc=[row for row, *_ in wholes]), ("id", "facets", "seconds", "channel"))
    return {doc_id: (*seen,) for _, doc_id, *seen in wholes}, {chunk_id: (*seen,) for chunk_id, *seen in parts}


def _inspect_found(backend: Backend, found: Sequence[StoredDocument]) -> Iterator[Defect]:
    wholes, parts = read_facets(backend, [each.document.id for each in found])

    def make_facets(document: Document, chunk: Chunk | None = None) -> Any:
        return backend.pack_facets(facets_to_json(document, chunk))

    for stored in found:
        document, name = stored.document, f"the document {stored.document.id!r}"
        facets, pending = wholes.get(document.id, (None, None))
        yield from inspect_stored(stored, is_pending=pending == 1)
        seen = [(make_facets(document, each), to_timestamp(each.at), made.get_channel(each)) for each in stored.chunks]
        if facets != make_facets(document) or seen != [parts.get(chunk.id) for chunk in stored.chunks]:
            problem = f"filters see {name} otherwise than it is (labels, author, time, channel or meta)"
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
    """Yield the defects of a document with correct checksums; `is_pending`: its summary needs no vector yet."""
    document, chunks, sections = stored.document, stored.chunks, stored.document.sections
    name, summary = f"the document {document.id!r}", stored.summary_vector
    misplaced = sum(chunk.text != document.text[chunk.start : chunk.end] for chunk in chunks)
    off = _count_wrong_lengths(stored.vectors)
    are_terms_wrong = not all(map(_are_terms_right, stored.terms))
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


def _are_terms_right(terms: PackedTerms) -> bool:
    """Return whether a chunk's terms are sorted by hash, each with a count, and its length is their sum.

    The length may exceed the sum if a count is capped at MAX_COUNT.
    """
    hashes, counts = terms.hashes, terms.counts
    if len(hashes) != len(counts) or not counts.all() or not (hashes[:-1] < hashes[1:]).all():
        return False  # compare, since a difference may overflow 64 bits
    total = int(counts.sum(dtype=np.int64))
    return terms.length == total or (terms.length > total and int(counts.max(initial=0)) == MAX_COUNT)


def _count_wrong_lengths(vectors: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> int:
    """Count the vectors that are not of unit length, ignoring pending ones."""
    vectors = vectors[~np.isnan(vectors).all(axis=1)]
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return int((~(np.abs(lengths - 1.0) <= UNIT_TOLERANCE)).sum())


# -- salvaging a document


def salvage(rows: Transaction, row: Row) -> tuple[Document | None, Remedy]:
    """Rebuild a document from its sound rows; the remedy is `rechunk` if it is complete, else `keep` or `remove`.

    row: Its record, perhaps damaged.
    """
    doc, columns = [row["row"]], [row.get(name) for name in made.RECORD]
    stored = rows.find(replace(select(PIECE, doc=doc), order="n"), made.PIECE_COLUMNS)
    record = _read_or_none(lambda: made.parse_record(columns))
    whole = _read_or_none(lambda: made.build_document(columns, list(map(made.piece_columns, stored))))
    if whole and _are_sections_in_order(whole):
        return whole, "rechunk"
    found = rows.find(select(CHUNK, doc=doc), made.CHUNK_COLUMNS)
    sound = (each for each in found if made.matches_chunk(made.chunk_columns(each)))
    chunks = sorted(sound, key=lambda each: (each["piece"] or 0, each["start"]))
    pieces = [each for each in stored if made.matches_piece(made.piece_columns(each))]
    if not pieces and not chunks:
        return None, "remove"
    if any(each["piece"] is not None for each in chunks) or any(each["message"] is not None for each in pieces):
        kind, (text, sections) = THREAD_KIND, _join_messages(pieces, chunks)
    else:
        kind, (text, sections) = "page", _join_page(stored, pieces, chunks)
    record = record or _make_record(row, chunks, sections, kind)
    kept = (record.kind, record.title, record.uri, record.summary, record.meta, "", "", record.access)
    return Document(record.id, text, sections, *kept, record.summary_by, record.created, record.updated), "keep"


def _read_or_none(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except UNREADABLE:
        return None


def _make_record(row: Row, chunks: Sequence[Row], sections: Sequence[Section], kind: str) -> DocumentRecord:
    """Make a record from certain values. Labels are uncertain, so the set is empty: only unfiltered reads show it."""
    title = next((section.label for section in sections if section.label), "")
    channel = next((meta["channel"] for each in chunks if "channel" in (meta := made.parse_meta(each["meta"]))), "")
    uri = row["uri"] if row["id"] == make_document_id(str(row["uri"])) else ""
    return DocumentRecord(row["id"], title, uri, kind, meta={"channel": channel} if channel else {}, access=frozenset())


def _join_page(stored: Sequence[Row], pieces: Sequence[Row], chunks: Sequence[Row]) -> tuple[str, tuple[Section, ...]]:
    """Join the text and sections of a page; if a piece is damaged or gone, only the text, from the chunks."""
    text = "".join(each["text"] for each in pieces)
    if len(pieces) < len(stored) or len(text) < max((each["stop"] for each in chunks), default=0):
        return _join_chunks(chunks, "".join(str(each["text"]) for each in stored)) or text, ()
    sections = _read_or_none(lambda: made.join_pieces("", map(made.piece_columns, pieces))[1]) or ()
    return text, sections if _are_sections_in_order(Document("", text, sections)) else ()


def _join_messages(pieces: Sequence[Row], chunks: Sequence[Row]) -> tuple[str, tuple[Section, ...]]:
    """Join the text and sections of the messages that have a sound piece or chunk."""
    said = {each["n"]: made.piece_columns(each) for each in pieces if _has_one_section(each)}
    for n in {each["piece"] for each in chunks} - said.keys():
        own = [each for each in chunks if each["piece"] == n]
        text, meta = _join_chunks(own) + SEPARATOR, made.parse_meta(own[0]["meta"])
        if message := meta.get("message"):
            access = frozenset(map(str, meta["access"])) if "access" in meta else None
            author, at, guessed = str(meta.get("author", "")), from_iso(own[0]["at"]), bool(meta.get("guessed"))
            section = Section(0, len(text), "", None, message, author, at, None, guessed, access)
            reply = meta.get("reply_to")
            said[n] = (n, text, made.sections_to_json([section]), 0, 0, message, reply, None, 0, UNCHECKED)
    return made.join_pieces("", [said[n] for n in sorted(said)])


def _has_one_section(piece: Row) -> bool:
    sections = _read_or_none(lambda: made.parse_sections(piece["sections"])) or []
    return [(each.start, each.end) for each in sections] == [(0, len(piece["text"]))]


def _join_chunks(chunks: Sequence[Row], damaged: str = "") -> str:
    """Join the text of chunks at their places; fill gaps with white space of the damaged text, else line ends."""
    text = ""
    for each in chunks:
        before = damaged[len(text) : each["start"]]
        text = (text + before if before.isspace() else text).ljust(each["start"], "\n")
        text += each["text"][max(0, len(text) - each["start"]) :]
    after = damaged[len(text) :]
    return text + after if after.isspace() else text
