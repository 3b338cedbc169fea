"""Judged questions: what may stand in a file, and what is said of what may not."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from clew import Engine, Message, NotFound, SettingsError, SourceError
from clew.evaluation import Evidence, JudgedQuestion, evaluate, read_beir_documents, read_questions, write_questions
from tests.evaluation.conftest import QUESTIONS


def test_questions_are_read_as_they_were_written(tmp_path: Path) -> None:
    history = (
        Message("we talked of keys", author="dan", at=datetime(2026, 5, 1, 9)),
        Message("and?", role="assistant"),
    )
    written = [
        JudgedQuestion("who?", {"a.md": 2.0, "b.md": 1.0}, answer="Dan", history=history, topics={"x": ("a.md",)}),
        JudgedQuestion("when?", evidence=(Evidence("a.md", "on Monday"), Evidence("b.md", "", 3, 9)), id="q2"),
        JudgedQuestion("why is the sky blue?", is_answerable=False),
        JudgedQuestion("what did Ada say?", evidence=(Evidence(message="ops/m1"), Evidence(message="m2", quote="yes"))),
    ]
    write_questions(tmp_path / "q.jsonl", written)
    read = read_questions(tmp_path / "q.jsonl")
    assert read == written
    assert read[0].history[0].at == datetime(2026, 5, 1, 9)


def test_the_short_form_of_a_quote_is_evidence_in_the_first_document(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('{"question": "who?", "documents": ["a.md", "b.md"], "quote": "Dan does", "kind": "any"}\n\n')
    (question,) = read_questions(file)
    assert question.evidence == (Evidence("a.md", "Dan does"),)
    assert question.relevant == {"a.md": 1.0, "b.md": 1.0}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{not json", "line 2: is not JSON"),
        ("[1]", "line 2: a question is an object"),
        ('{"question": "", "relevant": ["a"]}', "line 2: the question is empty"),
        ('{"question": "q"}', "line 2: nothing is judged relevant"),
        ('{"question": "q", "relevant": "a"}', "must be a list of ids"),
        ('{"question": "q", "relevant": {"a": "high"}}', "the grade of 'a' is 'high'"),
        ('{"question": "q", "evidence": [{"document": "a"}]}', "neither a quote nor a start"),
        ('{"question": "q", "evidence": [{"document": "a", "start": 3}]}', "a start without an end"),
        ('{"question": "q", "evidence": [{"document": "a", "start": 9, "end": 3}]}', "the end must come after"),
        ('{"question": "q", "evidence": [{"document": "a", "start": 1.5, "end": 3}]}', "must be whole numbers"),
        ('{"question": "q", "evidence": [{"quote": "x"}]}', "line 2: evidence names no document and no message"),
        ('{"question": "q", "evidence": [{"message": "m1", "document": "a"}]}', "line 2: evidence names a message"),
        ('{"question": "q", "evidence": [{"message": ["m1"]}]}', "line 2: the message of evidence is ['m1']"),
        ('{"question": "q", "quote": "x"}', "names no document"),
        ('{"question": "q", "relevant": ["a"], "answerable": false}', "and yet something is judged relevant"),
        ('{"question": "q", "relevant": ["a"], "answerable": "no"}', '"answerable" must be true or false'),
        ('{"question": "q", "relevant": ["a"], "history": [{"role": "user"}]}', 'has no "text"'),
        ('{"question": "q", "relevant": ["a"], "history": [{"text": "x", "at": "noon"}]}', "the time of a message"),
        ('{"id": "one", "question": "q", "relevant": ["a"]}', "it has the id of line 1"),
        ('{"question": "q", "relevant": {"a": NaN}}', "line 2: the grade of 'a' must be a number from"),
        ('{"question": "q", "relevant": {"a": 1e999}}', "line 2: the grade of 'a' must be a number from"),
        ('{"question": "q", "relevant": {"a": ' + "1" * 400 + "}}", "line 2: the grade of 'a' must be a number from"),
        ('{"question": "q", "relevant": {"a": ' + "1" * 5000 + "}}", "line 2: it is nested too deep"),
        ('{"question": "q", "relevant": ["a"], "note": ' + "[" * 100_000, "line 2: it is nested too deep"),
        (r'{"question": "q", "relevant": ["a"], "id": "\ud800"}', "line 2: it has half of a character"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('{"id": "one", "question": "q", "relevant": ["a"]}\n' + line + "\n")
    with pytest.raises(SourceError, match=r"q\.jsonl") as error:
        read_questions(file)
    assert told in str(error.value)


def test_a_file_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.jsonl: cannot be read"):
        read_questions(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(SourceError, match="has no questions"):
        read_questions(tmp_path / "empty.jsonl")


def write_beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "Keys", "text": "Signing keys rotate every ninety days."}\n'
        '{"_id": "d2", "title": "", "text": "Soup is served at noon."}\n'
    )
    (folder / "queries.jsonl").write_text(
        '{"_id": "1", "text": "how often do signing keys rotate?"}\n{"_id": "2", "text": "not judged"}\n'
    )
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t2\n1\td2\t0\n")
    return folder


def test_a_beir_folder_is_added_and_evaluated(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "beir")
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(list(read_beir_documents(folder)))
        made = evaluate(engine, folder, strategies=["lexical"])
    assert made.run.questions == ("1",)
    assert made.run.grades == {"1": {"d1": 2.0, "d2": 0.0}}
    assert made.scores[0].means["nDCG@10"] == 1.0
    assert "evidence@10" not in made.scores[0].means  # there is none to measure


def test_a_broken_beir_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"qrels/test\.tsv"):
        read_questions(tmp_path)
    folder = write_beir(tmp_path / "beir")
    (folder / "qrels" / "test.tsv").write_text("1\td1\tmuch\n")
    with pytest.raises(SourceError, match="line 1"):
        read_questions(folder)
    for grade in ("nan", "inf", "-1e9"):
        (folder / "qrels" / "test.tsv").write_text(f"1\td1\t1\n1\td2\t{grade}\n")
        with pytest.raises(SourceError, match=f"line 2: the grade {grade} must be a number"):
            read_questions(folder)


def test_documents_are_named_by_id_uri_or_the_end_of_a_path(engine: Engine) -> None:
    names = ["page-0", "pages/anchor.md", "anchor.md"]
    questions = [JudgedQuestion("where is the spare anchor?", {name: 1.0}, id=name) for name in names]
    made = evaluate(engine, questions, strategies=["lexical"], keep=False)
    assert [made.run.grades[name] for name in names] == [{"page-0": 1.0}] * 3
    assert made.scores[0].means["MRR"] == 1.0


def test_what_the_collection_does_not_have_is_noted_and_counts_as_missed(engine: Engine) -> None:
    gone = JudgedQuestion("where is the spare anchor?", {"pages/anchor.md": 1.0, "gone.md": 1.0}, id="gone")
    made = evaluate(engine, [gone], strategies=["lexical"], keep=False)
    assert made.scores[0].means["recall@10"] == 0.5
    assert "gone.md" in made.notes[0]
    changed = JudgedQuestion("where?", evidence=(Evidence("pages/anchor.md", "it was sold"),), id="changed")
    made = evaluate(engine, [changed], strategies=["lexical"], keep=False)
    assert "1 quote not in their documents" in made.notes[0]
    with pytest.raises(NotFound, match="none of the documents"):
        evaluate(engine, [JudgedQuestion("where?", {"gone.md": 1.0})])


def test_evidence_makes_its_document_relevant_whatever_its_grade(engine: Engine) -> None:
    asked = replace(QUESTIONS[0], relevant={"pages/anchor.md": 0.0})
    made = evaluate(engine, [asked], strategies=["lexical"], keep=False)
    assert made.run.grades[asked.id] == {"page-0": 1.0}
    assert made.scores[0].means["nDCG@10"] == 1.0


def test_two_questions_of_one_id_and_no_questions_are_refused(engine: Engine) -> None:
    with pytest.raises(SettingsError, match="the same id"):
        evaluate(engine, [QUESTIONS[0], QUESTIONS[0]])
    with pytest.raises(SettingsError, match="there are no questions"):
        evaluate(engine, [])


def test_evidence_may_be_a_message_by_its_id(tmp_path: Path) -> None:
    said = [
        Message("Who has the key of the vault?", author="ada", id="m1", channel="ops"),
        Message("The key is in the red drawer, below the stamps.", author="ben", id="m2", channel="ops", reply_to="m1"),
        Message("Soup at noon.", author="ben", id="m2", channel="hall"),
    ]
    file = tmp_path / "q.jsonl"
    lines = (
        '{"id": "whole", "question": "who has the key of the vault?", "evidence": [{"message": "ops/m2"}]}',
        '{"id": "part", "question": "where is the key?", "evidence": [{"message": "ops/m2", "quote": "red drawer"}]}',
        '{"id": "gone", "question": "where is the key?", "evidence": [{"message": "ops/m9"}]}',
    )
    file.write_text("\n".join(lines))
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages(said)
        thread = engine.search("red drawer", k=1)[0].document.id
        made = evaluate(engine, file, strategies=["lexical"])
        assert made.run.grades == {"whole": {thread: 1}, "part": {thread: 1}, "gone": {"ops/m9": 1}}
        values = {result.question: result.values for result in made.run.results}
        assert values["whole"]["evidence@10"] == values["part"]["evidence@10"] == 1.0
        assert "evidence@10" not in values["gone"]
        assert any("ops/m9" in note for note in made.notes)
