"""The verbs that answer: `ask`, and the same as a stream of events."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.core.answer import Answer, AnswerPart
from clew.core.attribution import format_said
from clew.core.cite import Citation
from clew.core.errors import SettingsError
from clew.core.events import EventStream, OnEvent, SentenceEvent, TokenEvent, join_callbacks
from clew.core.filter import EVERYTHING, Filter
from clew.core.passages import Context
from clew.core.settings import Settings
from clew.core.small_talk import is_small_talk
from clew.core.text import extract_terms
from clew.core.types import Chunk, Hit, Message, Query
from clew.core.usage import Usage, UsageMeter
from clew.engine.conversations import style_prompt
from clew.engine.opened import Opened, check_positive_count, check_question
from clew.engine.search import assemble_context, make_query_from_text_or_table
from clew.query.answer import NO_ANSWER, PROBE_HITS, Probe, extract_answer, number_passages, write_answer
from clew.query.answer.confidence import READER_WEIGHTS, WEIGHTS
from clew.query.answer.extract import READ_HITS, ExtractedAnswer, ExtractedPart
from clew.query.answer.passages import Read
from clew.query.answer.quote import MAX_WORDS, quote_part
from clew.query.answer.write import SYSTEM, WrittenAnswer, build_answer_prompt
from clew.query.context.assemble import NO_MATCH
from clew.query.rewrite.rewrites import build_expander, expand_if_elliptic
from clew.query.search.find import build_query

if TYPE_CHECKING:
    from clew.engine import Engine

OnSentence = Callable[[str], None]
CLOSEST = f"{NO_ANSWER} The closest one:"
LATER_HITS = 6  # messages that may replace what an older one says
PROBE = "hybrid"  # the strategy whose hits tell how well the collection covers a question


def ask(
    engine: "Engine",
    question: str,
    *,
    tokens: int | None = None,
    k: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    session: str | None = None,
    person: str | None = None,
    on_sentence: OnSentence | None = None,
    on_event: OnEvent | None = None,
    settings: Settings | None = None,
) -> Answer:
    """The answer of the collection, every sentence with a citation that was checked against the stored text.

    With a language model it is prose, in the style of a `person` if one is named; without one it is the best passage
    verbatim, and `parts` tells what was chosen in it. `on_sentence` is called with each sentence once it is checked,
    `on_event` with each event of `ask_stream` but the last. If nothing supports an answer, the text says so and `found`
    is False.
    """
    check_question(question)
    emit = join_callbacks(on_event, on_sentence)
    settings = engine.opened.resolve_settings(settings)
    whole, engine = engine, type(engine)(engine.opened.within(where).for_call(settings))  # with the same sessions
    opened = engine.opened
    if opened.llm is None and person:
        raise SettingsError(f"answering as {person!r} needs a language model; name one (llm.name, --llm)")
    strategy = strategy or settings.search.strategy
    shape = replace(settings, context=replace(settings.context, render="numbered", wrap="xml", order="score"))
    if tokens is not None:
        shape = replace(shape, context=replace(shape.context, tokens=check_positive_count("tokens", tokens)))
    query = make_query_from_text_or_table(question, settings.context.k if k is None else k, where, history, settings)
    probe = find_probe_hits(opened, query, settings) if opened.llm is None and strategy == PROBE else None
    found = opened.finder.find(query, strategy, shape) if probe is None else probe[: query.k]
    context = assemble_context(opened, query, found, session=session, settings=shape)
    if not found and context.reason.startswith(NO_MATCH) and (unknown := whole.unknown_names(where)):
        context = replace(context, reason="; ".join(unknown))
    hits = sorted((hit for passage in context.passages for hit in passage.chunks), key=lambda hit: -hit.score)
    numbers = context.numbers if session else {}
    if opened.llm is None or not hits:
        return answer_verbatim(opened, query, hits, context, settings, numbers=numbers, on_event=emit, probe=probe)
    with UsageMeter().measure() as meter:
        manner = style_prompt(engine, person, question, settings=settings) if person else ""
        text = build_answer_prompt(question, context.text, history=_render_history(history), style=manner)
        pieces = opened.llm.stream(text, system=SYSTEM, max_tokens=settings.answer.max_tokens)
        shown = number_passages(context, opened.store.document)
        with closing(_emit_tokens(pieces, emit)) as told:
            made = write_answer(
                told,
                shown,
                question=question,
                on_event=emit,
                numbers=numbers,
                unsupported=settings.answer.unsupported,
                verifier=opened.get_verifier(settings),
            )
    return build_model_answer(question, made, context, usage=meter.usage, reason=made.no_answer_reason, numbers=numbers)


def ask_stream(
    engine: "Engine",
    question: str,
    *,
    tokens: int | None = None,
    k: int | None = None,
    strategy: str | None = None,
    where: Filter = EVERYTHING,
    history: Sequence[Message] = (),
    session: str | None = None,
    person: str | None = None,
    settings: Settings | None = None,
) -> EventStream:
    """The events of `ask` as they happen; a FinalEvent is the last.

    With a language model TokenEvents are its reply as it comes, then a SentenceEvent and a VerdictEvent tell each
    sentence and its verdict. Without one there are SentenceEvents only.
    """
    return EventStream(
        lambda on_event: ask(
            engine,
            question,
            tokens=tokens,
            k=k,
            strategy=strategy,
            where=where,
            history=history,
            session=session,
            person=person,
            on_event=on_event,
            settings=settings,
        )
    )


def build_model_answer(
    question: str, made: WrittenAnswer, context: Context, *, usage: Usage, reason: str, numbers: Mapping[str, int]
) -> Answer:
    """The Answer made of a model's checked sentences; its confidence is the mean chance of those that are shown."""
    return Answer(
        question=question,
        text=made.display_text,
        citations=made.citations,
        context=context,
        found=made.is_answer,
        confidence=made.confidence,
        removed=made.removed,
        usage=usage,
        reason=reason,
        numbers=_select_cited_numbers(made.citations, numbers),
        fault=made.fault,
        sentences=made.sentences,
    )


