"""The decision of `tune`, simulated: how often it promotes what is no better, and how often it finds a true gain.

The differences of two settings vary as those on SciFact: three of four questions rank alike, the others differ with a
deviation of .28, so that the deviation over all is .14 (`hybrid` at two fusion weights).
"""

import numpy as np
import pytest

from clew.evaluation import JudgedQuestion
from clew.evaluation.tuning import TRAIN_SHARE, decide_promotion, split_questions
from tests.soak import choose_runs

QUESTIONS = [JudgedQuestion(f"question number {at}?", {"a": 1.0}, id=f"q{at}") for at in range(300)]
SHARE_THAT_DIFFERS, DEVIATION = 0.25, 0.28


def simulate_tuning(gain: float, seed: int, *, rivals: int) -> bool:
    """Whether what the first questions choose is promoted by the next ones, part by part, as `tune` does it.

    The first of the settings has the gain; its rivals are no better than what is in use, and so is it without a gain.
    """
    rng = np.random.default_rng(seed)
    differs = rng.random((1 + rivals, len(QUESTIONS))) < SHARE_THAT_DIFFERS
    differences = differs * rng.normal(scale=DEVIATION, size=differs.shape)
    differences[0] += differs[0] * gain / SHARE_THAT_DIFFERS
    if differences.mean(axis=1).max() <= 0:
        return False  # nothing was better
    sizes = [len(part) for part in split_questions(QUESTIONS, train_share=TRAIN_SHARE)]
    new: list[float] = []
    for start, size in zip(np.cumsum(sizes), sizes[1:], strict=False):
        means = differences[:, :start].mean(axis=1)
        best = int(np.argmax(means))
        new += (differences[best, start : start + size] if means[best] > 0 else np.zeros(size)).tolist()
    assert len(new) == len(QUESTIONS) - sizes[0]
    return decide_promotion(new, [0.0] * len(new), seed=seed).is_promoted


@pytest.mark.soak
def test_what_is_no_better_is_promoted_about_five_times_in_a_hundred() -> None:
    runs = choose_runs(8, 1000)
    promoted = sum(simulate_tuning(0.0, seed, rivals=19) for seed in range(runs))
    spread = 1.96 * (promoted / runs * (1 - promoted / runs) / runs) ** 0.5
    print(f"A/A: {promoted} of {runs} promoted, {100 * promoted / runs:.1f} % ± {100 * spread:.1f}")  # noqa: T201
    assert promoted <= 0.08 * runs + 1


@pytest.mark.soak
def test_a_gain_of_three_points_is_found_with_three_hundred_questions() -> None:
    runs = choose_runs(8, 1000)
    for rivals in (0, 3):
        found = sum(simulate_tuning(0.03, seed, rivals=rivals) for seed in range(runs))
        spread = 1.96 * (found / runs * (1 - found / runs) / runs) ** 0.5
        print(f"+3 nDCG points, {rivals} rivals: {found} of {runs}, {100 * found / runs:.1f} % ± {100 * spread:.1f}")  # noqa: T201
        assert found >= (0.8 if runs > 8 else 0.5) * runs


def test_the_parts_are_all_questions_in_an_order_of_their_own() -> None:
    parts = split_questions(QUESTIONS, train_share=0.2)
    assert [len(part) for part in parts] == [60] + 8 * [30]
    assert sorted(each.id for part in parts for each in part) == sorted(each.id for each in QUESTIONS)
    assert split_questions(QUESTIONS[::-1], train_share=0.2)[3] == parts[3]
    assert [len(part) for part in split_questions(QUESTIONS[:24], train_share=0.2, min_train=10)][:2] == [10, 2]
    twins = [JudgedQuestion(text, {"a": 1.0}, id=text) for text in ("Who  rotates keys?", "who rotates KEYS?")]
    assert [len(part) for part in split_questions(twins, train_share=0.5)] == [2]


def test_many_small_gains_do_not_hide_a_few_great_losses() -> None:
    lost = decide_promotion([0.02] * 59 + [-0.4], [0.0] * 60)  # three such losses would take the gain
    assert lost.p < 0.01
    assert not lost.is_promoted
    few = [0.1] * 11 + [0.0] * 29
    assert not decide_promotion(few, [0.0] * 40).is_promoted
    assert decide_promotion([0.1, *few], [0.0] * 41).is_promoted


def test_no_difference_is_never_promoted() -> None:
    assert not decide_promotion([0.5] * 50, [0.5] * 50).is_promoted
    assert not decide_promotion([0.4] * 50, [0.5] * 50).is_promoted
    assert decide_promotion([0.6] * 50, [0.5] * 50).is_promoted
