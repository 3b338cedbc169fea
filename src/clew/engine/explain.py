"""The verbs about a result: explain, why_not, check, feedback."""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clew.core.cite import Citation, CitationCheck
from clew.core.errors import ClewError, NotFound, SettingsError, SourceError
from clew.core.explanation import Explanation, WhyNot
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import RecordStore, Strategy
from clew.core.settings import Settings
from clew.core.thread import make_first_chunk_id
from clew.core.trace import record
from clew.core.types import Chunk, Document, Hit, Message
from clew.engine.opened import Opened, check_filter, check_positive_count, resolve_document
from clew.engine.search import (
    choose_strategy,
    context,
    find_renderer,
    make_query_from_text_or_table,
    search,
    take_strategy,
)
from clew.index.read import read_file
from clew.index.read.load import is_file_there
from clew.index.read.process.limits import ReadLimits
from clew.index.walk.files import find_reason_passed_over
from clew.index.walk.ignore import EXCLUDED, NOT_INCLUDED
from clew.index.walk.uri import make_file_uri
from clew.query import why
from clew.query.agent.lookup import find_document_by_title
from clew.query.context import assemble
from clew.query.messages.table import Table
from clew.query.why import Attempt, TrialReranker

if TYPE_CHECKING:
    from clew.engine import Engine


def explain(
    engine: "Engine",
    query: str | Table,
    *,
    k: int | None = None,
    strategy: str | Strategy | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    channel: str | None = None,
    now: datetime | None = None,
    settings: Settings | None = None,
) -> Explanation:
    """Explain a `search` of the same options: its stages with counts and times, and every score of each hit."""
    settings = engine.opened.resolve_settings(settings)
    settings = replace(settings, search=replace(settings.search, cache=0))  # a cached result has no stages
    with record("explain") as trace:
        hits = search(
            engine,
            query,
            k=k,
            strategy=strategy,
            where=where,
            history=history,
            channel=channel,
            now=now,
            settings=settings,
        )
    k = settings.search.k if k is None else k
    return Explanation(
        query=make_query_from_text_or_table(query, k, where, history, settings, channel=channel, now=now),
        strategy=choose_strategy(query, take_strategy(engine.opened, strategy)[1], settings)[0],
        hits=tuple(hits),
        documents=tuple({hit.document.id: hit.document for hit in hits}.values()),
        trace=trace,
    )


def why_not(
    engine: "Engine",
    query: str | Table,
    target: str,
    *,
    k: int | None = None,
    tokens: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    settings: Settings | None = None,
) -> WhyNot:
    """Name the stage that lost a document, chunk or message, and the smallest change of one setting that restores it.

    With `tokens`, explain its absence from the context of that many tokens, else from the hits. The suggested setting
    has been tried; the collection is not changed.

    target: The id, address or path of what is missing. The other options are those of `search`.
    """
    opened = engine.opened
    given = opened.resolve_settings(settings)
    if k is not None:
        k = check_positive_count("k", k)
    context_config = given.context if k is None else replace(given.context, k=k)
    if tokens is not None:
        context_config = replace(context_config, tokens=check_positive_count("tokens", tokens))
    base = replace(
        given,
        search=replace(given.search, cache=0, k=given.search.k if k is None else k),
        context=context_config,
    )
    question = query if isinstance(query, str) else "the conversation"
    check_filter(where)
    try:
        document, chunks = _find_target(opened, target)
    except NotFound:
        return _explain_not_added(opened.within(where), question, target)
    shown = [
        *chunks,
        *(replace(chunk, context="") for chunk in chunks),
    ]  # a filter may hide the context around the chunks
    reranker = TrialReranker({chunk.index_text for chunk in shown})
    trying = type(engine)(replace(opened, finder=opened.finder.with_reranker(reranker.wrap)))

    def run(tried: Settings, wider: Filter) -> Attempt:
        name = strategy if tried.search.strategy == base.search.strategy else None  # a fix may change the strategy
        reranker.is_trial = tried is not base
        with record("why_not", keep=True) as trace:
            if tokens is None:
                hits = search(trying, query, strategy=name, where=wider, history=history, settings=tried)
                return Attempt(hits, trace)
            made = context(trying, query, strategy=name, where=wider, history=history, settings=tried)
        step = trace.find("search")
        hits = [hit for hit in (step.output or ()) if isinstance(hit, Hit)] if step else []
        return Attempt(hits, trace, made, find_renderer(opened, tried.context.render).max_chars)

    return why.why_not(question, target, document=document, chunks=chunks, run=run, settings=base, where=where)


def check(engine: "Engine", citations: Iterable[Citation], *, where: Filter = EVERYTHING) -> list[CitationCheck]:
    """Check whether each citation of a past answer still matches the stored documents."""
    given: object = citations  # callers without a type checker pass anything
    found: list[Any] = [*given] if isinstance(given, Iterable) else [given]
    for each in found:
        if not isinstance(each, Citation):
            raise SettingsError(f"a citation has the type {type(each).__name__}; give `answer.citations`")
    return [*assemble.check_citations(found, engine.opened.within(where).store.document)]


