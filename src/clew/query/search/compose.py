"""The four combinators that make a strategy from others; retrieval is closed under them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from clew.core.errors import SettingsError
from clew.core.parallel import run_parallel
from clew.core.protocols import Fuse, Judge, Rewrite, Step, Strategy
from clew.core.trace import step
from clew.core.types import Hit, Matrix, Query
from clew.query.rank.fuse import make_fuse, sum_normalised_scores, take_greatest

Embed = Callable[[Sequence[str]], Matrix]


def pipe(strategy: Strategy, *steps: Step) -> Strategy:
    """Make a strategy whose hits go through each step in turn; the trace shows every step with its output.

    Steps may drop and reorder hits, so the strategy is asked for `depth` hits instead of `k`.
    """
    for part in (strategy, *steps):
        if not callable(part):
            raise SettingsError(
                f"pipe: {part!r} is not a function; give a strategy, such as hybrid(drivers), and steps"
            )

    def search(query: Query) -> list[Hit]:
        hits = strategy(deepen(query) if steps else query)
        for position, change in enumerate(steps, 1):
            hits = run_step(change, query, hits, position=position)
        return hits

    return search


def deepen(query: Query) -> Query:
    """Return the query with k raised to its depth."""
    return query if query.k >= query.depth else replace(query, k=query.depth)


def run_step(change: Step, query: Query, hits: list[Hit], *, position: int = 1) -> list[Hit]:
    """Run a step on hits; the trace names it by the step's `name` attribute, else its `__name__`, else `step N`."""
    name = getattr(change, "name", None) or getattr(change, "__name__", "<lambda>")
    with step(f"step {position}" if name == "<lambda>" else str(name)) as trace:
        changed = check_hits(change(query, hits), trace.name)
        trace.set_output(changed)
        return changed


def check_hits(found: object, name: str) -> list[Hit]:
    """Return the result of a strategy or step; SettingsError names the one that did not return a list."""
    if not isinstance(found, list):
        raise SettingsError(f"{name} returned {type(found).__name__}; it must return a list of hits")
    return found


def fuse(*strategies: Strategy, by: Fuse | None = None) -> Strategy:
    """Make a strategy that runs several on the same query and fuses their rankings (default: convex, equal weights)."""
    combine = by or make_fuse(sum_normalised_scores, score_name="convex")

    def search(query: Query) -> list[Hit]:
        with step("fused") as trace:
            rankings: list[list[Hit]] = []
            for strategy in strategies:  # no comprehension: it would add a frame to the stack of every search
                rankings.append(strategy(deepen(query)))
            fused = combine(rankings)
            trace.set_output(fused)
            return fused

    return search


def fan_out(rewrite: Rewrite, strategy: Strategy, *, by: Fuse | None = None, embed: Embed | None = None) -> Strategy:
    """Make a strategy that runs another on several queries in parallel and fuses them (by default: best score).

    With `embed`, all the queries are embedded in one batch.
    """
    combine = by or make_fuse(take_greatest, score_name="best")

    def search(query: Query) -> list[Hit]:
        with step("fanned") as trace:
            queries = rewrite(query)
            if embed is not None:
                queries = embed_queries(queries, embed)
            fused = combine(run_parallel([partial(_search_query, strategy, deepen(each)) for each in queries]))
            trace.set_output(fused)
            return fused

    return search


def _search_query(strategy: Strategy, query: Query) -> list[Hit]:
    with step("query") as trace:
        trace.notes["query"] = query.text
        hits = strategy(query)
        trace.set_output(hits)
        return hits


def embed_queries(queries: Sequence[Query], embed: Embed) -> list[Query]:
    """Embed the queries in one batch; return them with their vectors."""
    with step("embed") as trace:
        vectors = embed([query.text for query in queries])
        trace.out = len(queries)
    return [replace(query, vector=vector) for query, vector in zip(queries, vectors, strict=True)]


def reflect(strategy: Strategy, judge: Judge, *, rounds: int = 2) -> Strategy:
    """Make a strategy that repeats another with the judge's refined query, up to `rounds` times; best grade wins."""

    def search(query: Query) -> list[Hit]:
        best_hits: list[Hit] = []
        best_grade = -1
        current = query
        for round_ in range(1, rounds + 1):
            with step("reflect") as trace:
                hits = strategy(current)
                verdict = judge(current, hits)
                trace.set_output(hits)
                trace.notes["query"] = current.text
                trace.notes["grade"] = "ungraded" if verdict.grade is None else verdict.grade
            if (hits or not best_hits) and (verdict.grade or 0) > best_grade:
                best_hits, best_grade = hits, verdict.grade or 0
            refined = verdict.refine() if verdict.refine and round_ < rounds else None
            if refined is None:
                break
            current = refined
        return best_hits

    return search
