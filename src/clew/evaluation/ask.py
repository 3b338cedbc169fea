"""One system asked one question: what it found, and every measure that the judgement allows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from time import perf_counter

from clew.core.answer import Answer
from clew.core.filter import EVERYTHING, Filter
from clew.core.passages import Context
from clew.core.settings import Settings
from clew.core.text import extract_terms
from clew.engine import Engine
from clew.engine.opened import make_finder
from clew.evaluation import measures
from clew.evaluation.questions.judged import JudgedQuestion
from clew.evaluation.questions.resolve import Judgement
from clew.evaluation.spans import Span, intersect_spans, measure_cover
from clew.evaluation.types import EvaluatedSystem, QuestionResult

WARM_UP = "warm-up"


@dataclass(frozen=True, slots=True)
class AskOptions:
    """How each question is asked."""

    k: int = 10  # cut-off of the measures
    hits: int = 20  # chunks that are fetched; their documents are ranked
    tokens: int = 2000  # budget of the context; 0: none is made
    answers: bool = False
    where: Filter = EVERYTHING


def prepare_engine(engine: Engine) -> Engine:
    """The same engine with empty caches, so that each system is timed alike."""
    opened = engine.opened
    finder = make_finder(opened.store, opened.embedder, opened.llm, opened.settings, opened.extensions)
    return Engine(replace(opened, finder=finder))


def ask_question(
    engine: Engine,
    system: EvaluatedSystem,
    settings: Settings,
    question: JudgedQuestion,
    judgement: Judgement,
    options: AskOptions,
) -> QuestionResult:
    """The result of one system for one question."""
    settings = replace(settings, search=replace(settings.search, cache=0))  # a repeated question costs as much
    started = perf_counter()
    hits = engine.search(
        question.question,
        k=options.hits,
        strategy=system.strategy,
        where=options.where,
        history=question.history,
        settings=settings,
    )
    ms = 1000 * (perf_counter() - started)
    best: dict[str, float] = {}
    for hit in hits:
        best.setdefault(hit.chunk.doc_id, hit.relevance if isfinite(hit.relevance) else 0.0)
    ranking = tuple(best)
    values: dict[str, float] = {}
    tokens: int | None = None
    if question.is_answerable:
        values |= measure_ranking(ranking, judgement, options.k)
        spans = [(hit.chunk.doc_id, (hit.chunk.start, hit.chunk.end)) for hit in hits[: options.k]]
        values |= _measure_evidence(spans, judgement, f"evidence@{options.k}")
    if options.tokens and (judgement.spans or not question.is_answerable):
        context = engine.context(
            question.question,
            tokens=options.tokens,
            strategy=system.strategy,
            where=options.where,
            history=question.history,
            settings=settings,
        )
        tokens = context.tokens
        name = f"evidence@{options.tokens} tokens"
        values |= _measure_evidence(_list_context_spans(context), judgement, name)
        if not question.is_answerable:
            values["left empty"] = float(not context.passages)
    if not options.answers:
        return QuestionResult(system.name, question.id, ranking, tuple(best.values()), values, ms, tokens)
    answer = engine.ask(
        question.question,
        strategy=system.strategy,
        where=options.where,
        history=question.history,
        settings=settings,
    )
    values |= measure_answer(answer, question, judgement)
    tokens = (tokens or 0) + answer.usage.input_tokens + answer.usage.output_tokens
    return QuestionResult(
        system.name, question.id, ranking, tuple(best.values()), values, ms, tokens, answer.confidence
    )


def measure_ranking(ranking: Sequence[str], judgement: Judgement, k: int) -> dict[str, float]:
    """The measures of a ranking of documents; none where nothing is relevant."""
    relevant = {name for name, grade in judgement.grades.items() if grade > 0}
    if not relevant:
        return {}
    values = {
        f"nDCG@{k}": measures.ndcg_at(k, ranking, judgement.grades),
        f"recall@{k}": measures.recall_at(k, ranking, relevant),
        f"precision@{k}": measures.precision_at(k, ranking, relevant),
        "MRR": measures.reciprocal_rank(ranking, relevant),
        "MAP": measures.average_precision(ranking, relevant),
    }
    if judgement.topics:
        values[f"topics@{k}"] = measures.topic_coverage(k, ranking, judgement.topics)
    return values


def measure_answer(answer: Answer, question: JudgedQuestion, judgement: Judgement) -> dict[str, float]:
    """The measures of an answer.

    It is right if it cites the evidence, or a relevant document where there is no evidence; any answer to a question
    that has none is wrong. `answer F1` compares its words with those of the reference answer: without a model, those
    chosen in the passages.
    """
    values = {"answered": float(answer.found)}
    if not answer.found:
        return values
    cited = [(each.document, (each.start, each.end)) for each in answer.citations]
    right = [_is_evidence(document, span, judgement) for document, span in cited]
    values["right"] = float(any(right))
    if cited and question.is_answerable:
        values["citation precision"] = sum(right) / len(right)
    if question.answer:
        said = " ".join(part.chosen for part in answer.parts) or answer.text
        values["answer F1"] = compare_words(said, question.answer)
    return values


def compare_words(text: str, reference: str) -> float:
    """The F1 of the terms of a text and of those of a reference, function words left out."""
    said, wanted = extract_terms(text), extract_terms(reference)
    shared = sum(min(count, wanted.get(term, 0)) for term, count in said.items())
    return 2 * shared / (sum(said.values()) + sum(wanted.values())) if shared else 0.0


def _is_evidence(document: str, span: Span, judgement: Judgement) -> bool:
    if judgement.spans:
        return bool(intersect_spans([span], [wanted for id_, wanted in judgement.spans if id_ == document]))
    return judgement.grades.get(document, 0.0) > 0


def _measure_evidence(spans: Sequence[tuple[str, Span]], judgement: Judgement, name: str) -> dict[str, float]:
    """The share of the evidence's characters in the spans, the mean over its parts; nothing without evidence."""
    covers = [
        measure_cover([span for id_, span in spans if id_ == document], wanted) for document, wanted in judgement.spans
    ]
    return {name: sum(covers) / len(covers)} if covers else {}


def _list_context_spans(context: Context) -> list[tuple[str, Span]]:
    return [
        (passage.chunks[0].chunk.doc_id, span)
        for passage in context.passages
        if passage.chunks
        for span in passage.spans
    ]
