"""The verbs that answer: `ask` and `ask_stream`."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from clew.core.answer import CLOSEST, NO_ANSWER, Answer, AnswerPart
from clew.core.attribution import format_said
from clew.core.cite import Citation, Context
from clew.core.errors import SettingsError
from clew.core.events import EventStream, OnEvent, SentenceEvent, TokenEvent, join_callbacks
from clew.core.filter import EVERYTHING, Filter
from clew.core.settings import Settings
from clew.core.types import Hit, Message, Query
from clew.core.usage import Usage, UsageMeter
from clew.engine.conversations import style_prompt
from clew.engine.opened import Opened, check_positive_count
from clew.engine.search import (
    assemble_context,
    find_relevant_hits,
    make_query_from_text_or_table,
    retry_concurrent_change,
)
from clew.query.answer.check import Checker
from clew.query.answer.choose import QuestionReader, choose_passages
from clew.query.answer.newer import NewerMessage, ask_what_is_now, choose_newer, find_quoted_message, make_later_query
from clew.query.answer.passages import NumberedPassage, number_passages
from clew.query.answer.question import explain_missing, explain_unnamed
from clew.query.answer.write import SYSTEM, WrittenAnswer, build_answer_prompt, write_answer
from clew.query.context.assemble import explain_floor
from clew.query.rewrite.expand import read_role_and_text
from clew.query.search.rank import HYBRID

if TYPE_CHECKING:
    from clew.engine import Engine

OnSentence = Callable[[str], None]
NOTHING_TO_CITE = "the passages found have no sentence to cite"
MAX_BEFORE = 1_000  # characters of the question before a follow-up
MISSING_CONFIDENCE = 0.2  # upper bound if the passages lack the kind of answer that is asked for
UNNAMED_CONFIDENCE = 0.3  # upper bound if no passage mentions a name of the question (they may use another name)


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
    """Answer a question from the collection. The citation of every sentence is checked against the stored text.

    With a language model the answer is prose, in the style of `person` if given. Without one it quotes the best
    passages; `parts` marks the words that answer. `on_sentence` is called with each sentence once it is checked,
    `on_event` with each event of `ask_stream` except the FinalEvent. If nothing supports an answer, the text says so
    and `found` is False.

    tokens, k, session: As for `context`. strategy, where, history, settings: As for `search`.
    """
    emit = join_callbacks(on_event, on_sentence)
    settings = engine.opened.resolve_settings(settings)
    whole, engine = engine, type(engine)(engine.opened.within(where).for_call(settings))  # with the same sessions
    opened = engine.opened
    if opened.llm is None and person:
        raise SettingsError(f"answering as {person!r} needs a language model; name one (llm.name)")
    shape = shape_context(settings, tokens=tokens)
    query = make_query_from_text_or_table(question, settings.context.k if k is None else k, where, history, settings)
    with UsageMeter().measure() as meter:
        query = opened.finder.understand(query, settings, opened.llm)
    turns = "" if opened.llm is not None else join_turns(query)
    found = find_context(opened, query, strategy or settings.search.strategy, shape, session=session, turns=turns)
    if not found.is_covered and not found.context.passages and (unknown := whole.unknown_names(where)):
        found = replace(found, context=replace(found.context, reason="; ".join(unknown)))
    if opened.llm is None or not found.context.passages:
        return answer_verbatim(opened, found, settings, on_event=emit)
    if not found.is_covered and make_reader(opened, found, settings).reader is not None:
        read = answer_verbatim(opened, found, settings, on_event=lambda _: None)
        if read.confidence < settings.answer.min_nearest:  # a model would answer from any passages
            emit(SentenceEvent(read.text))
            return read
    with meter.measure():
        manner = style_prompt(engine, person, question, settings=settings) if person else ""
        text = build_answer_prompt(query.text, found.context.text, history=_render_history(history), style=manner)
        pieces = opened.llm.stream(text, system=SYSTEM, max_tokens=settings.answer.max_tokens)
        shown = number_passages(found.context, opened.store.document)
        with closing(_emit_tokens(pieces, emit)) as told:
            made = write_answer(
                told,
                make_checker(opened, shown, query.text, settings),
                on_event=emit,
                numbers=found.numbers,
                unsupported=settings.answer.unsupported,
            )
    return build_model_answer(found, made, usage=meter.usage, reason=made.no_answer_reason)


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
    """Stream the events of `ask`, ending with a FinalEvent; the options are those of `ask`.

    With a language model, TokenEvents stream its reply, then a SentenceEvent and a VerdictEvent follow for each
    sentence. Without one there are SentenceEvents only.
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


