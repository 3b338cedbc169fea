"""Whether a setting is kept: the parts of the questions, and one test on those that took no part in a choice."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from clew.core.ids import digest
from clew.evaluation.questions.judged import JudgedQuestion
from clew.evaluation.statistics import Interval, bootstrap, permutation_test

LEVEL = 0.05  # at most so often is a setting promoted that is no better
MIN_DIFFERING = 12  # held-out questions; of fewer, none may show the few that lose much
PARTS = 8  # of the held-out questions


@dataclass(frozen=True, slots=True)
class Promotion:
    """The difference on the held-out questions, the p-value that it is no gain, and whether it is taken for one."""

    difference: Interval
    p: float
    questions: int
    is_promoted: bool
    differing: int = 0  # of the questions, those that the setting ranks otherwise


def decide_promotion(new: Sequence[float], old: Sequence[float], *, level: float = LEVEL, seed: int = 0) -> Promotion:
    """The decision on a setting by its values and those of the present one, paired by question.

    A one-sided permutation test must speak for it at this level. That test takes gains and losses for alike in size;
    where many questions win a little and few lose much it promotes too often, so the bootstrap interval of the
    difference must lie above 0 too, and enough questions must differ at all.
    """
    p, difference = permutation_test(new, old, one_sided=True, seed=seed), bootstrap(new, old, seed=seed)
    differing = sum(a != b for a, b in zip(new, old, strict=True))
    is_promoted = p <= level and difference.low > 0 and differing >= MIN_DIFFERING
    return Promotion(difference, p, len(new), is_promoted, differing)


def fold_question(question: JudgedQuestion) -> str:
    """The text of a question without regard to case and white space: two that have the same one ask the same."""
    return " ".join(question.question.casefold().split())


def split_questions(
    questions: Sequence[JudgedQuestion], *, train_share: float, min_train: int = 1
) -> list[list[JudgedQuestion]]:
    """The parts of the questions, in an order made of hashes: the first to choose by, then `PARTS` held-out ones.

    Each held-out part tests what the parts before it choose, and then takes part in the next choice. So every question
    but the first ones is a test, and later choices are made by more of them, while no choice knows its own test: in
    cross-validation, where all questions change sides, more would be promoted that are no better.
    Two that ask the same are in one part.
    """
    groups: dict[str, list[JudgedQuestion]] = {}
    for question in questions:
        groups.setdefault(digest("split", fold_question(question)), []).append(question)
    ordered = [groups[key] for key in sorted(groups)]
    count = min(len(ordered), max(min_train, round(train_share * len(ordered))))
    rest = ordered[count:]
    edges = [round(at * len(rest) / PARTS) for at in range(PARTS + 1)]
    parts = [ordered[:count], *(rest[start:end] for start, end in pairwise(edges))]
    return [[question for group in part for question in group] for part in parts if part]
