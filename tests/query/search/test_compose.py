"""The four combinators, with strategies that are plain functions and no store."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from clew.core.protocols import Verdict
from clew.core.trace import record
from clew.core.types import Chunk, DocumentRecord, Hit, Matrix, Query
from clew.query.rank.dedupe import dedupe_chunks, limit_per_document
from clew.query.rank.fuse import make_fuse, sum_reciprocal_ranks
from clew.query.search.compose import fan_out, fuse, pipe, reflect
from clew.query.search.rank import rerank


def hit(name: str, score: float) -> Hit:
    return Hit(Chunk(name, "d", 0, 1, name, 0, len(name)), DocumentRecord("d"), score)


def echo(query: Query) -> list[Hit]:
    """Finds the words of the query, the first best."""
    return [hit(word, 1 / place) for place, word in enumerate(query.text.split(), 1)]


def ids(hits: list[Hit]) -> list[str]:
    return [each.chunk.id for each in hits]


def test_pipe_runs_the_steps_in_turn() -> None:
    def backwards(_: Query, hits: list[Hit]) -> list[Hit]:
        return hits[::-1]

    def first_two(_: Query, hits: list[Hit]) -> list[Hit]:
        return hits[:2]

    assert ids(pipe(echo, backwards, first_two)(Query("a b c"))) == ["c", "b"]


def test_every_step_of_a_pipe_is_in_the_trace_once_with_its_output() -> None:
    def backwards(_: Query, hits: list[Hit]) -> list[Hit]:
        return hits[::-1]

    def first_two(_: Query, hits: list[Hit]) -> list[Hit]:
        return hits[:2]

    first_two.name = "two"  # type: ignore[attr-defined]
    search = pipe(
        fuse(echo),
        backwards,
        lambda _, hits: [each for each in hits if each.chunk.id != "c"],
        first_two,
        partial(first_two),
        limit_per_document(1),
        rerank(None),
    )
    with record(keep=True) as trace:
        search(Query("a b c"))
    outputs = [(step.name, "".join(ids(step.output))) for step in trace.steps]  # type: ignore[arg-type]
    assert outputs == [
        ("fused", "abc"),
        ("backwards", "cba"),
        ("step 2", "ba"),
        ("two", "ba"),
        ("step 4", "ba"),
        ("by_document", "a"),
        ("rerank", "a"),
    ]
    assert not any(step.steps for step in trace.steps)
    assert "none" in str(trace.steps[-1].notes["reranker"])


def test_fused_asks_all_the_same_query() -> None:
    def other(query: Query) -> list[Hit]:
        return [hit("z", 1), *echo(query)]

    assert ids(fuse(echo, other, by=make_fuse(sum_reciprocal_ranks, score_name="rrf"))(Query("a b")))[0] == "a"
    assert set(ids(fuse(echo, other)(Query("a b")))) == {"a", "b", "z"}


def test_fanned_embeds_all_queries_in_one_call() -> None:
    calls: list[list[str]] = []

    def embed(texts: Sequence[str]) -> Matrix:
        calls.append(list(texts))
        return np.eye(len(texts), dtype=np.float32)

    def each_word(query: Query) -> list[Query]:
        return [replace(query, text=word) for word in query.text.split()]

    def search(query: Query) -> list[Hit]:
        assert query.vector is not None
        return [hit(query.text, float(query.vector.argmax()))]

    assert ids(fan_out(each_word, search, embed=embed)(Query("a b c"))) == ["c", "b", "a"]
    assert calls == [["a", "b", "c"]]


def test_fanned_raises_what_a_search_raises() -> None:
    def broken(_: Query) -> list[Hit]:
        raise RuntimeError("the index is gone")

    with pytest.raises(RuntimeError, match="the index is gone"):
        fan_out(lambda query: [query, query], broken)(Query("a"))


@pytest.mark.parametrize(("second", "kept"), [(4, ["b"]), (1, ["a"]), (2, ["a"])])
def test_reflected_keeps_the_better_hits(second: int, kept: list[str]) -> None:
    def judge(query: Query, _: list[Hit]) -> Verdict:
        return Verdict(2, lambda: replace(query, text="b")) if query.text == "a" else Verdict(second)

    assert ids(reflect(echo, judge)(Query("a"))) == kept


def test_reflected_keeps_the_first_hits_when_the_second_search_is_empty() -> None:
    def judge(query: Query, hits: list[Hit]) -> Verdict:
        return Verdict(2, lambda: replace(query, text="")) if hits else Verdict(5)

    assert ids(reflect(echo, judge)(Query("a"))) == ["a"]


def test_reflected_ends_after_its_rounds() -> None:
    asked: list[str] = []

    def judge(query: Query, _: list[Hit]) -> Verdict:
        asked.append(query.text)
        return Verdict(1, lambda: replace(query, text=query.text + " more"))

    reflect(echo, judge, rounds=3)(Query("a"))
    assert asked == ["a", "a more", "a more more"]


def test_what_ran_is_in_the_trace() -> None:
    with record() as trace:
        fuse(echo, echo)(Query("a b"))
        fan_out(lambda query: [query, query], fuse(echo))(Query("a b"))
    assert trace.steps[0].name == "fused"
    assert trace.steps[0].out == 2
    assert [step.name for step in trace.steps[1].steps] == ["query", "query"]
    assert all(step.steps[0].name == "fused" for step in trace.steps[1].steps)


def test_each_chunk_once_under_its_best_score() -> None:
    assert [(each.chunk.id, each.score) for each in dedupe_chunks([hit("a", 0.5), hit("b", 0.4), hit("a", 0.7)])] == [
        ("a", 0.7),
        ("b", 0.4),
    ]
