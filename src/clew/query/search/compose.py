"""The four ways to make a strategy from others. Retrieval is closed under them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from clew.core.parallel import run_parallel
from clew.core.protocols import Fuse, Judge, Rewrite, Step, Strategy
from clew.core.trace import step, trace_step
from clew.core.types import Hit, Matrix, Query
from clew.query.rank.fuse import best, convex

Embed = Callable[[Sequence[str]], Matrix]


def pipe(strategy: Strategy, *steps: Step) -> Strategy:
    """A strategy whose hits go through each step in turn."""

    def search(query: Query) -> list[Hit]:
        hits = strategy(query)
        for change in steps:
            hits = change(query, hits)
        return hits

    return search


def fuse(*strategies: Strategy, by: Fuse | None = None) -> Strategy:
    """A strategy that asks several the same query and fuses their rankings."""
    fuse = by or convex()

    @trace_step("fused")
    def search(query: Query) -> list[Hit]:
        return fuse([strategy(query) for strategy in strategies])

    return search


def fan_out(rewrite: Rewrite, strategy: Strategy, *, by: Fuse | None = None, embed: Embed | None = None) -> Strategy:
    """A strategy that asks one several queries at once and fuses their rankings.

    With `embed`, the vectors of all the queries are made in one batch.
    """
    fuse = by or best()

    @trace_step("fanned")
    def search(query: Query) -> list[Hit]:
        queries = rewrite(query)
        if embed is not None:
            with step("embed") as trace:
                vectors = embed([each.text for each in queries])
                trace.out = len(queries)
            queries = [replace(each, vector=vector) for each, vector in zip(queries, vectors, strict=True)]
        return fuse(run_parallel([lambda each=each: strategy(each) for each in queries]))  # type: ignore[misc]

    return search


def reflect(strategy: Strategy, judge: Judge, *, rounds: int = 2) -> Strategy:
    """A strategy that searches again with the judge's better query until it is content, and keeps the better hits."""

    def search(query: Query) -> list[Hit]:
        best: list[Hit] = []
        grade = -1
        asked = query
        for round_ in range(1, rounds + 1):
            with step("reflect") as trace:
                found = strategy(asked)
                verdict = judge(asked, found)
                trace.set_output(found)
                trace.notes["query"] = asked.text
                trace.notes["grade"] = "ungraded" if verdict.grade is None else verdict.grade
            if (found or not best) and (verdict.grade or 0) > grade:
                best, grade = found, verdict.grade or 0
            refined = verdict.refine() if verdict.refine and round_ < rounds else None
            if refined is None:
                break
            asked = refined
        return best

    return search
