"""Reads of documents, threads, chunks and vectors from a snapshot, as they were put."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from clew.core.candidates import ThreadPlace
from clew.core.facets import Condition, expand_document_filter, expand_filter
from clew.core.filter import EVERYTHING, Filter
from clew.core.stored import PackedTerms, StoredDocument
from clew.core.thread import BLOCK_BITS, RUN, ThreadEntry, ThreadPart, ThreadView, Waiting, view_document
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Section, Vector
from clew.drivers.store import checksums
from clew.drivers.store import rows as made
from clew.drivers.store.backend import (
    BLOCK,
    CHUNK,
    DOCUMENT,
    PIECE,
    Backend,
    Columns,
    Select,
    Snapshot,
    named_documents,
    select,
)
from clew.drivers.store.checks import not_found_error
from clew.drivers.store.filtered import FilteredSnapshot, redact_document
from clew.drivers.store.rows import DOCUMENT_PAGE, take_batch

MAX_PART = 512  # messages of a part of a thread; if an edit needs more, the whole thread is read
_PLACED = ("row", "id", "chars", "chunks")  # the columns of a document for placing its chunks
Documents = Mapping[int, tuple[str, int, int]]  # id, characters and chunks of documents, by row
Before = Mapping[tuple[int, int], tuple[int, int]]  # characters and chunks before a message, by (document, number)


def find_document(snapshot: Snapshot, doc_id: str, columns: Sequence[str]) -> Columns:
    """Find columns of a document; NotFound if there is no such document."""
    found = snapshot.find(select(DOCUMENT, id=(doc_id,)), columns)
    if not found:
        raise not_found_error(doc_id)
    return found[0]


def find_pieces(snapshot: Snapshot, docs: Collection[int]) -> list[Columns]:
    """Find the pieces of documents, sorted by number; CollectionDamaged if a number is corrupt."""
    found = snapshot.find(select(PIECE, doc=docs), made.PIECE_COLUMNS)
    try:
        return sorted(found, key=itemgetter(0))
    except TypeError as error:
        raise checksums.damaged_error("the order of the text of a document") from error


def read_document(snapshot: Snapshot, doc_id: str) -> Document:
    """Read a document with its text, or raise NotFound."""
    columns = find_document(snapshot, doc_id, made.RECORD)
    number = columns[made.ROW]
    if isinstance(snapshot, FilteredSnapshot):
        if snapshot.shows_part(number):
            chunks = parse_chunks(snapshot.whole, snapshot.find(select(CHUNK, doc=(number,)), made.CHUNK_COLUMNS))
            return redact_document(read_document(snapshot.whole, doc_id), made.parse_record(columns), chunks)
        snapshot = snapshot.whole
    return made.build_document(columns, find_pieces(snapshot, (number,)))


def list_records(snapshot: Snapshot, where: Filter = EVERYTHING) -> Iterator[DocumentRecord]:
    """List the records of the documents that a filter admits, by uri and id."""
    alternatives = expand_document_filter(where)
    named = named_documents(alternatives)
    columns = {} if named is None else {"id": named}
    is_by_id = named is not None and all(len(each.groups) == 1 for each in alternatives)
    found = snapshot.find(select(DOCUMENT, None if is_by_id else alternatives, **columns), made.RECORD)
    return iter(sorted(map(made.parse_record, found), key=attrgetter("uri", "id")))  # a damaged one cannot be sorted


def list_files(snapshot: Snapshot) -> list[tuple[str, str]]:
    """List the id and uri of each document with a stamp, unchecked: a damaged one may be anything."""
    found = snapshot.find(select(DOCUMENT), ("id", "uri", "stamp"))
    return [(str(doc_id), str(uri)) for doc_id, uri, stamp in found if stamp]


def add_up_before(snapshot: Snapshot, chunks: Iterable[Columns], documents: Documents) -> Before:
    """Compute the characters and chunks before each message of some chunks; omit messages with inconsistent sizes."""
    pieces = {(each[1], each[2]) for each in chunks if each[2] is not None}
    if not pieces:
        return {}
    docs, blocks = {doc for doc, _ in pieces}, {n >> BLOCK_BITS for _, n in pieces}
    starts = _add_up_blocks(snapshot.find(select(BLOCK, doc=docs), ("doc", "block", "chars", "chunks")), documents)
    found = snapshot.find(select(BLOCK, doc=docs, block=blocks), made.BLOCK_COLUMNS)
    proved = {
        (doc, block): _add_up_sizes(sizes)
        for doc, block, chars, count, sizes, stored in found
        if (doc, block) in starts and checksums.matches(stored, doc, block, chars, count, sizes)
    }
    before: dict[tuple[int, int], tuple[int, int]] = {}
    for doc, n in pieces:
        block = (doc, n >> BLOCK_BITS)
        if n in proved.get(block, ()):
            (chars, count), (more_chars, more_chunks) = starts[block], proved[block][n]
            before[doc, n] = chars + more_chars, count + more_chunks
    return before


@lru_cache(256)  # hits often come from the same threads
def _add_up_sizes(sizes: str) -> dict[int, tuple[int, int]]:
    """Compute the characters and chunks before each message, within its block."""
    chars, chunks, before = 0, 0, dict[int, tuple[int, int]]()
    for n, more_chars, more_chunks in json.loads(sizes):
        before[n] = chars, chunks
        chars, chunks = chars + more_chars, chunks + more_chunks
    return before


def _add_up_blocks(blocks: Iterable[Columns], documents: Documents) -> dict[tuple[int, int], tuple[int, int]]:
    """Compute the characters and chunks before each block; omit threads whose blocks do not add up to the whole."""
    starts: dict[tuple[int, int], tuple[int, int]] = {}
    for doc, own in made.group_by(0, blocks).items():
        chars, chunks, found = 0, 0, dict[tuple[int, int], tuple[int, int]]()
        for _, block, more_chars, more_chunks in sorted(own, key=lambda columns: int(columns[1])):
            found[doc, block] = chars, chunks
            chars, chunks = chars + more_chars, chunks + more_chunks
        if doc in documents and (chars, chunks) == documents[doc][1:]:
            starts |= found
    return starts


def _find_documents(snapshot: Snapshot, chunks: Iterable[Columns]) -> Documents:
    found = snapshot.find(select(DOCUMENT, row={doc for _, doc, *_ in chunks}), _PLACED)
    return {row: (doc_id, chars, count) for row, doc_id, chars, count in found}


def parse_chunks(snapshot: Snapshot, chunks: Sequence[Columns], documents: Documents | None = None) -> list[Chunk]:
    """Parse chunks from CHUNK_COLUMNS, with their places in the documents."""
    if isinstance(snapshot, FilteredSnapshot):
        return snapshot.redact_chunks(chunks, parse_chunks(snapshot.whole, chunks))
    of = _find_documents(snapshot, chunks) if documents is None else documents
    try:
        before = add_up_before(snapshot, chunks, of)
        parse = made.parse_chunk
        return [parse(each, of[each[1]][0], of[each[1]][2], before.get((each[1], each[2]))) for each in chunks]
    except (KeyError, TypeError, ValueError) as error:  # no document, or a corrupt number
        raise checksums.damaged_error("the place of a chunk that was found") from error


def read_document_chunks(snapshot: Snapshot, doc_id: str) -> list[Chunk]:
    """Read the chunks of a document in order, or raise NotFound."""
    number, found_id, chars, count, stored = find_document(snapshot, doc_id, (*_PLACED, "sum"))
    found = snapshot.find(select(CHUNK, doc=(number,)), made.CHUNK_COLUMNS)
    chunks = parse_chunks(snapshot, sorted(found, key=made.order_of), {number: (found_id, chars, count)})
    _check_numbers(found_id, chunks, count, stored)
    return chunks


def _check_numbers(doc_id: str, chunks: Sequence[Chunk], count: int, stored: Any) -> None:
    """Raise CollectionDamaged unless the chunks are numbered up to `count`; a COMPARED document may hide some."""
    places, is_part = [chunk.index for chunk in chunks], stored == checksums.COMPARED
    known = sorted(set(places)) if is_part else list(range(len(places)))
    if places != known or not (is_part or len(places) == count):
        raise checksums.damaged_error(f"the list of the chunks of the document {doc_id!r}")


def read_chunks_by_id(
    snapshot: Snapshot, chunk_ids: Sequence[str], alternatives: Sequence[Condition] | None = None
) -> dict[str, Chunk]:
    """Read the existing chunks among the ids that the filter, if any, admits; return them by id."""
    wanted = set(chunk_ids)
    found = snapshot.find(select(CHUNK, alternatives, id=wanted), made.CHUNK_COLUMNS)
    chunks = parse_chunks(snapshot, found)
    if any(chunk.id not in wanted for chunk in chunks):
        raise checksums.damaged_error("the index of the chunks")
    return {chunk.id: chunk for chunk in chunks}


def read_latest_chunks(snapshot: Snapshot, channel: str, k: int) -> list[Chunk]:
    """Read the k chunks last added to a channel, the newest last."""
    if k < 1:
        return []
    wanted = replace(select(CHUNK, channel=[channel]), order="-row", limit=k)
    return parse_chunks(snapshot, snapshot.find(wanted, made.CHUNK_COLUMNS)[::-1])


def list_channels(snapshot: Snapshot) -> list[str]:
    """List the channels that have chunks, sorted; each is an index lookup for the next name after the previous one."""
    if isinstance(snapshot, FilteredSnapshot):
        wanted = (replace(select(CHUNK, channel=[name]), limit=1) for name in list_channels(snapshot.whole))
        return [name for each in wanted for (name,) in snapshot.find(each, ("channel",))]
    channels: list[str] = []
    while True:
        after = (("channel", ">", channels[-1] if channels else ""),)
        found = snapshot.find(Select(CHUNK, after, order="channel", limit=1), ("channel",))  # type: ignore[arg-type]
        if not found:
            break
        channels += found[0]
    has_empty = snapshot.find(replace(select(CHUNK, channel=[""]), limit=1), ("channel",))
    return ["", *channels] if has_empty else channels


def read_hits(snapshot: Snapshot, numbers: Sequence[int]) -> dict[int, Hit]:
    """Read the chunks in these rows that still exist, with their documents' records, as hits with a score of 0."""
    found = snapshot.find(select(CHUNK, row=numbers), made.CHUNK_COLUMNS)
    wanted = select(DOCUMENT, row={doc for _, doc, *_ in found})
    documents = {columns[made.ROW]: columns for columns in snapshot.find(wanted, made.RECORD)}
    records = {number: made.parse_record(columns) for number, columns in documents.items()}
    chunks = parse_chunks(snapshot, found, {number: made.get_place(of) for number, of in documents.items()})
    return {row: Hit(chunk, records[doc], 0.0) for (row, doc, *_), chunk in zip(found, chunks, strict=True)}


