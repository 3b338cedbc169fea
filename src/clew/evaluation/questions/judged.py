"""Judged questions: a question, and the documents or spans that answer it.

They are read from and written to JSON Lines, and read from a BEIR folder: corpus.jsonl, queries.jsonl and
qrels/SPLIT.tsv.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from clew.core.errors import NotFound, SettingsError, SourceError
from clew.core.ids import digest
from clew.core.suggest import format_count, format_names
from clew.core.types import Document, Message
from clew.engine import Engine
from clew.engine.names import find_message, resolve_document_or_sections
from clew.evaluation.measures import Span

MAX_GRADE = 1_000_000
_SPLITS = ("test", "dev", "train")  # of a BEIR folder: the first one found is read
_TOO_DEEP = "it is nested too deep, or has a number of too many digits"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The answer to a question: a part of a document, or a message by its id (`channel/id` if several have it).

    Give the part as a verbatim `quote`, or as `start` and `end`. A message without a quote counts as a whole.
    """

    document: str = ""
    quote: str = ""
    start: int | None = None
    end: int | None = None
    message: str = ""

    def __post_init__(self) -> None:
        given = (self.start is not None, self.end is not None)
        if self.message:
            if self.document or given != (False, False):
                raise SettingsError("evidence names a message, and then needs no document, start or end")
            return
        if not self.document:
            raise SettingsError("evidence names no document and no message")
        if given == (False, False) and not self.quote.strip():
            raise SettingsError("evidence has neither a quote nor a start and an end")
        if given not in ((True, True), (False, False)):
            raise SettingsError("evidence has a start without an end, or an end without a start")
        if self.start is not None and self.end is not None and not 0 <= self.start < self.end:
            raise SettingsError(f"evidence goes from {self.start} to {self.end}; the end must come after the start")


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question and its evidence.

    relevant: Grades by document (its id, uri or path).
    evidence: The spans that answer.
    id: Default: a digest of the question and its history.
    answer: A reference answer.
    is_answerable: False if nothing in the collection answers the question.
    topics: Documents by topic, for a question that asks for several things.
    made: The source of a question made from the collection, such as "headings".
    """

    question: str
    relevant: Mapping[str, float] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    id: str = ""
    answer: str = ""
    is_answerable: bool = True
    history: tuple[Message, ...] = ()
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    made: str = ""

    def __post_init__(self) -> None:
        judged = bool(self.evidence or any(grade > 0 for grade in self.relevant.values()))
        if not self.question.strip():
            raise SettingsError("the question is empty")
        if self.is_answerable and not judged:
            raise SettingsError(
                'nothing is judged relevant; name "relevant" documents or "evidence", or say "answerable": false'
            )
        if not self.is_answerable and judged:
            raise SettingsError("the question is said to have no answer, and yet something is judged relevant")
        if not self.id:
            asked = [self.question, *(f"{each.author}: {each.text}" for each in self.history)]
            object.__setattr__(self, "id", digest("question", *asked)[:12])


def read_questions(path: str | Path) -> list[JudgedQuestion]:
    """Read judged questions from a JSON Lines file or a BEIR folder; SourceError names the line that is wrong."""
    path = Path(path)
    if path.is_dir():
        return read_beir_questions(path)
    found: list[JudgedQuestion] = []
    lines: dict[str, int] = {}
    for number, value in read_json_lines(path):
        try:
            question = parse_question(value)
        except SettingsError as error:
            raise SourceError(str(path), f"line {number}: {error}") from None
        if question.id in lines:
            raise SourceError(str(path), f"line {number}: it has the id of line {lines[question.id]}, {question.id!r}")
        lines[question.id] = number
        found.append(question)
    if not found:
        raise SourceError(str(path), "has no questions; `clew evaluate make` writes some")
    return found


def read_json_lines(path: Path) -> Iterable[tuple[int, Any]]:
    """Yield the values of a JSON Lines file, each with its line number; raise SourceError if a line is not JSON."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SourceError(str(path), f"cannot be read: {reason}") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                reason = f"line {number}: is not JSON ({error.msg}, column {error.colno})"
                raise SourceError(str(path), reason) from error
            except (ValueError, RecursionError) as error:
                raise SourceError(str(path), f"line {number}: {_TOO_DEEP}") from error


