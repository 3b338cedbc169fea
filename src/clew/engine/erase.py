"""The verb that erases: what it removes, it removes from every place of the collection, and then looks for it there."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from clew.core.errors import NotFound, SettingsError
from clew.core.fingerprint import Fingerprints, Matcher, make_key
from clew.core.receipt import Finding, Receipt
from clew.core.settings import Settings
from clew.core.suggest import format_suggestion
from clew.drivers.store.term_ids import pack_terms
from clew.engine.add import make_ingest_context
from clew.engine.opened import Opened
from clew.engine.scrub import scrub_records, scrub_sessions
from clew.engine.sections import resolve_document_or_sections
from clew.index.erase.compare import TEXT_KINDS, Comparison, compare_with_remaining
from clew.index.erase.journal import Journal, join_journals, parse_journal
from clew.index.erase.remove import remove_selection
from clew.index.erase.select import Selection, list_authors, select_author, select_channel, tally_selection
from clew.index.read.load import is_file_there

if TYPE_CHECKING:
    from clew.engine import Engine

# Short pieces are not looked for in files whose format has words of its own: settings of an index, keys of a session.
_ALL_KINDS = ("words", "texts", "vectors", "terms")
_LONG_KINDS = ("texts", "vectors", "terms")
# Words of sessions, jobs and calibrations that are the same in every collection.
_OWN_WORDS = ("assistant", "cancelled", "cancelling", "documents", "messages", "sources", "settings", "embedder")
_EXPORTS = "a chat export that still has the messages brings them back when it is added again; take them out of it too"
_NAMES = {"words": "text", "texts": "text", "vectors": "vector", "terms": "term"}


@runtime_checkable
class _HasCache(Protocol):
    def clear_cache(self) -> int: ...


def erase(
    engine: "Engine",
    documents: Iterable[str] = (),
    *,
    author: str | None = None,
    channel: str | None = None,
    dry_run: bool = False,
    settings: Settings | None = None,
) -> Receipt:
    """Removes documents (by id or address), all that an author wrote, or a channel, and proves it with a receipt.

    Everything made of it goes too: chunks, vectors, postings, summaries, copies in the contexts of other messages,
    staged vectors, caches, chat sessions, runs and feedback that name it, free pages of the disk. Then everything that
    is stored is searched for it.
    A source that was added in sections goes with all of them. If it is interrupted, the next call finishes it, also one
    that names nothing. `dry_run` only counts.
    """
    if isinstance(documents, str):
        raise SettingsError("documents is one text; give a list of ids or addresses")
    opened = engine.opened
    names = list(documents)
    eraser = opened.store.eraser()
    pending = eraser.pending()
    before = parse_journal(pending) if pending else None
    selector = _describe_selector(names, author, channel, before)
    with engine.opened.message_lock:
        selection = _select(opened, names, author, channel, is_resumed=before is not None)
        key = before.tally.fingerprints.key if before else make_key()
        tally = tally_selection(opened.store, selection, author=author or "", channel=channel or "", key=key)
        journal = Journal(selector, datetime.now(UTC), author or "", selection, tally)
        if before:
            journal = join_journals(before, journal)
        if dry_run:
            return _make_receipt(opened, journal, is_resumed=before is not None, dry_run=True)
        text = journal.to_text()
        eraser.set_pending(text)
        contexts = remove_selection(make_ingest_context(opened, settings), journal.selection)
    compared = _compare(opened, journal, opened.resolve_settings(settings))
    matcher = Matcher(compared.fingerprints)
    sessions = scrub_sessions(opened.store.sessions, opened.folder, journal.selection, matcher)
    jobs = eraser.drop_jobs(lambda text: bool(matcher.count_in_text(text, TEXT_KINDS)))
    entries, notes = _clear_caches(opened)
    notes += scrub_records(opened.records, journal.selection, matcher)
    undone = eraser.purge()
    opened.store.flush()
    found, searched = _search_stored_bytes(opened, compared.fingerprints)
    if not found and eraser.pending() == text:  # else the next call searches again
        eraser.set_pending("")
    return _make_receipt(
        opened,
        journal,
        is_resumed=before is not None,
        contexts=contexts,
        cache_entries=entries,
        sessions=sessions,
        jobs=jobs,
        compared=compared,
        searched=searched,
        found=found,
        undone=undone,
        notes=notes,
    )


def _describe_selector(
    documents: Sequence[str], author: str | None, channel: str | None, before: Journal | None
) -> str:
    """What was asked for, as a line; SettingsError unless it is one kind of thing."""
    given = [name for name, value in (("documents", documents), ("author", author), ("channel", channel)) if value]
    if len(given) > 1:
        raise SettingsError(f"{' and '.join(given)} are both given; erase one kind at a time")
    if not given:
        if before is None:
            raise SettingsError("nothing to erase is named; give documents, an author or a channel")
        return before.selector
    if author:
        return f"author {author}"
    return f"channel {channel}" if channel else f"documents {', '.join(documents)}"


def _select(
    opened: Opened, documents: Sequence[str], author: str | None, channel: str | None, *, is_resumed: bool
) -> Selection:
    """The documents and messages that are meant; NotFound if there are none, unless an erasure is being finished."""
    store = opened.store
    if documents:
        found: list[str] = []
        for name in documents:
            with suppress(*([NotFound] if is_resumed else [])):
                found += resolve_document_or_sections(opened, name)
        return Selection(tuple(dict.fromkeys(found)))
    if author:
        selection = select_author(store, author)
    else:
        selection = select_channel(store, channel) if channel else Selection()
    if not selection and not is_resumed:
        kind, missing = ("author", author) if author else ("channel", str(channel))
        hint = format_suggestion(missing, sorted(list_authors(store) if author else store.channels()))
        raise NotFound(f"there is no {kind} {missing!r} in this collection; {hint or 'nothing was erased'}")
    return selection


def _compare(opened: Opened, journal: Journal, settings: Settings) -> Comparison:
    staged = opened.store.staged_model()
    return compare_with_remaining(
        opened.store,
        journal.tally.fingerprints,
        touched=journal.selection.messages.keys(),
        author=journal.author,
        own_words=[*_OWN_WORDS, opened.store.stats().embedder, *([staged.embedder] if staged else [])],
        language=settings.ingestion.language,
        threads=settings.threads,
        pack_terms=pack_terms,
    )


def _clear_caches(opened: Opened) -> tuple[int, list[str]]:
    """Clears the caches of both models as a whole; how many entries they had, and a note for each.

    Their keys are hashes, which do not tell what an entry was made of: an earlier version of a text, a prompt with it.
    """
    count, notes = 0, list[str]()
    models: tuple[tuple[str, object], ...] = (("embedder", opened.embedder), ("language model", opened.llm))
    for name, model in models:
        if isinstance(model, _HasCache):
            entries = model.clear_cache()
            count += entries
            notes.append(f"the cache of the {name} does not tell what its entries were made of; all {entries} are gone")
    return count, notes


def _search_stored_bytes(opened: Opened, fingerprints: Fingerprints) -> tuple[tuple[Finding, ...], int]:
    """What is found of the erased pieces in everything that is stored, and how many bytes that was."""
    matcher = Matcher(fingerprints)
    found: dict[tuple[str, str], int] = {}
    searched = 0
    for place, data in opened.store.eraser().stored_bytes():
        searched += len(data)
        has_own_words = place.startswith(("index/", "sessions/"))
        for kind, count in matcher.count(data, _LONG_KINDS if has_own_words else _ALL_KINDS).items():
            found[place, _NAMES[kind]] = found.get((place, _NAMES[kind]), 0) + count
    return tuple(Finding(place, what, count) for (place, what), count in found.items()), searched


def _make_receipt(
    opened: Opened,
    journal: Journal,
    *,
    is_resumed: bool,
    dry_run: bool = False,
    contexts: int = 0,
    cache_entries: int = 0,
    sessions: int = 0,
    jobs: int = 0,
    compared: Comparison | None = None,
    searched: int = 0,
    found: tuple[Finding, ...] = (),
    undone: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Receipt:
    tally = journal.tally
    pieces = len(compared.fingerprints) if compared else 0
    return Receipt(
        selector=journal.selector,
        at=journal.at,
        documents=tally.documents,
        messages=tally.messages,
        chunks=tally.chunks,
        vectors=tally.vectors,
        postings=tally.postings,
        summaries=tally.summaries,
        contexts=contexts,
        cache_entries=cache_entries,
        sessions=sessions,
        jobs=jobs,
        pieces=pieces,
        ambiguous=len(tally.fingerprints) - pieces + tally.fingerprints.short if compared else 0,
        searched=searched,
        found=found,
        quoted_by=compared.quoted_by if compared else (),
        named_by=compared.named_by if compared else (),
        sources=tuple(uri for uri in tally.uris if "://" not in uri and is_file_there(opened.root / uri)),
        undone=tuple(undone),
        notes=(*notes, *([_EXPORTS] if tally.messages else []), *opened.store.eraser().notes()),
        resumed=is_resumed,
        dry_run=dry_run,
    )