@dataclass(frozen=True, slots=True)
class FoundContext:
    """The context found for a question.

    is_covered: False if all hits are below the relevance floor. The context then holds them anyway: the reader may
        still find an answer in them.
    turns: A follow-up after the question that it leans on, as the reader reads it; empty for any other question.
    numbers: The document numbers of the `session`.
    """

    query: Query
    context: Context
    turns: str = ""
    is_covered: bool = True
    numbers: Mapping[str, int] = field(default_factory=dict)
    session: str | None = None

    @property
    def asked(self) -> str:
        """The question as the user asked it."""
        return self.query.asked or self.query.text

    @property
    def searched(self) -> str:
        """The rewritten question that was searched for; empty if it was not rewritten."""
        return "" if self.query.text == self.asked else self.query.text


def shape_context(settings: Settings, *, tokens: int | None) -> Settings:
    """Return the settings with the format and token budget of the context that `ask` answers from."""
    tokens = settings.context.tokens if tokens is None else check_positive_count("tokens", tokens)
    return replace(
        settings, context=replace(settings.context, render="numbered", wrap="xml", order="score", tokens=tokens)
    )


def find_context(
    opened: Opened, query: Query, strategy: str, settings: Settings, *, session: str | None = None, turns: str = ""
) -> FoundContext:
    """Search and assemble the context, with the relevance floor of `context`; also search for the `turns`, if any."""
    hits, left_out = find_relevant_hits(opened, query, strategy, settings)
    is_covered = bool(hits) or (settings.answer.min_confidence == 0 and bool(left_out))
    if turns:
        others = find_relevant_hits(opened, replace(query, text=turns, vector=None), strategy, settings)
        hits, left_out = (take_alternately(query.k, *pair) for pair in zip((hits, left_out), others, strict=True))
    context = assemble_context(opened, query, hits or left_out, session=session, settings=settings)
    if left_out and not is_covered:
        context = replace(context, reason=explain_floor(left_out, settings.context))
    return FoundContext(query, context, turns, is_covered, context.numbers if session else {}, session)


def take_alternately(k: int, *rankings: Sequence[Hit]) -> list[Hit]:
    """Take k hits of several rankings in turn, each chunk once."""
    found: dict[str, Hit] = {}
    for hits in zip_longest(*rankings):
        found |= {hit.chunk.id: hit for hit in hits if hit is not None and hit.chunk.id not in found}
    return list(found.values())[:k]


def make_checker(opened: Opened, passages: Sequence[NumberedPassage], question: str, settings: Settings) -> Checker:
    """Make the checker of a model's sentences against these passages."""
    return Checker(passages, question, opened.get_verifier(settings))


def build_model_answer(found: FoundContext, made: WrittenAnswer, *, usage: Usage, reason: str) -> Answer:
    """Build the Answer from a model's checked sentences."""
    return Answer(
        question=found.asked,
        text=made.display_text,
        citations=made.citations,
        context=found.context,
        found=made.is_answer,
        confidence=made.confidence,
        removed=made.removed,
        usage=usage,
        reason=reason,
        numbers=_select_cited_numbers(made.citations, found.numbers),
        fault=made.fault,
        sentences=made.sentences,
        searched=found.searched,
    )


