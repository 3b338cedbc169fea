"""Newer messages: what a chat said later on the same question, so that a decision is not quoted without its correction.

Later messages of the channel that are most like the quoted one are read with the question what it is now instead. The
reader tells a message that says so ("from tonight it starts at half past four") from one that has the same words and
changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from clew.core.answer import AnswerPart
from clew.core.attribution import PassageMessage, format_attribution
from clew.core.filter import Filter
from clew.core.small_talk import has_content
from clew.core.thread import THREAD_KIND
from clew.core.types import Hit, Query
from clew.query.answer.choose import QuestionReader
from clew.query.answer.passages import NumberedPassage
from clew.query.answer.quote import Part, list_parts, quote_part
from clew.query.context.assemble import NEIGHBOUR
from clew.query.context.format.messages import format_message_line

MAX_MESSAGES = 6  # later ones that are read
MIN_ODDS = -1.8  # by the reader, of one that is quoted
NOW = "What is it now instead?"


@dataclass(frozen=True, slots=True)
class NewerMessage:
    """A later message on what an older one says, quoted, and who wrote it when."""

    part: AnswerPart
    line: str

    @property
    def note(self) -> str:
        """What an answer that quotes it says of it."""
        return (
            f"a newer message may speak of it: {format_attribution(self.part.citation.author, self.part.citation.at)}"
        )

    def put_beside(self, parts: Sequence[AnswerPart]) -> tuple[AnswerPart, ...]:
        """Return the quoted passages with it after the first unless that shows it, and without another that does."""
        if self.is_in(parts[0]):
            return tuple(parts)
        return parts[0], self.part, *(part for part in parts[1:] if not self.is_in(part))

    def is_in(self, part: AnswerPart) -> bool:
        """Return whether a quoted passage shows it already: as what is cited, or beside that."""
        ours, theirs = self.part.citation, part.citation
        return (theirs.document, theirs.message) == (ours.document, ours.message) or self.line in part.passage


def find_quoted_message(part: AnswerPart, passages: Sequence[NumberedPassage]) -> PassageMessage | None:
    """Find the message that is marked in a quoted passage; None where that is of a page or has no time."""
    found = (each for passage in passages for each in passage.passage.messages if each.id == part.citation.message)
    return next((each for each in found if each.at is not None), None)


def make_later_query(query: Query, message: PassageMessage) -> Query:
    """Make the query for later messages of the channel that are like a message, for a question."""
    assert message.at is not None
    channels = frozenset({message.channel}) if message.channel else None
    later = Filter(kinds=frozenset({THREAD_KIND}), channels=channels, since=message.at + timedelta(microseconds=1))
    text = f"{query.text} {message.text}"
    return replace(query, text=text, asked="", history=(), vector=None, k=MAX_MESSAGES, where=query.where & later)


def ask_what_is_now(query: Query) -> str:
    """Ask what has become of the answer to a question."""
    return f"{query.text} {NOW}"


def choose_newer(reader: QuestionReader, passages: Sequence[NumberedPassage]) -> NewerMessage | None:
    """Choose the message that most likely says what it is now; None where none does."""
    pairs = [
        (passage, part)
        for passage in passages
        for part in list_parts(passage)
        if any(_is_found(hit, part) for hit in passage.passage.chunks)
        and has_content(passage.read_span((part.start, part.end)))
    ]
    odds = reader.read([_read_message(passage, part) for passage, part in pairs])
    place = max(range(len(pairs)), key=lambda place: odds[place], default=-1)
    if place < 0 or odds[place] < MIN_ODDS:
        return None
    passage, part = pairs[place]
    line = format_message_line(passage.passage.messages[part.message])
    return NewerMessage(quote_part(passage, part, (part.start, part.end)), line)


def _is_found(hit: Hit, part: Part) -> bool:
    """Return whether a part is of a message that was found, and not of one beside it."""
    return hit.chunk.start <= part.start < hit.chunk.end and NEIGHBOUR not in hit.scores


def _read_message(passage: NumberedPassage, part: Part) -> str:
    """Return the part of a message after its author, without the question before it, which may be of another time."""
    author, text = passage.passage.messages[part.message].author, passage.read_span((part.start, part.end))
    return f"{author}: {text}" if author else text
