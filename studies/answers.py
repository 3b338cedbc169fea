"""`python -m studies.answers [--cache FILE]`: does an answer without a language model answer?

On the sample of `examples/`, handbook and chat in one collection: each judged question is asked as `ask` does by
default. An answer is right first if the passage that it shows first holds at least half of the marked quote; where the
chat contradicts a page, only the chat is right. "Chosen" counts only the part that is highlighted in it, and a message
that it is part of. "Or nearest" counts also what is shown as the closest passage where there is no answer. "By its
facts" counts also other places that state the same: all numbers, dates and codes of the marked quote and half of its
terms, or four fifths of its terms if it has none. Rules were written with the questions of even position in view
("tuned"); those of odd position were held out.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from clew import Answer, AnswerPart, Engine, Extensions, Filter, Settings, drivers
from clew.core.cite import Citation
from clew.core.protocols import Embedder, Reranker
from clew.core.settings import EmbedderConfig, IngestionConfig, RerankerConfig, SearchConfig
from clew.core.text import extract_terms
from clew.query.answer.facts import find_facts
from clew.query.answer.question import is_question
from studies.handbook import EXAMPLES
from studies.sets import read_jsonl

FILES = ("questions", "chat-questions", "chat-questions-2")
HALVES = ("tuned", "held out")
SHARE = 0.5  # of a quote that a citation must hold
FACTS = frozenset({"number", "year", "date", "weekday", "code"})
FACT_SHARE = 0.5  # of the terms of a quote that another place with the same facts must have
TERM_SHARE = 0.8  # … where the quote has no facts


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with its marked evidence: quotes of a page, and quotes of the messages that answer it."""

    id: str
    text: str
    slice: str
    half: str
    page: str
    page_quote: str
    messages: frozenset[str]
    message_quote: str


@dataclass(frozen=True, slots=True)
class AnswerJudgement:
    """Whether an answer was given, whether it is right first or anywhere, and how much it shows."""

    question: JudgedQuestion
    is_given: bool
    is_right_first: bool
    is_chosen_right: bool  # what is highlighted in what is shown first
    is_nearest_right: bool  # what is shown first, as an answer or as the nearest passage
    is_same_fact: bool  # … or another place that states the same
    is_right: bool
    shows_question: bool
    sentences: int


def load_questions(examples: Path) -> list[JudgedQuestion]:
    """The questions of all files, alternately tuned on and held out."""
    found = []
    for file in FILES:
        for place, row in enumerate(read_jsonl(examples / f"{file}.jsonl")):
            slice_ = row.get("slice", "page")
            page_quote = {"page": row["quote"], "chat": "", "both": row.get("page_quote", "")}[slice_]
            found.append(
                JudgedQuestion(
                    id=row["id"],
                    text=row["question"],
                    slice="handbook" if file == "questions" else slice_,
                    half=HALVES[place % 2],
                    page=row["documents"][0] if row["documents"] else "",
                    page_quote="" if row.get("relation") == "contradicts" else page_quote,
                    messages=frozenset(row.get("messages", ())),
                    message_quote="" if slice_ == "page" else row["quote"],
                )
            )
    return found


def judge_answer(question: JudgedQuestion, answer: Answer, texts: Mapping[str, str]) -> AnswerJudgement:
    """How good an answer is; `texts` are those of the documents, by id."""
    right = [is_shown(question, part, texts[part.citation.document]) for part in answer.parts]
    return AnswerJudgement(
        question,
        is_given=answer.found,
        is_right_first=bool(answer.found and right[0]),
        is_chosen_right=answer.found and is_chosen(question, answer.parts[0], texts),
        is_nearest_right=bool(right and right[0]),
        is_same_fact=bool(right and (right[0] or states_evidence(question, answer.parts[0].passage))),
        is_right=answer.found and any(right),
        shows_question=any(is_question(part.chosen) for part in answer.parts),
        sentences=len(answer.parts),
    )


def states_evidence(question: JudgedQuestion, text: str) -> bool:
    """Whether a text states what a marked quote of the question states, by its facts and terms."""
    terms, facts = extract_terms(text).keys(), [fact for fact in find_facts(text) if fact.kind in FACTS]
    for quote in filter(None, (question.page_quote, question.message_quote)):
        stated = [fact for fact in find_facts(quote) if fact.kind in FACTS]
        if all(any(fact.agrees_with(other) for other in facts) for fact in stated):
            wanted = extract_terms(quote).keys()
            if len(wanted & terms) >= (FACT_SHARE if stated else TERM_SHARE) * len(wanted):
                return True
    return False