def parse_question(value: Any) -> JudgedQuestion:
    """Parse a question from a JSON object, ignoring unknown keys; SettingsError names the part that is wrong."""
    if not isinstance(value, Mapping):
        raise SettingsError('a question is an object, such as {"question": "…", "relevant": ["handbook/keys.md"]}')
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise SettingsError("it has half of a character (a lone surrogate); write the character whole") from None
    except (ValueError, RecursionError):
        raise SettingsError(_TOO_DEEP) from None
    relevant = _parse_relevant(value.get("relevant", value.get("documents", ())))
    evidence = tuple(map(_parse_evidence, _expect(value, "evidence", list, [])))
    quote = _expect(value, "quote", str, "")
    if quote and not evidence:
        if not relevant:
            raise SettingsError("it has a quote, and names no document that the quote is from")
        evidence = (Evidence(next(iter(relevant)), quote),)
    answerable = _expect(value, "answerable", bool, True)
    return JudgedQuestion(
        question=_expect(value, "question", str, ""),
        relevant=relevant,
        evidence=evidence,
        id=str(value.get("id", "")),
        answer=_expect(value, "answer", str, ""),
        is_answerable=answerable,
        history=tuple(map(_parse_message, _expect(value, "history", list, []))),
        topics={
            str(name): _parse_names(members, "the documents of a topic")
            for name, members in _expect(value, "topics", Mapping, {}).items()
        },
        made=_expect(value, "made", str, ""),
    )


def write_questions(path: str | Path, questions: Sequence[JudgedQuestion]) -> None:
    """Write questions as JSON Lines for `read_questions`."""
    lines = [json.dumps(format_question(question), ensure_ascii=False) for question in questions]
    try:
        Path(path).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    except OSError as error:
        raise SourceError(str(path), f"cannot be written: {error.strerror}") from error


def format_question(question: JudgedQuestion) -> dict[str, Any]:
    """Format a question as a JSON object without empty fields."""
    evidence = [
        {
            **({"document": each.document} if each.document else {"message": each.message}),
            **({"quote": each.quote} if each.quote else {}),
            **({} if each.start is None else {"start": each.start, "end": each.end}),
        }
        for each in question.evidence
    ]
    history = [
        {
            "role": each.role,
            "author": each.author,
            "text": each.text,
            **({"at": each.at.isoformat()} if each.at else {}),
        }
        for each in question.history
    ]
    parts: dict[str, Any] = {
        "relevant": dict(question.relevant),
        "evidence": evidence,
        "answer": question.answer,
        "history": history,
        "topics": {name: list(members) for name, members in question.topics.items()},
        "made": question.made,
    }
    shown = {name: part for name, part in parts.items() if part}
    if not question.is_answerable:
        shown["answerable"] = False
    return {"id": question.id, "question": question.question, **shown}