def read_thread_places(snapshot: Snapshot, numbers: Sequence[int]) -> dict[int, ThreadPlace]:
    """Return the positions of the messages in these rows that still exist."""
    found = dict[int, ThreadPlace]()
    for row, doc, piece, idx, meta, text in snapshot.find(
        select(CHUNK, row=numbers), ("row", "doc", "piece", "idx", "meta", "text")
    ):
        try:
            about = json.loads(meta)
            names = str(about.get("message", "")), str(about.get("reply_to", ""))
        except (ValueError, TypeError, AttributeError) as error:
            raise checksums.damaged_error("the record of a message") from error
        found[row] = ThreadPlace(doc, idx if piece is None else piece, *names, text)
    return found


def read_vectors_by_chunk_id(snapshot: Snapshot, chunk_ids: Sequence[str]) -> dict[str, Vector]:
    """Read the vectors of the existing chunks among the ids; omit pending ones."""
    found = snapshot.find(select(CHUNK, id=set(chunk_ids)), ("id", "vector"))
    return {chunk_id: vector for chunk_id, vector in found if vector is not None}


def read_stored_documents(backend: Backend, doc_ids: Sequence[str] | None = None) -> Iterator[StoredDocument]:
    """Yield all documents, or those named, in the order they were added, holding one batch in memory."""
    named = () if doc_ids is None else (("id", "in", set(doc_ids)),)
    after = 0
    while True:
        wanted = Select(DOCUMENT, (("row", ">", after), *named), order="row", limit=DOCUMENT_PAGE)
        with backend.read() as snapshot:
            numbers = take_batch(snapshot.find(wanted, ("row", "chunks", "chars")))
            batch = list(_read_document_batch(snapshot, numbers))
        if not numbers:
            return
        if numbers[0] <= after:  # a backend that returns the same rows again would cause an endless loop
            raise checksums.damaged_error("the table of the documents")
        after = numbers[-1]
        yield from batch