def _explain_never_added(opened: Opened, path: Path, target: str) -> str:
    """Explain why a readable file was never added, and how to add it."""
    config = opened.settings.ingestion
    passed_over = find_reason_passed_over(path, root=opened.root, config=config)
    if not passed_over:
        return f"the file was never added; run `clew add {target}`"
    reason = f"the file was never added: adding its folder passes it over ({passed_over})"
    if passed_over in (EXCLUDED, NOT_INCLUDED):
        return f"{reason}; change ingestion.exclude or ingestion.include"
    return f"{reason}; to add it all the same, run `clew add {target}`"


def _find_target(opened: Opened, name: str) -> tuple[Document, list[Chunk]]:
    """Find the named document with all its chunks, or the document of a named chunk or message with just that chunk."""
    store = opened.store
    try:
        doc_id = resolve_document(opened, name)
    except NotFound:
        found = store.chunks_by_id([name, make_first_chunk_id(name)])
        if not found:
            titled = find_document_by_title(name, store.documents())
            return store.document(titled.id), store.chunks(titled.id)
        chunk = next(iter(found.values()))
        document = store.document(chunk.doc_id)
        if name in found:
            return document, [chunk]
        return document, [part for part in store.chunks(chunk.doc_id) if part.meta.get("message") == name]
    return store.document(doc_id), store.chunks(doc_id)


def _explain_not_added(opened: Opened, question: str, target: str) -> WhyNot:
    """Explain why a target is not in the collection: never added, not readable, or no such name.

    Within a filter, always say that there is no such name: a restricted user must not probe hidden names or files.
    """
    try:
        resolve_document(opened, target)
        missing = f"there is no document {target!r}"
    except NotFound as error:
        missing = error.message.partition("; `clew")[0]
    if opened.boundary != EVERYTHING:
        return WhyNot(question, target, "not ingested", missing)
    for path in (Path(target), opened.root / target):
        if is_file_there(path):
            try:
                read_file(
                    path,
                    uri=make_file_uri(path, opened.root),
                    max_bytes=opened.settings.ingestion.max_file_bytes,
                    readers=opened.extensions.readers,
                    limits=ReadLimits.of(opened.settings.ingestion),
                )
            except SourceError as error:
                return WhyNot(question, target, "parse", f"the file cannot be read: {error.reason}")
            except ClewError as error:
                return WhyNot(question, target, "parse", f"the file cannot be read: {error}")
            reason = _explain_never_added(opened, path, target)
            return WhyNot(question, target, "not ingested", reason)
    return WhyNot(question, target, "not ingested", missing)


MAX_READ: Final = 1000  # newest records that `list_feedback` returns
MAX_CHARS: Final = 16 * 1024 * 1024  # per collection; above it the older half is removed
_FIELDS: Final = (("id", str), ("at", str), ("question", str), ("kind", str), ("documents", list))  # required on read
_TRIM_EVERY = "00"  # check the size after records whose id ends so, one in 256


def feedback(
    engine: "Engine",
    question: str,
    *,
    good: bool | None = None,
    opened: str | None = None,
    rank: int | None = None,
    comment: str = "",
    answer: str = "",
    documents: Sequence[str] = (),
    caller: str = "",
) -> dict[str, Any]:
    """Store a judgement of an answer and its documents, or the opening of a result; return the stored record.

    Give `good`, or the id of the `opened` document and the `rank` of the result. `comment` is free text, `caller` names
    who says so. `make_questions` with the source `feedback` turns the records into judged questions.
    """
    engine.opened.check_unbounded()
    if not question.strip():
        raise SettingsError("the question is empty; say which question was answered")
    if (good is None) == (opened is None):
        raise SettingsError("feedback says good=True or False of an answer, or names the document that was opened=…")
    kept: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "question": question,
        "kind": "judged" if opened is None else "opened",
        "good": good,
        "rank": None if rank is None else check_positive_count("rank", rank),
        "comment": comment,
        "answer": answer,
        "documents": [*documents] if opened is None else [opened],
        "caller": caller,
    }
    records = engine.opened.store.records
    records.append("feedback", json.dumps(kept) + "\n")  # ASCII: no character of a text is a line break
    if kept["id"].endswith(_TRIM_EVERY):
        trim_feedback(records)
    return kept


def list_feedback(engine: "Engine") -> list[dict[str, Any]]:
    """List the last thousand judgements and openings of the collection, oldest first."""
    engine.opened.check_unbounded()
    lines = engine.opened.store.records.read("feedback").split("\n")
    return [*islice(_parse_lines(reversed(lines)), MAX_READ)][::-1]


def _parse_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Parse the records, skipping lines that are truncated or not written by `feedback`."""
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "good" in found and all(type(found.get(name)) is kind for name, kind in _FIELDS):
            yield found


def trim_feedback(records: RecordStore, *, max_chars: int = MAX_CHARS) -> None:
    """Remove the older half of the records if they exceed `max_chars`."""
    text = records.read("feedback")
    if len(text) > max_chars:
        _, _, newer = text[len(text) // 2 :].partition("\n")
        records.write("feedback", newer)