def is_shown(question: JudgedQuestion, part: AnswerPart, text: str) -> bool:
    """Whether a passage of a document with this text holds what is marked."""
    in_messages = bool(part.citation.message and question.message_quote) and question.message_quote in part.passage
    return in_messages or is_evidence(question, part.citation, text)


def is_chosen(question: JudgedQuestion, part: AnswerPart, texts: Mapping[str, str]) -> bool:
    """Whether the highlighted part of a passage holds what is marked."""
    cited, text = part.citation, texts[part.citation.document]
    start = text.find(part.chosen, cited.start)
    own = cited if cited.message or start < 0 else replace(cited, start=start, end=start + len(part.chosen))
    return is_evidence(question, own, text)


def is_evidence(question: JudgedQuestion, cited: Citation, text: str) -> bool:
    """Whether a citation of a document with this text holds what is marked."""
    if cited.message:
        same = cited.message in question.messages
        return same and _overlap(question.message_quote, cited, text) > 0
    on_page = bool(question.page_quote) and cited.uri.endswith(question.page)
    return on_page and _overlap(question.page_quote, cited, text) >= SHARE * len(question.page_quote)


def _overlap(quote: str, cited: Citation, text: str) -> int:
    """How many characters of a quote a citation holds, at the place where it holds most."""
    best, at = 0, text.find(quote)
    while at >= 0:
        best = max(best, min(cited.end, at + len(quote)) - max(cited.start, at))
        at = text.find(quote, at + 1)
    return best


def ask_questions(
    examples: Path, questions: Sequence[JudgedQuestion], embedder: Embedder, reranker: Reranker, settings: Settings
) -> Iterator[tuple[AnswerJudgement, Answer]]:
    """Each question's judgement and answer, over handbook and chat in one collection."""
    with Engine.open(
        ":memory:", embedder=embedder, extensions=Extensions(reranker=reranker), settings=settings
    ) as engine:
        engine.add(examples / "handbook", examples / "chat")
        texts = {record.id: engine.read(record.id).text for record in engine.list(Filter())}
        for question in questions:
            answer = engine.ask(question.text)
            yield judge_answer(question, answer, texts), answer


def make_rows(judged: Iterable[AnswerJudgement]) -> Iterator[str]:
    """The rows of the table, by half and where the answer is."""
    judged = list(judged)
    columns = (
        *("questions", "answer in", "n", "right first, %", "chosen, %", "or nearest, %", "by its facts, %", "right, %"),
        *("no answer, %", "shows a question", "parts"),
    )
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for half in HALVES:
        own = [each for each in judged if each.question.half == half]
        for slice_ in (*dict.fromkeys(each.question.slice for each in own), "all"):
            some = [each for each in own if slice_ in ("all", each.question.slice)]
            given = [each.sentences for each in some if each.is_given]
            yield (
                f"| {half} | {slice_} | {len(some)} | {100 * fmean(each.is_right_first for each in some):.1f} "
                f"| {100 * fmean(each.is_chosen_right for each in some):.1f} "
                f"| {100 * fmean(each.is_nearest_right for each in some):.1f} "
                f"| {100 * fmean(each.is_same_fact for each in some):.1f} "
                f"| {100 * fmean(each.is_right for each in some):.1f} "
                f"| {100 * fmean(not each.is_given for each in some):.1f} "
                f"| {sum(each.shows_question for each in some)} | {fmean(given) if given else 0:.2f} |"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.answers", description="Answers without a language model.")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="the folder of handbook, chat and questions")
    parser.add_argument("--every", type=int, default=1, help="use only every so many-th question")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--reranker", default=RerankerConfig().name)
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    reranker = drivers.make_reranker(RerankerConfig(name=given.reranker))
    if reranker is None:
        parser.error("--reranker is empty; give a name")
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    questions = load_questions(given.examples)[:: given.every]
    settings = Settings(ingestion=IngestionConfig(), search=SearchConfig(mode="exact"))
    print(f"{len(questions)} questions, {embedder.name}, {reranker.name}", flush=True)
    asked = ask_questions(given.examples, questions, embedder, reranker, settings)
    for row in make_rows(judgement for judgement, _ in asked):
        print(row, flush=True)


if __name__ == "__main__":
    main()