def _read_document_batch(snapshot: Snapshot, numbers: Sequence[int]) -> Iterator[StoredDocument]:
    asked = (*made.CHUNK_COLUMNS, "terms", "counts", "length", "vector")
    found = {of[made.ROW]: of for of in snapshot.find(select(DOCUMENT, row=numbers), (*made.RECORD, "vector"))}
    pieces = made.group_by(-2, find_pieces(snapshot, numbers))
    rows = sorted(snapshot.find(select(CHUNK, doc=numbers), asked), key=lambda row: (row[1], made.order_of(row)))
    placed = {number: made.get_place(of) for number, of in found.items()}
    chunks, parsed = made.group_by(1, rows), iter(parse_chunks(snapshot, [row[:-4] for row in rows], placed))
    for number, (*columns, vector) in sorted(found.items()):
        own = chunks.get(number, [])
        shown = tuple(islice(parsed, len(own)))
        _check_numbers(columns[0], shown, placed[number][2], columns[-1])
        vectors = np.full((len(own), snapshot.head.dim), np.nan, np.float32)  # nan: pending
        for place, row in enumerate(own):
            if row[-1] is not None:
                vectors[place] = row[-1]
        yield StoredDocument(
            made.build_document(columns, pieces.get(number, [])),
            shown,
            vectors,
            tuple([PackedTerms(*row[-4:-1]) for row in own]),
            vector,
        )


