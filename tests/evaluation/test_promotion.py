"""The decision of `tune`, simulated: how often it promotes what is no better, and how often it finds a true gain.

The differences of two settings vary as those on SciFact: three of four questions rank alike, the others differ with a
deviation of .28, so that the deviation over all is .14 (`hybrid` at two fusion weights).
"""

import numpy as np
import pytest

from clew import JudgedQuestion
from clew.evaluation.promote import decide_promotion, split_questions
from clew.evaluation.tune import TRAIN_SHARE
from tests.soak import choose_runs

QUESTIONS = [JudgedQuestion(f"question number {at}?", {"a": 1.0}, id=f"q{at}") for at in range(300)]
SHARE_THAT_DIFFERS, DEVIATION = 0.25, 0.28


def simulate_tuning(gain: float, seed: int, *, rivals: int) -> bool:
    """Whether the best of the settings on the one part of the questions is promoted by the other part.

    The first of the settings has the gain; its rivals are no better than what is in use, and so is it without a gain.
    """
    rng = np.random.default_rng(seed)
    train, held_out = split_questions(QUESTIONS, train_share=TRAIN_SHARE)
    known = {question.id for question in train}
    is_train = np.array([question.id in known for question in QUESTIONS])
    differs = rng.random((1 + rivals, len(QUESTIONS))) < SHARE_THAT_DIFFERS
    differences = differs * rng.normal(scale=DEVIATION, size=differs.shape)
    differences[0] += differs[0] * gain / SHARE_THAT_DIFFERS
    best = differences[int(np.argmax(differences[:, is_train].mean(axis=1)))]
    if best[is_train].mean() <= 0:
        return False  # nothing was better
    new = best[~is_train]
    assert len(new) == len(held_out)
    return decide_promotion(new.tolist(), [0.0] * len(new), seed=seed).is_promoted


@pytest.mark.soak
def test_what_is_no_better_is_promoted_about_five_times_in_a_hundred() -> None:
    runs = choose_runs(8, 600)
    promoted = sum(simulate_tuning(0.0, seed, rivals=19) for seed in range(runs))
    spread = 1.96 * (promoted / runs * (1 - promoted / runs) / runs) ** 0.5
    print(f"A/A: {promoted} of {runs} promoted, {100 * promoted / runs:.1f} % ± {100 * spread:.1f}")  # noqa: T201
    assert promoted <= 0.08 * runs + 1


@pytest.mark.soak
def test_a_gain_of_three_points_is_found_with_three_hundred_questions() -> None:
    runs = choose_runs(8, 300)
    for rivals in (0, 3) if runs > 8 else (0,):
        found = sum(simulate_tuning(0.03, seed, rivals=rivals) for seed in range(runs))
        spread = 1.96 * (found / runs * (1 - found / runs) / runs) ** 0.5
        print(f"+3 nDCG points, {rivals} rivals: {found} of {runs}, {100 * found / runs:.1f} % ± {100 * spread:.1f}")  # noqa: T201
        assert found >= 0.8 * runs or rivals


def test_a_question_stays_on_its_side_of_the_split() -> None:
    train, held_out = split_questions(QUESTIONS, train_share=0.3)
    assert len(train) + len(held_out) == len(QUESTIONS)
    assert 0.2 < len(train) / len(QUESTIONS) < 0.4
    fewer, _ = split_questions(QUESTIONS[::2], train_share=0.3)
    assert {each.id for each in fewer} <= {each.id for each in train}
    twins = [JudgedQuestion(text, {"a": 1.0}, id=text) for text in ("Who  rotates keys?", "who rotates KEYS?")]
    assert [len(side) for side in split_questions(twins, train_share=0.5)] in ([2, 0], [0, 2])


def test_no_difference_is_never_promoted() -> None:
    assert not decide_promotion([0.5] * 50, [0.5] * 50).is_promoted
    assert not decide_promotion([0.4] * 50, [0.5] * 50).is_promoted
    assert decide_promotion([0.6] * 50, [0.5] * 50).is_promoted
