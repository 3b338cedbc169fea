"""The first half of the write path: read sources and, unless unchanged, chunk, enrich and summarise them.

Records are looked up and summaries are requested in batches. There is one result per source, in order. The embedder is
not called, so this can run ahead of it in another thread.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice

from clew.core.errors import ClewError, CostLimit, DriverFailed, DriverMissing, NothingRecognised, SourceError
from clew.core.filter import Filter
from clew.core.ids import digest
from clew.core.parallel import prefetch
from clew.core.protocols import Chunker, Embedder, Enricher, WritableStore
from clew.core.report import OnWarning, SourceFailure
from clew.core.thread import THREAD_KIND, is_thread
from clew.core.types import INCOMPLETE, Chunk, Document, DocumentRecord, Vector
from clew.index.enrich.summary import CALLER, EXTRACT, NO_SUMMARY, Summariser, Summary, run_within_budget
from clew.index.read.text.front_matter import parse_updated_time
from clew.index.thread.threads import add_later_stored_messages
from clew.index.walk.sources import Source
from clew.index.walk.sync import MovedFiles, collect_vectors_by_text

Read = Callable[[], Document]
MAX_AHEAD = 1  # documents read ahead: one may be large
LOOKUP_BATCH = 64  # sources whose records are fetched together


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parts that turn a document into chunks with vectors; `fingerprint` changes when any of them does.

    `failed_contexts` are the ids of documents for which the enricher's model failed to write a context.
    """

    chunker: Chunker
    embedder: Embedder
    language: str
    fingerprint: str
    on_warning: OnWarning
    enricher: Enricher | None = None
    summariser: Summariser | None = None
    failed_contexts: set[str] = field(default_factory=set)
    moved: MovedFiles | None = None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A source that is stored already; `stamp` is the new stamp of its file if only that changed."""

    uri: str
    id: str = ""
    stamp: str = ""
    size: int = 0  # of the file, in bytes


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document ready to be stored: its chunks and summary, the record it replaces, and its source.

    replaced_text: The text of the thread it replaces, to detect concurrent writes; None for other documents.
    wants_summary: A model has yet to write the summary.
    incomplete: A model failed to write the summary or contexts.
    moved_vectors: For a moved file, the vectors of its former document, by text.
    """

    document: Document
    chunks: list[Chunk]
    summary: Summary = NO_SUMMARY
    record: DocumentRecord | None = None
    source: Source | None = None
    replaced_text: str | None = None
    wants_summary: bool = False
    incomplete: bool = False
    moved_vectors: Mapping[str, Vector] = field(default_factory=dict)

    @property
    def uri_or_id(self) -> str:
        """The uri of the document, or its id if it has none."""
        return self.document.uri or self.document.id


PrepareResult = Prepared | Unchanged | SourceFailure
Given = Source | SourceError | PrepareResult


def explain_duplicate_id(source: Source) -> str:
    """Explain why the second of two sources with the same id is refused."""
    if source.exported_until is not None:
        return "an export that was given before has this thread too; add the newer of the two by itself"
    return f"another with its id {source.id!r} was given before it"


def prepare_source_again(source: Source, *, store: WritableStore, recipe: Recipe) -> PrepareResult:
    """Prepare a source again after its stored document has changed."""
    return prepare_source(source, next(store.documents(Filter(documents=frozenset({source.id}))), None), store, recipe)


def _get_stamp(source: Source, recipe: Recipe) -> str:
    """Return the stamp to store with the document of a file; empty for other sources."""
    return f"{source.stamp} {recipe.fingerprint}" if source.stamp else ""


def has_stored_stamp(source: Source, record: DocumentRecord | None, recipe: Recipe) -> bool:
    """Return whether the stored document of a file is current, so that the file need not be read.

    A text without chunks is read again, to report why.
    """
    stamp = _get_stamp(source, recipe)
    if record is None or not stamp or (record.chars and not record.chunks):
        return False
    return record.stamp == stamp and not _lacks_summary(record, recipe)


