"""The built-in verifier: short passages, headings, long passages and odd texts, and what can be missing."""

import hashlib
import json
import math
from pathlib import Path

import pytest

from clew.core.errors import DriverMissing, NotFound, SettingsError
from clew.core.protocols import Verifier
from clew.core.settings import AnswerConfig, Settings
from clew.drivers import make_verifier
from clew.drivers.verify.cross_encoder import MODEL, SupportModel
from clew.engine import Engine
from clew.engine.opened import open_verifier

PAGE = (
    "The caretaker checks the boiler twice a year. The tenant pays for the heating, and the landlord pays for the roof."
)


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    found = make_verifier(AnswerConfig(verifier="builtin"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ("The boiler is checked by the caretaker.", "The boiler is checked by the tenant."),
        ("The tenant pays for the heating.", "The landlord pays for the heating."),
        ("The boiler is checked twice a year.", "The boiler is checked twice a month."),
        ("The caretaker checks the boiler twice a year.", "The caretaker never checks the boiler."),
        ("The landlord pays for the roof.", "The landlord pays for the swimming pool."),
    ],
)
def test_what_follows_is_likelier_than_what_does_not(verifier: Verifier, true: str, false: str) -> None:
    first, second = verifier.support([(PAGE, true), (PAGE, false)])
    assert first > second
    assert verifier.judge(second) != "supported"


def test_a_result_does_not_depend_on_the_other_pairs(verifier: Verifier) -> None:
    claims = ["The tenant pays for the heating.", "Nobody pays.", ""]
    alone = [verifier.support([(PAGE, claim)])[0] for claim in claims]
    assert verifier.support([(PAGE, claim) for claim in claims]) == alone
    assert verifier.support([]) == []
    assert all(0 <= chance <= 1 for chance in alone)


def test_the_subject_may_stand_in_the_heading(verifier: Verifier) -> None:
    page = "Price list > Falcon 2\nIt weighs 12 kg and costs £400."
    true, false = verifier.support([(page, "Falcon 2 weighs 12 kg."), (page, "Falcon 3 weighs 12 kg.")])
    assert true > false


@pytest.mark.slow
def test_a_long_passage_is_read_to_its_end_with_its_heading(verifier: Verifier) -> None:
    filler = "The weather was fine and coffee was served afterwards. " * 120
    claim = "The caretaker checks the boiler twice a year."
    long, without = verifier.support([(f"House rules\n{filler}{PAGE}", claim), (f"House rules\n{filler}", claim)])
    assert long > without
    assert verifier.judge(without) != "supported"
    heading = f"Boiler\n{filler}It is checked by the caretaker."
    named, other = verifier.support(
        [(heading, "The boiler is checked by the caretaker."), (heading, "The roof is checked.")]
    )
    assert named > other


@pytest.mark.parametrize(
    "text", ["", " \n", "日本語のテキスト", "half \ud83d of it", "[CLS] [SEP] [PAD]", "a" * 3000, "x " * 5000]
)
@pytest.mark.slow
def test_any_text_has_a_chance(verifier: Verifier, text: str) -> None:
    assert all(map(math.isfinite, verifier.support([(text, "The roof leaks."), ("The roof leaks.", text)])))


def test_a_chance_is_one_of_three_states(verifier: Verifier) -> None:
    assert verifier.judge(1.0) == "supported"
    assert verifier.judge(0.0) == "unsupported"
    states = [verifier.judge(at / 100) for at in range(101)]
    assert states == sorted(states, key=["unsupported", "unsure", "supported"].index)
    assert "unsure" in states
    assert verifier.languages == {"en"}


def test_verifiers_are_found_by_name() -> None:
    assert make_verifier(AnswerConfig(verifier="rules")) is None
    with pytest.raises(NotFound, match="builtin"):
        make_verifier(AnswerConfig(verifier="bultin"))
    with pytest.raises(SettingsError, match=r"answer\.verifier"):
        AnswerConfig(verifier="")
    with Engine.open(":memory:", embedder="hashed") as engine:
        opened = engine.opened
        assert opened.get_verifier(Settings(answer=AnswerConfig(verifier="rules"))) is None
        assert opened.get_verifier(Settings()) is opened.get_verifier(Settings()) is open_verifier("builtin")


def test_a_folder_without_calibration_is_named(tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).symlink_to(MODEL / name)
    with pytest.raises(DriverMissing, match=r"calibration\.json"):
        SupportModel(tmp_path, name="mine")


def test_another_model_than_the_calibration_is_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").symlink_to(MODEL / "tokenizer.json")
    (tmp_path / "model.onnx").symlink_to(MODEL / "model.onnx")
    fitted = json.loads((MODEL / "calibration.json").read_text("utf-8"))
    (tmp_path / "calibration.json").write_text(json.dumps(fitted | {"sha256": "0" * 64}), "utf-8")
    with pytest.raises(DriverMissing, match="install clew again"):
        SupportModel(tmp_path, name="mine")


def test_the_model_is_the_one_that_its_card_describes() -> None:
    card = (MODEL / "README.md").read_text("utf-8")
    assert hashlib.sha256((MODEL / "model.onnx").read_bytes()).hexdigest() in card
    assert (MODEL / "model.onnx").stat().st_size <= 40_000_000
