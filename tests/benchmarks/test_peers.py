"""The comparison with peers: its arithmetic, and Clew's and the floor's side of it, without an installation."""

import sys
from pathlib import Path

import pytest

from benchmarks.peers import environments, run
from benchmarks.peers.data import Inputs, Question, make_title_query, prepare_lookup
from benchmarks.peers.environments import CLEW, FLOOR, PEERS
from benchmarks.peers.lookup import Lookup

TOPICS = ["tide", "lantern", "anchor", "rope", "winch", "crane", "cargo", "mast", "sail", "engine"]


def make_inputs() -> Inputs:
    """Thirty documents on ten topics; three are deleted, three come late."""
    documents = [
        (f"d{n}", f"The {TOPICS[n % 10]} of ship {n}\nWhat the crew of ship {n} knows of its {TOPICS[n % 10]}.")
        for n in range(30)
    ]
    questions = [Question(f"{topic} of ship {n}", {f"d{n}": 1.0}) for n, topic in enumerate(TOPICS)]
    return Inputs(documents, questions, documents[::10], documents[5::10])


def test_clew_finds_late_documents_and_no_deleted_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ROUNDS", 1)
    inputs = make_inputs()
    lookup = prepare_lookup(inputs, tmp_path / "cache", tmp_path, model="hashed")
    assert prepare_lookup(inputs, tmp_path / "cache", tmp_path, model="hashed") == lookup  # kept
    results = [run.Result(FLOOR), run.Result(CLEW)]
    python = Path(sys.executable)
    run.measure_sides(results, inputs, lookup, tmp_path / "work", {FLOOR.name: python, CLEW.name: python})
    for each in results:
        assert not each.failed
        assert each.still_found == {"dense": 0, "words": 0, "hybrid": 0}
        assert each.late_found == {"dense": 3, "words": 3, "hybrid": 3}
        assert [len(times) for times in each.times.values()] == [10, 10]
        assert min(each.gains["hybrid"]) > 0
        assert each.memory > 10
    first, second = run.format_table(results)[2:4]
    assert "(1.0×)" in first
    assert "| 0 / 0 / 0 | 3 / 3 / 3 |" in second


def test_a_side_that_stops_is_named_with_its_reason(tmp_path: Path) -> None:
    inputs = make_inputs()
    lookup = prepare_lookup(inputs, tmp_path / "cache", tmp_path, model="hashed")
    absent = run.Result(environments.Peer("Absent", "with_absent", "absent"))
    run.measure_sides([absent], inputs, lookup, tmp_path / "work", {"Absent": Path(sys.executable)})
    (line,) = run.format_failures([absent])
    assert line.startswith("Absent: not measured, ")
    assert "with_absent" in line
    assert len(run.format_table([run.Result(FLOOR, failed="why"), absent])) == 3  # heading and note alone


def test_what_cannot_be_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setattr(environments, "_run_uv", _refuse)
    with pytest.raises(environments.NotInstalled, match="no such version"):
        environments.make_environment(PEERS[2])


def _refuse(*arguments: str) -> None:
    raise environments.NotInstalled(f"no such version: {arguments[0]}")


def test_lines_of_code_leave_out_docstrings_comments_and_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sides").mkdir()
    (tmp_path / "sides" / "one.py").write_text('"""Doc.\n\nMore."""\n\nimport os\n\n# note\nx = os.sep  # kept\n')
    monkeypatch.setattr(environments, "__file__", str(tmp_path / "environments.py"))
    assert environments.count_lines("one") == 2


def test_a_part_and_a_summary_have_the_vector_of_their_document(tmp_path: Path) -> None:
    inputs = make_inputs()
    lookup = Lookup(prepare_lookup(inputs, tmp_path / "cache", tmp_path, model="hashed"))
    id_, text = inputs.documents[3]
    whole, part, summary = lookup.embed([text, text.partition("\n")[2], f"{id_}: a summary"])
    assert (whole == part).all()
    assert (whole == summary).all()
    assert make_title_query(text) == "The rope of ship 3"
    with pytest.raises(KeyError, match="no vector of the text 'unheard of'"):
        lookup.embed(["unheard of"])