def prepare_source(
    source: Source,
    record: DocumentRecord | None,
    store: WritableStore,
    recipe: Recipe,
    *,
    read: Callable[[], Document] | None = None,
) -> PrepareResult:
    """Read, chunk, enrich and summarise one source unless it is unchanged.

    record: Its stored record.
    read: Returns its document if that was read ahead.
    """
    if has_stored_stamp(source, record, recipe):
        return Unchanged(source.uri, size=source.size)
    try:
        prepared = _read_and_chunk(source, record, store, recipe, read or source.read)
    except NothingRecognised as error:
        stamp = _get_stamp(source, recipe)
        if not stamp or (record is not None and record.chunks):
            return _make_failure(source, record, error.reason)
        if record is not None:
            return Unchanged(source.uri, record.id, stamp, source.size)
        recipe.on_warning(SourceFailure(source.uri, error.reason))  # store it empty, so that it is not read again
        return Prepared(Document(source.id, "", (), uri=source.uri, stamp=stamp), [], source=source)
    except SourceError as error:
        return _make_failure(source, record, error.reason)
    except DriverMissing as error:  # of its reader: sources in other formats can still be read
        return _make_failure(source, record, str(error))
    except ClewError:
        raise
    except Exception as error:  # a bug in a reader must not stop the other sources
        return _make_failure(source, record, f"cannot be read: {type(error).__name__}: {error}")
    if isinstance(prepared, Unchanged):
        return prepared
    document = prepared.document
    moved = recipe.moved.find(document) if recipe.moved and record is None and source.modified else None
    if moved:
        prepared = replace(prepared, moved_vectors=collect_vectors_by_text(moved))
    if document.summary:
        prepared = replace(prepared, summary=Summary(document.summary, document.summary_by or CALLER))
    if is_thread(document):  # messages already have a context, and threads are summarised on demand
        return prepared
    try:
        prepared = _enrich(prepared, recipe)
    except SourceError as error:
        return _make_failure(source, record, error.reason)
    if prepared.chunks and not document.summary:
        return _start_summary(prepared, recipe.summariser, store, moved.document if moved else None)
    return prepared


def _read_and_chunk(
    source: Source, record: DocumentRecord | None, store: WritableStore, recipe: Recipe, read: Callable[[], Document]
) -> Prepared | Unchanged:
    """Read and chunk one source; keep later messages of a stored thread."""
    stamp, replaced_text = _get_stamp(source, recipe), None if source.exported_until is None else ""
    document = read()
    hash_ = digest(recipe.fingerprint, _fingerprint_document(document))
    is_same = record is not None and record.hash == hash_ and not _lacks_summary(record, recipe)
    if record is not None and is_same and (record.chunks > 0 or not recipe.chunker(document)):
        return Unchanged(source.uri, record.id, stamp if stamp != record.stamp else "", source.size)
    if record is not None and source.exported_until is not None:
        stored = store.document(record.id)
        replaced_text = stored.text
        if is_thread(stored):
            document = add_later_stored_messages(document, stored, until=source.exported_until)
            hash_ = digest(recipe.fingerprint, _fingerprint_document(document))
            if record.hash == hash_:
                return Unchanged(source.uri)
    document = _date_document(document, source.modified)  # not part of the hash: a copied file is unchanged
    chunks = recipe.chunker(document)
    return Prepared(replace(document, hash=hash_, stamp=stamp), chunks, NO_SUMMARY, record, source, replaced_text)


def _enrich(prepared: Prepared, recipe: Recipe) -> Prepared:
    """Enrich the chunks of a page; mark it as incomplete if a model failed."""
    document = prepared.document
    recipe.failed_contexts.discard(document.id)
    if recipe.enricher:
        prepared = replace(prepared, chunks=recipe.enricher(document, prepared.chunks))
    if not prepared.chunks:
        recipe.on_warning(SourceFailure(prepared.uri_or_id, "no search finds it: it was left with no chunks"))
    if document.id not in recipe.failed_contexts:
        return prepared
    # Without hash and stamp, the next `add` asks for the missing contexts again.
    marked = replace(document, hash=f"{INCOMPLETE}{recipe.fingerprint}", stamp="")
    return replace(prepared, document=marked, incomplete=True)