def scan_chunks(backend: Backend, where: Filter = EVERYTHING) -> Iterator[Chunk]:
    """Yield every chunk that a filter admits, by document id and index, reading one snapshot per page.

    A chunk that exists throughout comes exactly once.
    """
    alternatives = expand_filter(where)
    after: str | None = None
    is_last = not alternatives
    while not is_last:
        page = _read_chunk_page(backend, alternatives, after, made.MAX_CHUNKS)
        is_last = len(page) < made.MAX_CHUNKS
        if not is_last and page[0].doc_id == page[-1].doc_id:
            after = page[0].doc_id
            yield from _scan_document(backend, alternatives, after)
            continue
        if not is_last:  # its last document may continue after the page: start the next page with it
            page = [chunk for chunk in page if chunk.doc_id != page[-1].doc_id]
        yield from page
        after = page[-1].doc_id if page else None


def _scan_document(backend: Backend, alternatives: Sequence[Condition], doc_id: str) -> Iterator[Chunk]:
    """Yield the chunks of a document with more than one batch: read all ids first, then the chunks in batches."""
    with backend.read() as snapshot:
        found = snapshot.find(select(DOCUMENT, id=[doc_id]), ("row",))
        wanted = select(CHUNK, alternatives, doc=[row for (row,) in found])
        rows = sorted(snapshot.find(wanted, ("row", "doc", "piece", "idx", "id")), key=made.order_of)
    for start in range(0, len(rows), made.MAX_CHUNKS):
        batch = [chunk_id for *_, chunk_id in rows[start : start + made.MAX_CHUNKS]]
        with backend.read() as snapshot:
            chunks = read_chunks_by_id(snapshot, batch, alternatives)
        yield from (chunks[chunk_id] for chunk_id in batch if chunk_id in chunks)


def _read_chunk_page(backend: Backend, alternatives: Sequence[Condition], after: str | None, limit: int) -> list[Chunk]:
    """Read the first `limit` chunks of the documents after the id `after` (None: of all), by document id and index."""
    named = named_documents(alternatives)
    conditions: tuple[Any, ...] = () if named is None else (("id", "in", named),)
    page: list[Chunk] = []
    with backend.read() as snapshot:
        find = snapshot.find_stored if isinstance(snapshot, FilteredSnapshot) else snapshot.find
        while True:
            start = () if after is None else (("id", ">", after),)
            wanted = Select(DOCUMENT, (*conditions, *start), order="id", limit=limit)
            documents = {row: (doc_id, chars, count) for row, doc_id, chars, count in find(wanted, _PLACED)}
            rows = snapshot.find(select(CHUNK, alternatives, doc=list(documents)), made.CHUNK_COLUMNS)
            rows.sort(key=lambda row: (documents[row[1]][0], made.order_of(row)))
            page += parse_chunks(snapshot, rows[: limit - len(page)], documents)
            if len(page) >= limit or len(documents) < limit:
                return page
            after = max(doc_id for doc_id, *_ in documents.values())


def _list_blocks(snapshot: Snapshot, columns: Columns) -> list[int]:
    """List the blocks of a thread from its RECORD; empty for a document without messages."""
    found = snapshot.find(select(BLOCK, doc=[columns[made.ROW]]), ("block", "chars"))
    if found and sum(chars for _, chars in found) != columns[made.RECORD.index("chars")]:
        raise checksums.damaged_error(f"the places in the document {columns[0]!r}")
    return sorted(block for block, _ in found)


