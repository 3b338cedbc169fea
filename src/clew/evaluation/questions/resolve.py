"""From the names and quotes of a question to the ids and spans of the collection."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clew.core.errors import NotFound
from clew.core.plural import format_count
from clew.core.suggest import format_names
from clew.engine import Engine
from clew.engine.names import find_message
from clew.engine.sections import resolve_document_or_sections
from clew.evaluation.measures import Span
from clew.evaluation.questions.judged import Evidence, JudgedQuestion


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is relevant for a question, by ids of the collection; a name that it does not have stays as it is."""

    grades: Mapping[str, float]
    spans: Sequence[tuple[str, Span]] = ()  # the document and the characters that answer
    topics: Mapping[str, Sequence[str]] = field(default_factory=dict)


def resolve_questions(
    engine: Engine, questions: Sequence[JudgedQuestion]
) -> tuple[dict[str, Judgement], tuple[str, ...]]:
    """The judgement of each question by its id, and notes on what the collection does not have.

    A document that is not there counts as not found. NotFound if not one of them is there.
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
    """Looks up documents by id, uri, path or the end of a path, and keeps count of what is not there."""

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
        """Where a message stands, or the quote in it."""
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
    """Where a quote stands in a text, whatever its white space; None if it is not there."""
    at = text.find(quote)
    if at >= 0:
        return at, at + len(quote)
    found = re.search(r"\s+".join(map(re.escape, quote.split())), text)
    return found.span() if found else None