def _make_failure(source: Source, record: DocumentRecord | None, reason: str) -> SourceFailure:
    return SourceFailure(source.uri, f"{reason}; the earlier version stays" if record else reason)


def _start_summary(
    prepared: Prepared, summariser: Summariser | None, store: WritableStore, moved: Document | None
) -> Prepared:
    """Reuse a summary that a model wrote for the same text; else mark it as wanted from a model, or extract one."""
    record, document = prepared.record or moved, prepared.document
    if record and record.summary and record.summary_by not in ("", EXTRACT, CALLER):
        stored = moved or store.document(record.id)
        if (stored.text, stored.title) == (document.text, document.title):
            return replace(prepared, summary=Summary(record.summary, record.summary_by))
    if summariser is None:
        return prepared
    if summariser.llm is not None:
        return replace(prepared, wants_summary=True)
    return replace(prepared, summary=summariser.summarise(document))


def _lacks_summary(record: DocumentRecord, recipe: Recipe) -> bool:
    """Return whether a stored page lacks a summary; a page without chunks never gets one."""
    return recipe.summariser is not None and record.kind != THREAD_KIND and not record.summary and record.chunks > 0


def _date_document(document: Document, modified: datetime | None) -> Document:
    """Set the time of every section from the metadata or the file, unless a section has a time already."""
    if any(section.at for section in document.sections):
        return document
    at = parse_updated_time(document.meta) or modified
    if at is None:
        return document
    return replace(document, sections=tuple(replace(section, at=at) for section in document.sections))


def _fingerprint_document(document: Document) -> str:
    """Return a digest of everything in a document: text, sections, title, uri, meta and access."""
    sections = [
        f"{s.start} {s.end} {s.parent} {s.page} {s.at} {s.guessed} {s.label}\x1f{s.id}\x1f{s.author}"
        + ("" if s.access is None else f"\x1f{sorted(s.access)}")
        + ("" if s.awaits is None else f"\x1e{s.awaits}")
        for s in document.sections
    ]
    meta = [f"{key}\x1f{document.meta[key]!r}" for key in sorted(document.meta)]
    head = (document.kind, document.title, document.uri, document.summary, document.text)
    access = [] if document.access is None else [f"\x1d{sorted(document.access)}"]
    return digest(*head, *sections, "\x1e", *meta, *access)


def prepare_sources(sources: Iterable[Given], *, store: WritableStore, recipe: Recipe) -> Iterator[PrepareResult]:
    """Prepare each source for storing (see `prepare_source`), with one result per source, in order.

    Results of another process pass through. Several summaries are requested at a time. If the budget ends, documents
    without a summary are left out.
    """
    waiting: list[PrepareResult] = []
    try:
        with closing(_prepare_each(sources, store, recipe)) as results:
            for result in results:
                waiting.append(result)
                wanting = sum(isinstance(each, Prepared) and each.wants_summary for each in waiting)
                if not wanting or len(waiting) >= LOOKUP_BATCH or _is_full(wanting, recipe):
                    batch, waiting = waiting, []
                    yield from _summarise_batch(batch, recipe)
    except CostLimit:
        yield from _summarise_batch(waiting, recipe)  # their contexts are already paid for
        raise
    yield from _summarise_batch(waiting, recipe)


def _is_full(wanting: int, recipe: Recipe) -> bool:
    return recipe.summariser is not None and wanting >= recipe.summariser.max_concurrent


