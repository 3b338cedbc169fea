"""The first half of the write path: sources are read, the unchanged skipped, the others cut and enriched.

It gives one outcome a source, in order, and touches no model but the one that enriches, so that it can run ahead of
the embedder in a thread of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from clew.core.errors import ClewError, DriverMissing, SourceError
from clew.core.ids import digest
from clew.core.protocols import Chunker, Embedder, Enricher, Store
from clew.core.report import Failure
from clew.core.thread import KIND, is_thread
from clew.core.types import Chunk, Document, DocumentRecord, Filter
from clew.index.thread.threads import kept_on

LOOK_UP = 64  # sources whose records are fetched together


@dataclass(frozen=True, slots=True)
class Source:
    """Something that can be added: where it stands, the state it is in, and how to read it."""

    id: str
    uri: str
    read: Callable[[], Document]
    stamp: str = ""  # of a file: its time and size; equal stamps are not read again
    until: datetime | None = None  # of a thread: the last message of its channel that the export holds
    held: Set[str] = frozenset()  # of a thread: the ids of all messages of its channel that the export holds


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a document becomes chunks with vectors; `key` changes when any of it does."""

    chunker: Chunker
    embedder: Embedder
    language: str
    key: str
    enrich: Enricher | None = None
    summarise: Callable[[Document], str] | None = None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A source that is in the store as it stands; `stamp` is the new state of its file where only that is new."""

    uri: str
    id: str = ""
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """A document that is to be put, its chunks and summary, the record of what it replaces, and where it came from.

    `before` is the text of the thread that it replaces, which others may write to meanwhile; None where none may.
    """

    document: Document
    chunks: list[Chunk]
    summary: str
    record: DocumentRecord | None = None
    source: Source | None = None
    before: str | None = None

    @property
    def name(self) -> str:
        """Its address, or its id where it has none."""
        return self.document.uri or self.document.id


Outcome = Taken | Unchanged | Failure


def taken(sources: Iterable[Source | SourceError], *, store: Store, recipe: Recipe) -> Iterator[Outcome]:
    """One outcome a source, in order."""
    iterator = iter(sources)
    seen: set[int] = set()
    while few := list(islice(iterator, LOOK_UP)):
        ids = frozenset(source.id for source in few if isinstance(source, Source))
        records = {record.id: record for record in store.documents(Filter(documents=ids))} if ids else {}
        for source in few:
            if isinstance(source, SourceError):
                yield Failure(source.source, source.reason)
            elif hash(source.id) in seen:
                yield Failure(source.uri, _twice(source))
            else:
                seen.add(hash(source.id))
                yield take(source, records.get(source.id), store, recipe)


def _twice(source: Source) -> str:
    """Why the second of two sources with one id is refused."""
    if source.until is not None:
        return "an export that was given before has this thread too; add the newer of the two by itself"
    return f"another with its id {source.id!r} was given before it"


def retaken(source: Source, *, store: Store, recipe: Recipe) -> Outcome:
    """A source that was taken before, as it is to be put now that others have changed what it replaces."""
    return take(source, next(store.documents(Filter(documents=frozenset({source.id}))), None), store, recipe)


def take(source: Source, record: DocumentRecord | None, store: Store, recipe: Recipe) -> Outcome:
    """The outcome of a source, given the record of what stands in its place."""
    stamp = f"{source.stamp} {recipe.key}" if source.stamp else ""
    before = None if source.until is None else ""
    whole = record is not None and (bool(record.summary) or recipe.summarise is None or record.kind == KIND)
    if record is not None and whole and stamp and record.stamp == stamp:
        return Unchanged(source.uri)
    try:
        document = source.read()
        hash_ = digest(recipe.key, fingerprint(document))
        if record is not None and whole and record.hash == hash_:
            return Unchanged(source.uri, record.id, stamp if stamp != record.stamp else "")
        if record is not None and source.until is not None:
            stored = store.document(record.id)
            before = stored.text
            if is_thread(stored):
                document = kept_on(document, stored, until=source.until)
                hash_ = digest(recipe.key, fingerprint(document))
                if record.hash == hash_:
                    return Unchanged(source.uri)
        chunks = recipe.chunker(document)
    except SourceError as error:
        return Failure(source.uri, error.reason)
    except DriverMissing as error:  # of its reader: other formats can still be read
        return Failure(source.uri, str(error))
    except ClewError:
        raise
    except Exception as error:  # a reader met what its author did not foresee: that is no reason to stop the others
        return Failure(source.uri, f"cannot be read: {type(error).__name__}: {error}")
    page = not is_thread(document)  # a message says before itself what it answers, and a thread is summed up on demand
    if recipe.enrich is not None and page:
        chunks = recipe.enrich(document, chunks)
    summary = document.summary or (recipe.summarise(document) if recipe.summarise is not None and page else "")
    return Taken(replace(document, hash=hash_, stamp=stamp), chunks, summary, record, source, before)


def fingerprint(document: Document) -> str:
    """A digest of all that a document says, and of where it stands."""
    sections = [
        f"{s.start} {s.end} {s.parent} {s.page} {s.at} {s.guessed} {s.label}\x1f{s.id}\x1f{s.author}"
        for s in document.sections
    ]
    meta = [f"{key}\x1f{document.meta[key]!r}" for key in sorted(document.meta)]
    head = (document.kind, document.title, document.uri, document.summary, document.text)
    return digest(*head, *sections, "\x1e", *meta)
