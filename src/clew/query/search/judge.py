"""Is what was found good enough? A grade from 1 to 5 and, below the mark, a better query to try."""

import re
from collections.abc import Callable
from dataclasses import replace

from clew.core.errors import DriverFailed
from clew.core.protocols import LLM, Judge, Reranker, Verdict
from clew.core.types import Hit, Query

ENOUGH = 3  # the least grade that needs no second search
SHOWN = 5  # hits that are graded
EXCERPT = 600  # characters of each that a model is shown

Refine = Callable[[Query, list[Hit]], Query | None]

GRADE = """Question: {query}

What a search found:
{found}

How well does this answer the question, from 1 (not at all) to 5 (completely)? Answer with the number alone."""
REFINE = """Question: {query}

A search for it found only this, which does not answer it well:
{found}

Write one better search query for the same question. Answer with the query alone, on one line."""

_GRADE = re.compile(r"(?<![\d.])([1-5])(?:\.0)?(?![\d])(?!\.\d)")


def parse_grade(answer: str) -> int | None:
    """The grade that an answer gives ("2", "Grade: 2", "2/5", "2."), or None where it gives none."""
    found = _GRADE.search(answer)
    return int(found.group(1)) if found else None


def by_model(llm: LLM) -> Judge:
    """A judge that asks a model for the grade, and for a better query only when one is wanted.

    An answer that is no grade is recorded as ungraded; the hits are then kept as they are.
    """

    def judge(query: Query, hits: list[Hit]) -> Verdict:
        if not hits:
            return Verdict(1, lambda: _refined(llm, query, hits))
        try:
            grade = parse_grade(llm.complete(_filled(GRADE, query, hits), max_tokens=10))
        except DriverFailed:
            return Verdict(None)
        if grade is None or grade >= ENOUGH:
            return Verdict(grade)
        return Verdict(grade, lambda: _refined(llm, query, hits))

    return judge


def by_reranker(reranker: Reranker, refine: Refine) -> Judge:
    """A judge without a language model: the grade is the chance, by the reranker, that the best hit answers."""

    def judge(query: Query, hits: list[Hit]) -> Verdict:
        scores = reranker.score(query.text, [hit.chunk.embed_text for hit in hits[:SHOWN]])
        grade = graded(max(map(reranker.calibrated, scores), default=0.0))
        return Verdict(grade) if grade >= ENOUGH else Verdict(grade, lambda: refine(query, hits))

    return judge


def graded(chance: float) -> int:
    """The chance from 0 to 1 as a grade from 1 to 5, in equal steps."""
    return min(5, 1 + int(5 * max(0.0, chance)))


def _refined(llm: LLM, query: Query, hits: list[Hit]) -> Query | None:
    try:
        lines = llm.complete(_filled(REFINE, query, hits), max_tokens=60).strip().splitlines()
    except DriverFailed:
        return None
    text = lines[0].strip().strip("\"'") if lines else ""
    return replace(query, text=text, vector=None) if text and text != query.text else None


def _filled(prompt: str, query: Query, hits: list[Hit]) -> str:
    """The prompt with its two places filled; what stands in the texts is never read as a place."""
    found = "\n\n".join(f"[{n}] {hit.chunk.text[:EXCERPT]}" for n, hit in enumerate(hits[:SHOWN], 1)) or "(nothing)"
    before, rest = prompt.split("{query}")
    between, after = rest.split("{found}")
    return "".join((before, query.text, between, found, after))