def _open_view(snapshot: Snapshot, columns: Columns, blocks: Sequence[int]) -> tuple[ThreadView, dict[int, Columns]]:
    """Open the view of a thread from its RECORD; also return the dict of PIECE_COLUMNS read so far, by number.

    The checksum of a piece is checked when its message is requested.
    """
    record, doc, pieces = made.parse_record(columns), columns[made.ROW], dict[int, Columns]()

    def find(column: str, values: Collection[Any], limit: int | None) -> list[ThreadEntry]:
        wanted = Select(PIECE, (("doc", "in", [doc]), (column, "in", values)), order="n" if limit else "", limit=limit)
        found = snapshot.find(wanted, made.PIECE_COLUMNS)
        pieces.update((each[0], each) for each in found)
        return [ThreadEntry(each[0], each[5], each[6], each[1]) for each in found]

    def parse_section(place: int) -> Section:
        if not made.matches_piece(pieces[place]):
            raise checksums.damaged_error(f"the text of the document {record.id!r}")
        return made.parse_sections(pieces[place][2])[0]

    return ThreadView(record.id, record.title, record.meta, blocks, find, parse_section), pieces


def read_thread_part(snapshot: Snapshot, doc_id: str, message_ids: Sequence[str], *, reach: int) -> ThreadPart:
    """Read the named messages of a thread, and the messages needed to edit them, or raise NotFound."""
    found = find_document(snapshot, doc_id, (*made.RECORD, "revision"))
    columns, revision = found[:-1], found[-1]
    view, pieces = _open_view(snapshot, columns, _list_blocks(snapshot, columns) or [0])
    chosen = sorted(_choose_places(view, message_ids, reach))
    part = made.build_document(columns, [pieces[n] for n in chosen], is_whole=False)
    return ThreadPart(part, tuple(chosen), chosen[0], chosen[-1], revision)


def _choose_places(view: ThreadView, ids: Sequence[str], reach: int) -> set[int]:
    """Choose the places of the messages for `Store.thread_part`."""
    near = 2 * reach
    view.load(ids)
    named = {place for place in map(view.places.get, ids) if place is not None}
    centres, level = set(named), set(named)
    for _ in range(reach):
        level = view.load_replies(level) - centres
        centres |= level
        if not level or len(centres) * (near + 1) > MAX_PART:
            break
    start, end = view.bounds
    if len(centres) * (near + 1) > MAX_PART:
        view.load_near(range(start, end))
        return set(view.walk(start, 1))
    around = (place for centre in centres for place in range(centre - near - RUN, centre + near + 1))
    view.load_near({start + 1, *range(end - (1 << BLOCK_BITS), end), *around})  # one read, mostly including the parents
    chosen = {*centres, *islice(view.walk(start, 1), len(ids) + 1), *islice(view.walk(end, -1), near)}
    for centre in centres:
        chosen.update(islice(view.walk(centre, -1), near))
    for place in named:
        chosen.update(islice(view.walk(place, 1), near))
    for _ in range(reach + len(ids) + 1):
        above = view.load_parents(chosen) - chosen
        if not above:
            break
        chosen |= above
    return chosen


@contextmanager
def read_threads(backend: Backend) -> Iterator[Callable[[str], ThreadView]]:
    """Yield a function that opens threads, or raises NotFound: all from one snapshot, and read lazily."""
    with backend.read() as snapshot:
        yield partial(_view_thread, snapshot)


def _view_thread(snapshot: Snapshot, doc_id: str) -> ThreadView:
    columns = find_document(snapshot, doc_id, made.RECORD)
    whole = snapshot.whole if isinstance(snapshot, FilteredSnapshot) else snapshot
    is_part = isinstance(snapshot, FilteredSnapshot) and snapshot.shows_part(columns[made.ROW])
    blocks = [] if is_part else _list_blocks(whole, columns)
    if not blocks:  # a part of a thread, or a text without messages
        return view_document(read_document(snapshot, doc_id))
    return _open_view(whole, columns, blocks)[0]


def find_waiting_messages(snapshot: Snapshot, message_ids: Sequence[str], channel: str) -> dict[str, list[Waiting]]:
    """Find the messages of a channel that wait for these ids as their parents, by parent id."""
    found = snapshot.find(select(PIECE, awaits=set(message_ids)), ("doc", "n", "message", "awaits"))
    wanted = select(DOCUMENT, row={doc for doc, *_ in found})
    documents = {row: of for row, *of in snapshot.find(wanted, ("row", "id", "meta"))}
    waiting: dict[str, list[Waiting]] = {}
    for doc, _, message, awaits in sorted(found):
        doc_id, meta = documents[doc]
        if json.loads(meta).get("channel") == channel:
            waiting.setdefault(awaits, []).append(Waiting(message, doc_id))
    return waiting