def answer_verbatim(
    opened: Opened,
    query: Query,
    hits: Sequence[Hit],
    context: Context,
    settings: Settings,
    *,
    numbers: Mapping[str, int],
    on_event: OnEvent,
    probe: Sequence[Hit] | None = None,
) -> Answer:
    """Quote the passage that answers best, with the chosen sentences marked in it.

    A follow-up is read as the search understands it. Where confidence is below the threshold, the text says that the
    passage is only the closest one, and `found` is False.
    """
    if probe is None and hits:
        probe = find_probe_hits(opened, query, settings)
    question = understand_question(opened, query, settings) if hits else query.text
    minimum = settings.answer.min_confidence
    reader = opened.get_reader(question, hits[:READ_HITS], settings)
    reranker = opened.get_reranker_or_overlap(settings, question)
    found = extract_answer(
        question,
        hits,
        {record.id: record for record in context.documents},
        reader or reranker,
        read_chunks=opened.store.chunks,
        find_later=lambda part: find_later_hits(opened, question, part.hit.chunk, query, settings),
        probe=build_probe(opened, question, probe or (), settings) if hits else None,
        max_sentences=settings.answer.sentences,
        min_confidence=minimum,
        min_nearest=settings.answer.min_nearest,
        reads_words=reranker.name != "overlap",
        weights=WEIGHTS if reader is None else READER_WEIGHTS,
        topics=None if reader is None else reranker,
    )
    parts = quote_parts(found, context, opened.store.document)
    closest = found.is_nearest and bool(parts)
    if closest:
        on_event(SentenceEvent(CLOSEST))
    lines = [CLOSEST] if closest else []
    for number, (part, extracted) in enumerate(parts, 1):
        before = "Earlier: " if extracted.superseded_by is not None else ""
        gap = "\n\n" if lines else ""
        mark = f"[{numbers.get(part.citation.document, number)}]"
        between = "\n" if part.passage.endswith(("```", "~~~", "|")) else " "  # fences and rows end their line
        lines.append(f"{before}{part.passage}{between}{mark}")
        shift = len(gap) + len(before)
        on_event(SentenceEvent(f"{gap}{lines[-1]}", (part.highlight[0] + shift, part.highlight[1] + shift)))
    is_answered = bool(lines) and not closest
    nothing = found.absent or (
        NO_ANSWER if found.confidence < minimum else "the passages found have no sentence to cite"
    )
    citations = tuple(part.citation for part, _ in parts)
    return Answer(
        question=query.text,
        text="\n\n".join(lines) or NO_ANSWER,
        citations=citations,
        context=context,
        found=is_answered,
        confidence=found.confidence,
        reason="" if is_answered else nothing if hits else context.reason,
        numbers=_select_cited_numbers(citations, numbers),
        parts=tuple(part for part, _ in parts),
    )


