"""The first half of the write path: sources are read, unchanged ones skipped, the others chunked and enriched.

It yields one result per source, in order, and calls no model except the one that enriches and summarises, so that it
can run ahead of the embedder in a thread of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice

from clew.core.errors import ClewError, CostLimit, DriverFailed, DriverMissing, SourceError
from clew.core.filter import Filter
from clew.core.ids import digest
from clew.core.protocols import Chunker, Embedder, Enricher, Store
from clew.core.report import OnWarning, SourceFailure
from clew.core.thread import THREAD_KIND, is_thread
from clew.core.types import INCOMPLETE, Chunk, Document, DocumentRecord, Vector
from clew.index.add.date import date_document
from clew.index.add.fingerprint import fingerprint_document
from clew.index.add.moved import MovedFiles, collect_vectors_by_text
from clew.index.add.read_ahead import read_ahead
from clew.index.enrich.summary import CALLER, EXTRACT, NO_SUMMARY, Summariser, Summary, run_within_budget
from clew.index.thread.threads import add_later_stored_messages

LOOKUP_BATCH = 64  # sources whose records are fetched together


@dataclass(frozen=True, slots=True)
class Source:
    """Something that can be added: its id and uri, the state of its file, and how to read it."""

    id: str
    uri: str
    read: Callable[[], Document]
    stamp: str = ""  # of a file: its time and size; a file with the stored stamp is not read again
    size: int = 0  # of a file, in bytes
    modified: datetime | None = None  # of a file: its time, which is that of a document that states none
    exported_until: datetime | None = None  # of a thread: the time of the last message of its channel in the export
    exported_ids: Set[str] = frozenset()  # of a thread: the ids of all messages that the export has of its channel
    is_loaded: bool = False  # a program made it: to read it ahead in another thread would only cost


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a document becomes chunks with vectors; `fingerprint` changes when any of it does.

    `failed_contexts` are the ids of documents of which the enricher's model failed to write a context.
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
    """A source that is stored as it is; `stamp` is the new stamp of its file where only that changed."""

    uri: str
    id: str = ""
    stamp: str = ""
    size: int = 0  # of its file, in bytes


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document ready to be stored: its chunks and summary, the record that it replaces, and its source.

    `replaced_text` is the text of the thread that it replaces, for the check that nobody has written to it meanwhile;
    None where nobody can. `wants_summary`: a model is still to be asked for one; `incomplete`: a model failed to write
    its summary or contexts. `moved_vectors` are by text: those of the document that its file was before it was moved.
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
        """Its uri, or its id if it has none."""
        return self.document.uri or self.document.id


PrepareResult = Prepared | Unchanged | SourceFailure
Given = Source | SourceError | PrepareResult


def prepare_sources(sources: Iterable[Given], *, store: Store, recipe: Recipe) -> Iterator[PrepareResult]:
    """Prepares each source for storing (see `prepare_source`): one result per source, in order.

    What another process has prepared is passed on. A model is asked for several summaries at a time. Where the budget
    ends, the documents without one are left out.
    """
    waiting: list[PrepareResult] = []
    try:
        for result in _prepare_each(sources, store, recipe):
            waiting.append(result)
            wanting = sum(isinstance(each, Prepared) and each.wants_summary for each in waiting)
            if not wanting or len(waiting) >= LOOKUP_BATCH or _is_full(wanting, recipe):
                batch, waiting = waiting, []
                yield from _summarise_batch(batch, recipe)
    except CostLimit:
        yield from _summarise_batch(waiting, recipe)  # their contexts are paid for
        raise
    yield from _summarise_batch(waiting, recipe)


def _is_full(wanting: int, recipe: Recipe) -> bool:
    return recipe.summariser is not None and wanting >= recipe.summariser.max_concurrent


def _summarise_batch(batch: Sequence[PrepareResult], recipe: Recipe) -> Iterator[PrepareResult]:
    """The same results, with the summaries that are still wanted; CostLimit at the end if some were not paid for."""
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
    """The document with its summary; without one, and a warning, where the model failed."""
    assert recipe.summariser is not None
    try:
        summary = recipe.summariser.summarise(prepared.document)
    except DriverFailed as error:
        recipe.on_warning(SourceFailure(prepared.uri_or_id, f"no summary: {error}"))
        return replace(prepared, wants_summary=False, incomplete=True)
    return replace(prepared, wants_summary=False, summary=summary)


def _prepare_each(sources: Iterable[Given], store: Store, recipe: Recipe) -> Iterator[PrepareResult]:
    remaining = iter(sources)
    seen: set[int] = set()
    error: BaseException | None = None
    while error is None:
        batch: list[Given] = []
        try:
            batch.extend(islice(remaining, LOOKUP_BATCH))
        except BaseException as raised:  # what came before it is prepared first
            error = raised
        if not batch:
            break
        ids = frozenset(source.id for source in batch if isinstance(source, Source))
        records = {record.id: record for record in store.documents(Filter(documents=ids))} if ids else {}
        results: list[Source | PrepareResult] = []
        for source in batch:
            if isinstance(source, SourceError):
                results.append(SourceFailure(source.source, source.reason))
            elif not isinstance(source, Source):
                results.append(source)
            elif hash(source.id) in seen:
                results.append(SourceFailure(source.uri, explain_duplicate_id(source)))
            else:
                seen.add(hash(source.id))
                is_unchanged = has_stored_stamp(source, records.get(source.id), recipe)
                results.append(Unchanged(source.uri, size=source.size) if is_unchanged else source)
        reads = read_ahead([each.read for each in results if isinstance(each, Source) and not each.is_loaded])
        for each in results:
            if isinstance(each, Source):
                read = None if each.is_loaded else next(reads)
                yield prepare_source(each, records.get(each.id), store, recipe, read=read)
            else:
                yield each
    if error is not None:
        raise error


def explain_duplicate_id(source: Source) -> str:
    """Why the second of two sources with one id is refused."""
    if source.exported_until is not None:
        return "an export that was given before has this thread too; add the newer of the two by itself"
    return f"another with its id {source.id!r} was given before it"


def prepare_source_again(source: Source, *, store: Store, recipe: Recipe) -> PrepareResult:
    """Prepares a source once more, now that its stored document has changed."""
    return prepare_source(source, next(store.documents(Filter(documents=frozenset({source.id}))), None), store, recipe)


def _get_stamp(source: Source, recipe: Recipe) -> str:
    """The stamp that a document of this file is stored with; empty if the source is no file."""
    return f"{source.stamp} {recipe.fingerprint}" if source.stamp else ""


def has_stored_stamp(source: Source, record: DocumentRecord | None, recipe: Recipe) -> bool:
    """Whether the file is stored as it is, so that it need not be read; one without chunks is read, to see why."""
    stamp = _get_stamp(source, recipe)
    if record is None or not stamp or not record.chunks:
        return False
    return record.stamp == stamp and not _lacks_summary(record, recipe)


def prepare_source(
    source: Source,
    record: DocumentRecord | None,
    store: Store,
    recipe: Recipe,
    *,
    read: Callable[[], Document] | None = None,
) -> PrepareResult:
    """Reads, chunks, enriches and summarises one source unless it is unchanged; `record` is its stored record.

    `read` returns its document where that is read ahead.
    """
    if has_stored_stamp(source, record, recipe):
        return Unchanged(source.uri, size=source.size)
    stamp = _get_stamp(source, recipe)
    replaced_text = None if source.exported_until is None else ""
    is_complete = record is not None and not _lacks_summary(record, recipe)
    try:
        document = (read or source.read)()
        hash_ = digest(recipe.fingerprint, fingerprint_document(document))
        is_indexed = record is not None and (record.chunks > 0 or not recipe.chunker(document))
        if record is not None and is_indexed and is_complete and record.hash == hash_:
            return Unchanged(source.uri, record.id, stamp if stamp != record.stamp else "", source.size)
        if record is not None and source.exported_until is not None:
            stored = store.document(record.id)
            replaced_text = stored.text
            if is_thread(stored):
                document = add_later_stored_messages(document, stored, until=source.exported_until)
                hash_ = digest(recipe.fingerprint, fingerprint_document(document))
                if record.hash == hash_:
                    return Unchanged(source.uri)
        document = date_document(document, source.modified)  # not part of the hash: a copied file is unchanged
        chunks = recipe.chunker(document)
    except SourceError as error:
        return _make_failure(source, record, error.reason)
    except DriverMissing as error:  # of its reader: other formats can still be read
        return _make_failure(source, record, str(error))
    except ClewError:
        raise
    except Exception as error:  # a bug in a reader must not stop the other sources
        return _make_failure(source, record, f"cannot be read: {type(error).__name__}: {error}")
    prepared = Prepared(replace(document, hash=hash_, stamp=stamp), chunks, NO_SUMMARY, record, source, replaced_text)
    moved = recipe.moved.find(document) if recipe.moved and record is None and source.modified else None
    if moved:
        prepared = replace(prepared, moved_vectors=collect_vectors_by_text(moved))
    if document.summary:
        prepared = replace(prepared, summary=Summary(document.summary, document.summary_by or CALLER))
    if not is_thread(document):  # messages have a context of their own, and a thread is summarised on demand
        recipe.failed_contexts.discard(document.id)
        try:
            chunks = recipe.enricher(document, chunks) if recipe.enricher else chunks
        except SourceError as error:
            return _make_failure(source, record, error.reason)
        if not chunks:
            recipe.on_warning(SourceFailure(source.uri, "no search finds it: it was left with no chunks"))
        prepared = replace(prepared, chunks=chunks)
        if document.id in recipe.failed_contexts:  # neither hash nor stamp: the next `add` asks for what is missing
            marked = replace(document, hash=f"{INCOMPLETE}{recipe.fingerprint}", stamp="")
            prepared = replace(prepared, document=marked, incomplete=True)
        if chunks and not document.summary and recipe.summariser:
            return _start_summary(prepared, recipe.summariser, store, moved.document if moved else None)
    return prepared


def _make_failure(source: Source, record: DocumentRecord | None, reason: str) -> SourceFailure:
    return SourceFailure(source.uri, f"{reason}; the earlier version stays" if record else reason)


def _start_summary(prepared: Prepared, summariser: Summariser, store: Store, moved: Document | None) -> Prepared:
    """The document with the summary that a model made of the same text, or an extractive one; else it wants one."""
    record, document = prepared.record or moved, prepared.document
    if record and record.summary and record.summary_by not in ("", EXTRACT, CALLER):
        stored = moved or store.document(record.id)
        if (stored.text, stored.title) == (document.text, document.title):
            return replace(prepared, summary=Summary(record.summary, record.summary_by))
    if summariser.llm is not None:
        return replace(prepared, wants_summary=True)
    return replace(prepared, summary=summariser.summarise(document))


def _lacks_summary(record: DocumentRecord, recipe: Recipe) -> bool:
    """Whether a stored page should have a summary and has none; one without chunks never gets any."""
    return recipe.summariser is not None and record.kind != THREAD_KIND and not record.summary and record.chunks > 0
