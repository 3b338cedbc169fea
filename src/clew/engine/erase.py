"""The verb `erase`: delete documents, overwrite their bytes on disk and return a receipt."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from clew.core.errors import NotFound, SettingsError
from clew.core.protocols import RecordStore
from clew.core.report import Receipt
from clew.core.settings import Settings
from clew.core.stored import StoredSession
from clew.core.suggest import format_count, format_suggestion
from clew.engine.add import make_ingest_context
from clew.engine.names import resolve_document_or_sections
from clew.engine.opened import Opened
from clew.index.erase import (
    Journal,
    Quotes,
    Selection,
    collect_quotes,
    join_journals,
    list_authors,
    list_naming,
    list_quoting,
    make_journal,
    parse_journal,
    remove_selection,
    select_author,
    select_channel,
)
from clew.index.read.load import is_file_there

if TYPE_CHECKING:
    from clew.engine import Engine


# Words in the jobs and calibration of every collection; they quote no document.
_OWN_WORDS = "cancelled cancelling documents messages sources settings embedder"
_EXPORTS = "a chat export that still has the messages brings them back when it is added again; take them out of it too"


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
    """Erase documents (by id or address), all messages of an author, or a channel, and return a receipt.

    Everything derived goes too: chunks, vectors, postings, summaries, copies in the contexts of other messages, staged
    vectors, caches, and the chat sessions, jobs, runs and feedback that name or quote an erased text. The bytes are
    overwritten in free database pages, logs, index files and older versions.
    A source added in sections is erased with all sections. If an erasure is interrupted, the next call finishes it,
    even without arguments. `dry_run` only counts, and names the documents that quote an erased text.
    """
    if isinstance(documents, str):
        raise SettingsError("documents is one text; give a list of ids or addresses")
    opened = engine.opened
    records = opened.store.records
    pending = records.read("erasing")
    before = parse_journal(pending) if pending else None
    names = list(documents)
    selector = _describe_selector(names, author, channel, before)
    with opened.message_lock:
        selection = _select(opened, names, author, channel, is_resumed=before is not None)
        at = datetime.now(UTC).isoformat()
        journal = make_journal(opened.store, selection, selector=selector, at=at, author=author or "")
        if before:
            journal = join_journals(before, journal)
        journal, quotes = _collect_quotes(opened, journal, channel or "")
        if dry_run:
            return _make_receipt(opened, journal, resumed=before is not None, dry_run=True)
        records.write("erasing", journal.to_text())
        # Before the removal: if this process were killed after it, no quotes of the removed text could be found.
        scrubbed, busy = scrub(engine, journal, quotes)
        text = replace(journal, jobs=busy).to_text()
        records.write("erasing", text)
        contexts = remove_selection(make_ingest_context(opened, settings), journal.selection)
    entries, notes = _clear_caches(opened)
    meanwhile, busy = scrub(engine, journal, quotes)  # quotes written during the removal
    purge = opened.store.purge()
    opened.store.flush()
    again = (*(f"the job {job} tells of it and has not ended; run the erasure again after it" for job in busy),)
    again += purge.again
    if records.read("erasing") == text:  # else another process has begun an erasure
        records.write("erasing", replace(journal, jobs=busy).to_text() if again else "")
    return _make_receipt(
        opened,
        journal,
        resumed=before is not None,
        contexts=contexts,
        cache_entries=entries,
        scrubbed=scrubbed + meanwhile,
        overwritten=purge.done,
        named_by=list_naming(opened.store, journal.author),
        undone=(*again, *purge.forbidden),
        notes=notes,
    )


def _describe_selector(
    documents: Sequence[str], author: str | None, channel: str | None, before: Journal | None
) -> str:
    """Describe the request in a line; raise SettingsError unless it names one kind of thing."""
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
    """Select the named documents and messages; raise NotFound if there are none, unless resuming an erasure."""
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


def _collect_quotes(opened: Opened, journal: Journal, channel: str) -> tuple[Journal, Quotes]:
    """Add the documents that quote erased text to the journal; collect the words and phrases only that text has."""
    store = opened.store
    quotes = collect_quotes(store, journal.selection, [journal.author, channel])
    quotes.forget(f"{_OWN_WORDS} {store.counts().embedder}")
    quoting = list_quoting(store, journal.selection, quotes)
    return replace(journal, quoted_by=tuple(dict.fromkeys([*journal.quoted_by, *quoting]))), quotes


def _clear_caches(opened: Opened) -> tuple[int, list[str]]:
    """Clear the caches of both models; return the number of entries and a note for each cache.

    The keys are hashes, so entries made from an erased text cannot be singled out.
    """
    count, notes = 0, list[str]()
    models: tuple[tuple[str, object], ...] = (("embedder", opened.embedder), ("language model", opened.llm))
    for name, model in models:
        if isinstance(model, _HasCache):
            entries = model.clear_cache()
            count += entries
            notes.append(f"the cache of the {name} does not tell what its entries were made of; all {entries} are gone")
    return count, notes


def _make_receipt(
    opened: Opened, journal: Journal, *, scrubbed: Counter[str] | None = None, notes: Sequence[str] = (), **done: Any
) -> Receipt:
    gone = scrubbed or Counter[str]()
    deleted = [format_count(gone[what], what) for what in ("evaluation", "judgement") if gone[what]]
    return Receipt(
        selector=journal.selector,
        at=datetime.fromisoformat(journal.at),
        documents=journal.documents,
        messages=journal.message_ids,
        **dict[str, Any](journal.counts),
        sessions=gone["sessions"],
        jobs=gone["jobs"],
        quoted_by=journal.quoted_by,
        sources=tuple(uri for uri in journal.uris if "://" not in uri and is_file_there(opened.root / uri)),
        notes=(
            *(f"{each} that named what is erased: gone as well" for each in deleted),
            *notes,
            *([_EXPORTS] if journal.message_ids else []),
            *opened.store.notes(),
        ),
        **done,
    )


ERASED = "[erased]"


def scrub(engine: "Engine", journal: Journal, quotes: Quotes) -> tuple[Counter[str], tuple[str, ...]]:
    """Remove records that name or quote erased documents; return counts by kind, and the jobs still running."""
    opened = engine.opened
    names = [json.dumps(name, ensure_ascii=ascii_) for name in journal.documents for ascii_ in (True, False)]

    def tells(text: str) -> bool:
        return any(name in text for name in names) or quotes.are_in_json(text)

    jobs, busy = opened.store.jobs.drop(lambda job, text: job in journal.jobs or tells(text))
    counts = Counter(sessions=_scrub_sessions(engine, journal.selection, quotes), jobs=jobs)
    counts.update(_scrub_records(opened.store.records, tells))
    return counts, tuple(busy)


def _scrub_sessions(engine: "Engine", selection: Selection, quotes: Quotes) -> int:
    """Rewrite the sessions that hold erased text; return how many.

    If a session was shown an erased document, or a thread that lost messages, all its answers go: they may paraphrase
    the erased text. Questions go if they quote it. The other documents keep their numbers.
    """
    changed = 0
    sessions = engine.opened.store.sessions
    for name in sessions.names():
        before = sessions.get(name)
        if before is not None and _scrub_session(before, selection, quotes) != before:
            sessions.update(name, lambda session: _scrub_session(session, selection, quotes))
            changed += 1
    return changed


def _scrub_session(session: StoredSession, selection: Selection, quotes: Quotes) -> StoredSession:
    erased = set(selection.documents)
    ids = session.documents
    was_shown = not erased.isdisjoint(ids) or not selection.messages.keys().isdisjoint(ids)
    messages = tuple(
        replace(message, text=ERASED, id="")
        if message.text != ERASED and ((was_shown and message.role == "assistant") or quotes.are_in(message.text))
        else message
        for message in session.messages
    )
    kept = tuple(f"erased {number}" if doc_id in erased else doc_id for number, doc_id in enumerate(ids, 1))
    return replace(session, documents=kept, messages=messages)


def _scrub_records(records: RecordStore, tells: Callable[[str], bool]) -> dict[str, int]:
    """Delete evaluation runs and user judgements that name or quote erased text; return how many of each."""
    runs = [name for name, text in records.read_all("evaluations").items() if tells(text)]
    for name in runs:
        records.write("evaluations", "", name=name)
    lines = records.read("feedback").splitlines(keepends=True)
    kept = [line for line in lines if not tells(line)]
    if len(kept) < len(lines):
        records.write("feedback", "".join(kept))
    return {"evaluation": len(runs), "judgement": len(lines) - len(kept)}