def understand_question(opened: Opened, query: Query, settings: Settings) -> str:
    """Return the question as the search understands it: a follow-up after keywords of the conversation.

    The colon between them makes the reader surer of what is right (`studies.follow_ups`, 35 of 48 instead of 29).
    """
    if not query.history or is_small_talk(query.text):
        return query.text
    compare = opened.finder.build_drivers(settings).evidence.is_new_topic
    expanded = expand_if_elliptic(query, build_expander(settings.history), compare).text
    keywords = expanded.removesuffix(query.text).strip()
    return f"{keywords}: {query.text}" if keywords else query.text


def quote_parts(found: ExtractedAnswer, context: Context, read: Read) -> list[tuple[AnswerPart, ExtractedPart]]:
    """Quote the best part within its passage, and further parts alone where that passage does not show them."""
    parts: list[tuple[AnswerPart, ExtractedPart]] = []
    for extracted in found.parts:
        part = quote_part(extracted, context, read, max_words=0 if parts else MAX_WORDS)
        if not parts or extracted.superseded_by is not None or part.chosen not in parts[0][0].passage:
            parts.append((part, extracted))
    return parts


def find_probe_hits(opened: Opened, query: Query, settings: Settings, *, k: int = PROBE_HITS) -> list[Hit]:
    """The hits of a hybrid search from which an answer's confidence is computed, whatever strategy found the answer."""
    k = max(k, query.k)
    return opened.finder.find(replace(query, k=k, depth=max(query.depth, k)), PROBE, settings)


def find_later_hits(opened: Opened, question: str, chunk: Chunk, query: Query, settings: Settings) -> list[Hit]:
    """What was said in the channel of a message after it, most like it and the question first."""
    channel = chunk.meta.get("channel")
    if not channel or chunk.at is None:
        return []
    where = query.where & Filter(channels=frozenset({str(channel)}), since=chunk.at)
    found = opened.finder.find(
        build_query(f"{question}\n{chunk.text}", LATER_HITS + 1, where, (), settings), PROBE, settings
    )
    return [hit for hit in found if hit.chunk.id != chunk.id][:LATER_HITS]


def build_probe(opened: Opened, question: str, probe: Sequence[Hit], settings: Settings) -> Probe:
    """The Probe of these hits, with the query's terms and the embedder's floor: the input of an answer's confidence."""
    language = settings.ingestion.language
    return Probe(
        list(probe), extract_terms(question, language=language).keys(), opened.embedder.min_similarity, language
    )


def _emit_tokens(pieces: Iterator[str], emit: OnEvent) -> Generator[str, None, None]:
    """The pieces of a reply, each told as a TokenEvent first; closing it ends the reply."""
    try:
        for piece in pieces:
            emit(TokenEvent(piece))
            yield piece
    finally:
        if isinstance(pieces, Generator):
            pieces.close()


def _select_cited_numbers(citations: Sequence[Citation], numbers: Mapping[str, int]) -> dict[str, int]:
    return {each.document: numbers[each.document] for each in citations if each.document in numbers}


def _render_history(history: Sequence[Message]) -> str:
    return "\n".join(
        format_said(name, message.at, message.text) if message.at else f"{name}: {message.text}"
        for message in history
        for name in [message.author or message.role]
    )
