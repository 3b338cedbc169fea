"""Judges of search results: a grade from 1 to 5 and, below the minimum, a refined query."""

import math
import re
from collections.abc import Callable
from dataclasses import replace

from clew.core.errors import DriverFailed
from clew.core.patterns import compile_pattern
from clew.core.protocols import LLM, Judge, Reranker, Verdict
from clew.core.types import Hit, Query
from clew.query.search.rerank import score_texts

MIN_GRADE = 3  # from which no second search is needed
MAX_GRADED_HITS = 5  # hits that are graded
MAX_EXCERPT_CHARS = 600  # of each hit in the prompt

Refine = Callable[[Query, list[Hit]], Query | None]

GRADE = """Question: {query}

What a search found:
{found}

How well does this answer the question, from 1 (not at all) to 5 (completely)? Answer with the number alone."""
REFINE = """Question: {query}

A search for it found only this, which does not answer it well:
{found}

Write one better search query for the same question. Answer with the query alone, on one line."""

_SCALE = compile_pattern(r"(?:on|from)?\s*(?:a\s+)?scale\s+(?:of|from)\s+\d\s*(?:-|–|to)\s*\d", re.IGNORECASE)
_GRADE = compile_pattern(r"(?<![\d.])(-?\d+(?:\.\d+)?)(?:\s*(?:/|out\s+of)\s*5(?!\d))?")


def parse_grade(answer: str) -> int | None:
    """The grade in a model's answer ("2", "Grade: 2", "2.5/5", "2."), rounded down; None if there is none from 1 to 5.

    The first number counts, but not the ends of a scale that is named before it. A grade of 0 is a 1.
    """
    found = _GRADE.search(_SCALE.sub(" ", answer))
    grade = math.floor(float(found[1])) if found else -1
    return max(1, grade) if 0 <= grade <= 5 else None


def make_model_judge(llm: LLM) -> Judge:
    """A judge that asks a language model for the grade, and for a refined query only when it is needed.

    An answer without a grade counts as ungraded; the hits are then kept as they are.
    """

    def judge(query: Query, hits: list[Hit]) -> Verdict:
        if not hits:
            return Verdict(1, lambda: _refine_query(llm, query, hits))
        try:
            grade = parse_grade(llm.complete(_fill_prompt(GRADE, query, hits), max_tokens=10))
        except DriverFailed:
            return Verdict(None)
        if grade is None or grade >= MIN_GRADE:
            return Verdict(grade)
        return Verdict(grade, lambda: _refine_query(llm, query, hits))

    return judge


def make_reranker_judge(reranker: Reranker, refine: Refine) -> Judge:
    """A judge without a language model: the grade is the reranker's calibrated chance that the best hit answers."""

    def judge(query: Query, hits: list[Hit]) -> Verdict:
        scores = score_texts(reranker, query.text, [hit.chunk.index_text for hit in hits[:MAX_GRADED_HITS]])
        grade = probability_to_grade(max(map(reranker.calibrate, scores), default=0.0))
        return Verdict(grade) if grade >= MIN_GRADE else Verdict(grade, lambda: refine(query, hits))

    return judge


def probability_to_grade(chance: float) -> int:
    """A chance from 0 to 1 as a grade from 1 to 5, in equal steps."""
    return min(5, 1 + int(5 * max(0.0, chance)))


def _refine_query(llm: LLM, query: Query, hits: list[Hit]) -> Query | None:
    try:
        lines = llm.complete(_fill_prompt(REFINE, query, hits), max_tokens=60).strip().splitlines()
    except DriverFailed:
        return None
    text = lines[0].strip().strip("\"'") if lines else ""
    return replace(query, text=text, vector=None) if text and text != query.text else None


def _fill_prompt(prompt: str, query: Query, hits: list[Hit]) -> str:
    """The prompt with its two placeholders filled; a placeholder inside a text is left alone."""
    found = (
        "\n\n".join(f"[{n}] {hit.chunk.text[:MAX_EXCERPT_CHARS]}" for n, hit in enumerate(hits[:MAX_GRADED_HITS], 1))
        or "(nothing)"
    )
    before, rest = prompt.split("{query}")
    between, after = rest.split("{found}")
    return "".join((before, query.text, between, found, after))