def _summarise_batch(batch: Sequence[PrepareResult], recipe: Recipe) -> Iterator[PrepareResult]:
    """Yield the results with their summaries written. Raise CostLimit at the end if the budget left some out."""
    if not any(isinstance(each, Prepared) and each.wants_summary for each in batch):
        yield from batch
        return
    wanting = {
        position: each for position, each in enumerate(batch) if isinstance(each, Prepared) and each.wants_summary
    }
    calls = [partial(_summarise_or_warn, each, recipe) for each in wanting.values()]
    places = list(wanting)
    summarised: dict[int, Prepared] = {}
    limit: CostLimit | None = None
    at_once = recipe.summariser.max_concurrent if recipe.summariser else 1
    for number, made in run_within_budget(calls, max_concurrent=at_once):
        if isinstance(made, CostLimit):
            limit = made
        else:
            summarised[places[number]] = made
    for position, each in enumerate(batch):
        if position not in wanting:
            yield each
        elif position in summarised:
            yield summarised[position]
    if limit:
        raise limit


def _summarise_or_warn(prepared: Prepared, recipe: Recipe) -> Prepared:
    """Summarise the document; if the model fails, warn and mark it as incomplete."""
    assert recipe.summariser is not None
    try:
        summary = recipe.summariser.summarise(prepared.document)
    except DriverFailed as error:
        recipe.on_warning(SourceFailure(prepared.uri_or_id, f"no summary: {error}"))
        return replace(prepared, wants_summary=False, incomplete=True)
    return replace(prepared, wants_summary=False, summary=summary)


def explain_bad_id(id_: str) -> str:
    """Explain why a store may be unable to hold a document with this id; "" if every store can hold it."""
    if "\x00" in id_:
        return "its id holds a NUL character, which not every store can hold"
    is_whole = id_.isascii() or id_.encode("utf-8", "ignore").decode() == id_
    return "" if is_whole else "its id holds half of a character pair (an unpaired surrogate)"


def _prepare_each(
    sources: Iterable[Given], store: WritableStore, recipe: Recipe
) -> Generator[PrepareResult, None, None]:
    remaining = iter(sources)
    seen: set[int] = set()
    error: BaseException | None = None
    while error is None:
        batch: list[Given] = []
        try:
            batch.extend(islice(remaining, LOOKUP_BATCH))
        except BaseException as raised:  # prepare the sources before it first
            error = raised
        if not batch:
            break
        ids = frozenset(source.id for source in batch if isinstance(source, Source) and not explain_bad_id(source.id))
        records = {record.id: record for record in store.documents(Filter(documents=ids))} if ids else {}
        results: list[Source | PrepareResult] = []
        for source in batch:
            if isinstance(source, SourceError):
                results.append(SourceFailure(source.source, source.reason))
            elif not isinstance(source, Source):
                results.append(source)
            elif reason := explain_bad_id(source.id):
                results.append(SourceFailure(source.uri or source.id, reason))
            elif hash(source.id) in seen:
                results.append(SourceFailure(source.uri, explain_duplicate_id(source)))
            else:
                seen.add(hash(source.id))
                is_unchanged = has_stored_stamp(source, records.get(source.id), recipe)
                results.append(Unchanged(source.uri, size=source.size) if is_unchanged else source)
        unread = [each.read for each in results if isinstance(each, Source) and not each.is_loaded]
        with closing(_read_ahead(unread)) as reads:
            for each in results:
                if isinstance(each, Source):
                    read = None if each.is_loaded else next(reads)
                    yield prepare_source(each, records.get(each.id), store, recipe, read=read)
                else:
                    yield each
    if error is not None:
        raise error


def _read_ahead(reads: Sequence[Read]) -> Generator[Read, None, None]:
    """Run the calls ahead in another thread; yield for each a function that returns or raises its result at once."""
    if len(reads) < 2:
        return (read for read in reads)
    return prefetch((_run(read) for read in reads), max_ahead=MAX_AHEAD)


def _run(read: Read) -> Read:
    try:
        document = read()
    except Exception as error:
        return partial(_raise, error)
    return lambda: document


def _raise(error: Exception) -> Document:
    raise error
