"""Whether a setting is kept: the split of the questions, and one test on those that took no part in the choice."""

from collections.abc import Sequence
from dataclasses import dataclass

from clew.core.ids import digest
from clew.evaluation.questions.judged import JudgedQuestion
from clew.evaluation.statistics import Interval, bootstrap, permutation_test

LEVEL = 0.05  # so often is a setting promoted that is no better
_BUCKETS = 10_000


@dataclass(frozen=True, slots=True)
class Promotion:
    """The difference on the held-out questions, the p-value that it is no gain, and whether it is taken for one."""

    difference: Interval
    p: float
    questions: int
    is_promoted: bool


def decide_promotion(new: Sequence[float], old: Sequence[float], *, level: float = LEVEL, seed: int = 0) -> Promotion:
    """The decision on a setting by its values and those of the present one, paired by question.

    One one-sided permutation test: of settings that are no better, `level` are promoted.
    """
    p = permutation_test(new, old, one_sided=True, seed=seed)
    return Promotion(bootstrap(new, old, seed=seed), p, len(new), p <= level)


def split_questions(
    questions: Sequence[JudgedQuestion], *, train_share: float
) -> tuple[list[JudgedQuestion], list[JudgedQuestion]]:
    """The questions to choose by and those held out, told apart by a hash of what is asked.

    A question stays on its side when others come and go, and two that ask the same are on one side.
    """
    train: list[JudgedQuestion] = []
    held_out: list[JudgedQuestion] = []
    for question in questions:
        asked = " ".join(question.question.casefold().split())
        place = int(digest("split", asked)[:12], 16) % _BUCKETS
        (train if place < train_share * _BUCKETS else held_out).append(question)
    return train, held_out
