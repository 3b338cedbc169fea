"""Pairs of questions for `python -m studies abstention --pairs FILE`: one that a collection answers, and a near miss.

A line of the file is `{"answerable": "…", "near_miss": "…"}`; the near miss asks for something of the same kind that
the collection does not say. Whoever writes the pairs should not have read how an answer is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from clew import Answer, Engine
from studies.sets import MissingSet, read_jsonl

Z = 1.96  # of a 95 % interval


@dataclass(frozen=True, slots=True)
class QuestionPair:
    """A question that the collection answers, and one like it that it does not."""

    answerable: str
    near_miss: str


def load_pairs(file: Path) -> list[QuestionPair]:
    """The pairs of a file, or MissingSet if a line is none."""
    if not file.is_file():
        raise MissingSet(f"there is no {file}; give a file of pairs, a JSON object a line")
    found = []
    for number, row in enumerate(read_jsonl(file), 1):
        if not isinstance(row.get("answerable"), str) or not isinstance(row.get("near_miss"), str):
            raise MissingSet(f"{file}, line {number}: a pair has the questions `answerable` and `near_miss`")
        found.append(QuestionPair(row["answerable"], row["near_miss"]))
    if not found:
        raise MissingSet(f"{file} has no pairs")
    return found


def ask_pairs(engine: Engine, pairs: Sequence[QuestionPair]) -> list[tuple[Answer, Answer]]:
    """The answers to both questions of each pair, as `ask` gives them by default."""
    return [(engine.ask(pair.answerable), engine.ask(pair.near_miss)) for pair in pairs]


def compute_interval(count: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, "Probable Inference, the Law of Succession …", 1927)."""
    share = count / total
    middle = share + Z * Z / (2 * total)
    half = Z * sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    scale = 1 + Z * Z / total
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def make_pair_rows(answers: Sequence[tuple[Answer, Answer]]) -> Iterator[str]:
    """The two rates with their intervals, then every question that was answered or refused wrongly, with why."""
    for what, goal, some in (
        ("near misses answered", "≤ 10 %", [near for _, near in answers]),
        ("answerable answered", "≥ 85 %", [there for there, _ in answers]),
    ):
        given = sum(each.found for each in some)
        low, high = compute_interval(given, len(some))
        yield (
            f"{what}: {100 * given / len(some):.1f} % of {len(some)} "
            f"(95 % interval {100 * low:.1f} to {100 * high:.1f}; goal {goal})"
        )
    for there, near in answers:
        if not there.found:
            yield f"refused: {there.question} ({there.confidence:.2f}; {there.reason})"
        if near.found:
            yield f"answered: {near.question} ({near.confidence:.2f}) {' '.join(near.text.split())}"