def _parse_relevant(value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        return dict.fromkeys(_parse_names(value, '"relevant"'), 1.0)
    for name, grade in value.items():
        if isinstance(grade, bool) or not isinstance(grade, (int, float)):
            raise SettingsError(f"the grade of {name!r} is {grade!r}; it must be a number")
        if not -MAX_GRADE <= grade <= MAX_GRADE:
            raise SettingsError(f"the grade of {name!r} must be a number from {-MAX_GRADE} to {MAX_GRADE}")
    return {str(name): float(grade) for name, grade in value.items()}


def _parse_names(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise SettingsError(f"{what} must be a list of ids, uris or paths of documents")
    return tuple(dict.fromkeys(value))


def _parse_evidence(value: Any) -> Evidence:
    if not isinstance(value, Mapping):
        raise SettingsError('evidence is an object, such as {"document": "handbook/keys.md", "quote": "every 90 days"}')
    places = [value.get(name) for name in ("start", "end")]
    if any(place is not None and (isinstance(place, bool) or not isinstance(place, int)) for place in places):
        raise SettingsError("the start and end of evidence must be whole numbers: positions of characters")
    message = value.get("message", "")
    if isinstance(message, bool) or not isinstance(message, (str, int)):
        raise SettingsError(f"the message of evidence is {message!r}; give the id of a message, a text")
    document, quote = _expect(value, "document", str, ""), _expect(value, "quote", str, "")
    return Evidence(document, quote, places[0], places[1], str(message))


def _parse_message(value: Any) -> Message:
    if isinstance(value, str):
        return Message(value)
    if not isinstance(value, Mapping):
        raise SettingsError('a message of "history" is a text or an object with a "text"')
    text = value.get("text", value.get("content"))
    if not isinstance(text, str):
        raise SettingsError('a message of "history" has no "text"')
    try:
        at = datetime.fromisoformat(str(value["at"])) if value.get("at") else None
    except ValueError:
        raise SettingsError(f"the time of a message, {value['at']!r}, must be like 2026-05-31T14:00") from None
    return Message(text, author=_expect(value, "author", str, ""), role=_expect(value, "role", str, "user"), at=at)


def _expect(value: Mapping[str, Any], name: str, kind: Any, default: Any) -> Any:
    found = value.get(name, default)
    if not isinstance(found, kind):
        words = {str: "a text", list: "a list", bool: "true or false", Mapping: "an object"}
        raise SettingsError(f'"{name}" must be {words[kind]}, not {found!r}')
    return found


def read_beir_questions(folder: Path) -> list[JudgedQuestion]:
    """Read the questions of a BEIR folder that have a relevant document, in the order of the file."""
    grades = _read_grades(_find_qrels(folder))
    found = []
    for id_, line in _read_beir_entries(folder / "queries.jsonl"):
        if any(grade > 0 for grade in grades.get(id_, {}).values()):
            try:
                found.append(JudgedQuestion(str(line.get("text", "")), grades[id_], id=id_))
            except SettingsError as error:
                raise SourceError(str(folder / "queries.jsonl"), f"{id_}: {error}") from None
    if not found:
        raise SourceError(
            str(folder), "no question has a relevant document; do the ids of the two files belong together?"
        )
    return found


def read_beir_documents(folder: str | Path) -> Iterator[Document]:
    """Yield the documents of a BEIR folder under the ids of its judgements, for `engine.add_documents`."""
    for id_, line in _read_beir_entries(Path(folder) / "corpus.jsonl"):
        title, text = str(line.get("title", "")).strip(), str(line.get("text", "")).strip()
        yield Document(id_, f"{title}\n\n{text}" if title else text, title=title, uri=id_)


def _read_beir_entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if not path.is_file():
        raise SourceError(str(path), "is not there; a BEIR folder has corpus.jsonl, queries.jsonl and qrels/test.tsv")
    for number, line in read_json_lines(path):
        if not isinstance(line, dict) or "_id" not in line:
            raise SourceError(str(path), f'line {number}: has no "_id"')
        yield str(line["_id"]), line


def _find_qrels(folder: Path) -> Path:
    for path in (*(folder / "qrels" / f"{split}.tsv" for split in _SPLITS), folder / "qrels.tsv"):
        if path.is_file():
            return path
    raise SourceError(str(folder), f"has no qrels/{_SPLITS[0]}.tsv; it must be a folder in the format of BEIR")


def _read_grades(path: Path) -> dict[str, dict[str, float]]:
    """Read the grades by question; rows are question, document, grade, or as in TREC with a second column of 0."""
    found: dict[str, dict[str, float]] = {}
    for number, row in enumerate(path.read_text("utf-8-sig").splitlines(), 1):
        cells = row.split("\t") if "\t" in row else row.split()
        if not row.strip() or (number == 1 and cells[-1].strip().lower() in ("score", "relevance", "rel")):
            continue
        try:
            question, document, grade = cells[0], cells[-2], float(cells[-1])
        except (ValueError, IndexError):
            reason = f"line {number}: {row.strip()!r} must be a question, a document and a grade, with tabs between"
            raise SourceError(str(path), reason) from None
        if not abs(grade) <= MAX_GRADE:  # also true for NaN
            raise SourceError(
                str(path), f"line {number}: the grade {cells[-1].strip()} must be a number up to {MAX_GRADE}"
            )
        found.setdefault(question, {})[document] = grade
    return found


@dataclass(frozen=True, slots=True)
class Judgement:
    """The relevant documents and spans of a question, by ids of the collection; unknown names stay as they are."""

    grades: Mapping[str, float]
    spans: Sequence[tuple[str, Span]] = ()  # document id and answering characters
    topics: Mapping[str, Sequence[str]] = field(default_factory=dict)


def resolve_questions(
    engine: Engine, questions: Sequence[JudgedQuestion]
) -> tuple[dict[str, Judgement], tuple[str, ...]]:
    """Resolve the judgement of each question, by question id; return also notes on missing documents.

    A missing document counts as not found by the search. Raise NotFound if all documents are missing.
    """
    names = _Names(engine)
    judgements = {question.id: names.judge(question) for question in questions}
    if names.missing and not names.found:
        shown = format_names(sorted(names.missing))
        raise NotFound(f"the collection has none of the documents that the questions name ({shown}); `clew list`")
    notes = []
    if names.missing:
        count = format_count(len(names.missing), "document")
        notes.append(
            f"{count} of the questions not in the collection, so never found: {format_names(sorted(names.missing))}"
        )
    if names.unquoted:
        count = format_count(len(names.unquoted), "quote")
        notes.append(
            f"{count} not in their documents as `clew read` prints them, so not measured; "
            f"the questions are {format_names(names.unquoted)}"
        )
    return judgements, tuple(notes)


class _Names:
    """A lookup of documents by id, uri, path or the end of a path, which records missing ones."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, list[str]] = {}
        for record in engine.list():
            self._known.setdefault(record.id, [record.id])
            if record.uri:
                self._known.setdefault(record.uri, [record.id])
                parts = record.uri.split("/")
                for start in range(1, len(parts)):
                    self._known.setdefault("/…/" + "/".join(parts[start:]), []).append(record.id)
        self._texts: dict[str, str] = {}
        self.found = 0
        self.missing: set[str] = set()
        self.unquoted: list[str] = []

    def judge(self, question: JudgedQuestion) -> Judgement:
        grades: dict[str, float] = {}
        for name, grade in question.relevant.items():
            grades.update(dict.fromkeys(self._look_up(name), grade))
        spans = []
        for evidence in question.evidence:
            place = self._place(evidence)
            if place is not None:
                spans.append(place)
            elif question.id not in self.unquoted:
                self.unquoted.append(question.id)
            for id_ in [place[0]] if place else self._look_up(evidence.document or evidence.message):
                if grades.get(id_, 0.0) <= 0:  # evidence makes its document relevant, whatever its grade
                    grades[id_] = 1.0
        topics = {
            topic: [id_ for name in members for id_ in self._look_up(name)]
            for topic, members in question.topics.items()
        }
        return Judgement(grades, tuple(spans), topics)

    def _look_up(self, name: str) -> list[str]:
        if name not in self._known:
            ends = self._known.get(f"/…/{name}", [])
            try:
                self._known[name] = ends if len(ends) == 1 else resolve_document_or_sections(self._engine.opened, name)
            except NotFound:
                self._known[name] = []
        if not self._known[name]:
            self.missing.add(name)
            return [name]
        self.found += 1
        return self._known[name]

    def _place_message(self, evidence: Evidence) -> tuple[str, Span] | None:
        """Find the span of a message, or of the quote in it."""
        try:
            id_, section = find_message(self._engine.opened, evidence.message)
        except NotFound:
            self.missing.add(evidence.message)
            self._known[evidence.message] = []
            return None
        self.found += 1
        self._known[evidence.message] = [id_]
        text = self._engine.opened.store.document(id_).text[section.start : section.end]
        span = find_quote(text, evidence.quote.strip() or text.strip())
        return (id_, (section.start + span[0], section.start + span[1])) if span else None

    def _place(self, evidence: Evidence) -> tuple[str, Span] | None:
        if evidence.message:
            return self._place_message(evidence)
        for id_ in self._look_up(evidence.document):
            if evidence.document in self.missing:
                continue
            if id_ not in self._texts:
                self._texts[id_] = self._engine.opened.store.document(id_).text
            text = self._texts[id_]
            if evidence.start is not None and evidence.end is not None:
                end = min(evidence.end, len(text))
                return (id_, (evidence.start, end)) if evidence.start < end else None
            if (span := find_quote(text, evidence.quote)) is not None:
                return id_, span
        return None


def find_quote(text: str, quote: str) -> Span | None:
    """Find the span of a quote in a text, ignoring differences in white space; None if it is not there."""
    at = text.find(quote)
    if at >= 0:
        return at, at + len(quote)
    found = re.search(r"\s+".join(map(re.escape, quote.split())), text)
    return found.span() if found else None
