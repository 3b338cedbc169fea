"""The written contexts of the reader, and what is read for their questions."""

import gzip
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from studies.reader import asked, claims, groups
from studies.reader.written import DEVELOPMENT, KEPT, TEST, TRAINED, is_for_development, load_written, parse_contexts

CONTEXTS = """== page | Kiln > Use
The kiln is fired on Fridays. Pots go on the lower shelf by noon.
+ The kiln runs at the end of the week.
- The kiln is fired daily.
? When must my pot be there? => Pots go on the lower shelf by noon.
! How hot does it get?

== chat | #van
[2031-03-04 09:12] Ana: Who has the key of the van?
[2031-03-04 09:15] Ben > Ana: Marta has it
+ Marta keeps the key.
- Ben has the key.
? Where is the key? => Marta has it
! Who bought the van?
"""


def test_contexts_are_parsed() -> None:
    page, chat = parse_contexts(CONTEXTS, "made")
    assert (page.kind, page.title, page.truths) == ("page", "Kiln > Use", ["The kiln runs at the end of the week."])
    assert page.questions == [("When must my pot be there?", "Pots go on the lower shelf by noon.")]
    assert [(each.author, each.reply_to) for each in chat.messages] == [("Ana", None), ("Ben", 0)]
    assert chat.passage == "#van\nAna: Who has the key of the van?\nBen: Marta has it"


def test_a_quote_must_stand_in_its_text() -> None:
    with pytest.raises(ValueError, match="not in its text"):
        list(parse_contexts(CONTEXTS.replace("=> Marta has it", "=> Marta had it"), "made"))


def test_what_is_kept_for_choosing_is_not_trained_on() -> None:
    kept = {each.id for each in load_written(DEVELOPMENT)}
    every = [each for name in TRAINED for each in load_written(name)]
    assert kept == {each.id for each in every if is_for_development(f"{each.id}?0")}
    assert 0.08 < len(kept) / len(every) < 0.17
    for name in (TEST, *KEPT):
        assert not {each.text for each in load_written(name)} & {each.text for each in every}


def test_groups_mark_the_part_that_answers(tmp_path: Path) -> None:
    (tmp_path / "made.txt").write_text(CONTEXTS, "utf-8")
    found = list(groups.list_written_groups(load_written("made", tmp_path), groups.make_settings("hashed", "")))
    by_question = {each.question: [part.text for part in each.parts if part.is_evidence] for each in found}
    assert by_question["When must my pot be there?"] == ["Kiln: Use: Pots go on the lower shelf by noon."]
    assert ["Marta has it" in text for text in by_question["Where is the key?"]] == [True]
    assert by_question["How hot does it get?"] == []
    assert [each.is_answerable for each in found] == [True, False, True, False]
    groups.write_groups(found, tmp_path / "groups.jsonl.gz")
    with gzip.open(tmp_path / "groups.jsonl.gz", "rt") as file:
        assert [json.loads(line)["question"] for line in file] == [each.question for each in found]


def test_questions_and_near_misses_are_asked(tmp_path: Path) -> None:
    easy = CONTEXTS.replace("When must my pot be there?", "By when must pots be on the lower shelf?")
    (tmp_path / "made.txt").write_text(easy, "utf-8")
    found = list(asked.ask_written(load_written("made", tmp_path), embedder="hashed"))
    assert [(each.kind, each.is_answerable) for each in found] == [
        *(("page", True), ("page", False), ("chat", True), ("chat", False)),
    ]
    assert [each.is_right_first for each in found if each.kind == "page"] == [True, False]
    row = asked.make_row("made", [*found, asked.Asked("page", False, True, False, 0.9)])
    assert row.startswith("| made | 2 | ")
    assert " | 3 | 33.3 | " in row  # one of three near misses was answered


def test_claims_are_judged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(claims, "load_written", lambda _: list(parse_contexts(CONTEXTS, "made")))
    claims.main(["--part", TEST])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| test, ")]
    assert [row.split(" | ")[:2] for row in rows] == [["| test, pages", "2"], ["| test, chats", "2"]]


@pytest.mark.skipif(find_spec("torch") is None or find_spec("onnx") is None, reason="training needs torch and onnx")
def test_a_few_steps_are_trained(tmp_path: Path) -> None:
    from clew.drivers.verify.cross_encoder import MODEL
    from studies.reader import train

    for name in TRAINED:
        (tmp_path / f"{name}.txt").write_text(CONTEXTS, "utf-8")
    contexts = list(parse_contexts(CONTEXTS, "company"))
    made = groups.list_written_groups(contexts, groups.make_settings("hashed", ""))
    groups.write_groups(made, tmp_path / "groups.jsonl.gz")
    options = ["--written", str(tmp_path), "--groups", str(tmp_path / "groups.jsonl.gz"), "--base", str(MODEL)]
    train.main([*options, "--out", str(tmp_path / "out"), "--epochs", "1", "--report", "1"])
    assert (tmp_path / "out" / "model.onnx").stat().st_size < 40_000_000