def answer_verbatim(opened: Opened, found: FoundContext, settings: Settings, *, on_event: OnEvent) -> Answer:
    """Quote the passages that answer best, marking the answering words in each.

    Below `answer.min_confidence`, `found` is False and the passages are introduced as the closest ones; below
    `answer.min_nearest` none is quoted.
    """
    minimum = settings.answer.min_confidence
    reader, passages = make_reader(opened, found, settings), number_passages(found.context, opened.store.document)
    choice = choose_passages(reader, passages, max_passages=settings.answer.passages)
    confidence, missing, unnamed = choice.confidence, "", ""
    if choice.parts and minimum > 0:
        texts = [hit.chunk.index_text for passage in found.context.passages for hit in passage.chunks]
        missing = explain_missing(found.query.text, [*texts, *(part.passage for part in choice.parts)])
        unnamed = "" if missing else explain_unnamed(found.query.text, texts)
        confidence = min(confidence, MISSING_CONFIDENCE if missing else UNNAMED_CONFIDENCE if unnamed else 1.0)
    is_answer = bool(choice.parts) and confidence >= minimum and not missing
    parts = choice.parts if is_answer or confidence >= settings.answer.min_nearest else ()
    newer = find_newer(opened, found.query, parts[0], passages, settings) if is_answer else None
    numbers = found.numbers
    if newer is not None:
        parts = newer.put_beside(parts)[: settings.answer.passages]
        numbers = _number_documents(opened, parts, found)
    text = _write_parts(parts, numbers, is_answer=is_answer, on_event=on_event)
    reason = newer.note if newer else ""
    if not is_answer:
        reason = missing or unnamed or (found.context.reason or (NO_ANSWER if choice.parts else NOTHING_TO_CITE))
    citations = tuple(part.citation for part in parts)
    return Answer(
        question=found.asked,
        text=text or NO_ANSWER,
        citations=citations,
        context=found.context,
        found=is_answer,
        confidence=confidence,
        reason=reason,
        numbers=_select_cited_numbers(citations, numbers),
        parts=parts,
        searched=found.searched,
    )


def find_newer(
    opened: Opened,
    query: Query,
    quoted: AnswerPart,
    passages: Sequence[NumberedPassage],
    settings: Settings,
) -> NewerMessage | None:
    """Return the later message that most likely supersedes a quoted one; None without one, or without a reader."""
    message = find_quoted_message(quoted, passages)
    if message is None:
        return None
    later, question = make_later_query(query, message), ask_what_is_now(query)
    hits = opened.finder.find(later, HYBRID, settings)
    reader = opened.get_reader(question, hits, settings)
    if reader is None:
        return None
    context = assemble_context(opened, later, hits, settings=settings)
    asked = QuestionReader(question, opened.get_reranker_or_overlap(settings, question), reader)
    return choose_newer(asked, number_passages(context, opened.store.document))


def _number_documents(opened: Opened, parts: Sequence[AnswerPart], found: FoundContext) -> Mapping[str, int]:
    """Return the session's numbers of the documents found and quoted, numbering new ones."""
    if found.session is None:
        return found.numbers

    def assign() -> Mapping[str, int]:
        with opened.sessions.lock_document_numbers(found.session) as numbers:
            return numbers.assign([part.citation.document for part in parts])

    return {**found.numbers, **retry_concurrent_change(assign)}


def make_reader(opened: Opened, found: FoundContext, settings: Settings) -> QuestionReader:
    """Make the QuestionReader: the reranker, and the reader if it knows the language."""
    hits, text = [hit for passage in found.context.passages for hit in passage.chunks], found.query.text
    reranker = opened.get_reranker_or_overlap(settings, text)
    return QuestionReader(text, reranker, opened.get_reader(text, hits, settings), found.turns)


def join_turns(query: Query) -> str:
    """Return a follow-up after the question that it leans on, as the reader was trained to read it; else ""."""
    if query.asked in ("", query.text):
        return ""
    said = map(read_role_and_text, reversed(query.history))
    before = next((text for role, text in said if role == "user"), "")
    return f"{before[:MAX_BEFORE]} {query.asked}" if before else ""


def _write_parts(parts: Sequence[AnswerPart], numbers: Mapping[str, int], *, is_answer: bool, on_event: OnEvent) -> str:
    """Return the quoted passages with their citation marks, emitting a SentenceEvent for each."""
    lines: list[str] = []
    if parts and not is_answer:
        lines.append(CLOSEST)
        on_event(SentenceEvent(CLOSEST))
    for number, part in enumerate(parts, 1):
        gap = "\n\n" if lines else ""
        mark = f"[{numbers.get(part.citation.document, number)}]"
        between = "\n" if part.passage.endswith(("```", "~~~", "|")) else " "  # nothing may follow a fence or a row
        lines.append(f"{part.passage}{between}{mark}")
        start, end = (place + len(gap) for place in part.highlight)
        on_event(SentenceEvent(f"{gap}{lines[-1]}", (start, end)))
    return "\n\n".join(lines)


def _emit_tokens(pieces: Iterator[str], emit: OnEvent) -> Generator[str, None, None]:
    """Yield the pieces of a reply, emitting a TokenEvent before each. Closing this generator ends the reply."""
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
