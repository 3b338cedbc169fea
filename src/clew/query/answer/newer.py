"""Newer messages on the same question, so that a decision is not quoted without its correction.

The later messages of the channel that are most like the quoted one are scored for the question plus "What is it now
instead?". The reader tells a message that answers this ("from tonight it starts at half past four") from one that has
the same words and changes nothing.
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

MAX_MESSAGES = 6  # later messages to read
MIN_ODDS = -1.8  # of the reader, from which a message is quoted
NOW = "What is it now instead?"


@dataclass(frozen=True, slots=True)
class NewerMessage:
    """A quoted later message on the subject of an older one, and its line with author and time."""

    part: AnswerPart
    line: str

    @property
    def note(self) -> str:
        """The note in an answer that quotes this message."""
        return (
            f"a newer message may speak of it: {format_attribution(self.part.citation.author, self.part.citation.at)}"
        )

    def put_beside(self, parts: Sequence[AnswerPart]) -> tuple[AnswerPart, ...]:
        """Insert this message after the first passage unless that shows it; drop other passages that show it."""
        if self.is_in(parts[0]):
            return tuple(parts)
        return parts[0], self.part, *(part for part in parts[1:] if not self.is_in(part))

    def is_in(self, part: AnswerPart) -> bool:
        """Return whether a quoted passage already shows this message, cited or beside the citation."""
        ours, theirs = self.part.citation, part.citation
        return (theirs.document, theirs.message) == (ours.document, ours.message) or self.line in part.passage


def find_quoted_message(part: AnswerPart, passages: Sequence[NumberedPassage]) -> PassageMessage | None:
    """Find the message that is marked in a quoted passage; None for a page or a message without a time."""
    found = (each for passage in passages for each in passage.passage.messages if each.id == part.citation.message)
    return next((each for each in found if each.at is not None), None)


def make_later_query(query: Query, message: PassageMessage) -> Query:
    """Make the query for later messages of the channel that are like the question and a message."""
    assert message.at is not None
    channels = frozenset({message.channel}) if message.channel else None
    later = Filter(kinds=frozenset({THREAD_KIND}), channels=channels, since=message.at + timedelta(microseconds=1))
    text = f"{query.text} {message.text}"
    return replace(query, text=text, asked="", history=(), vector=None, k=MAX_MESSAGES, where=query.where & later)


def ask_what_is_now(query: Query) -> str:
    """Return the question with a request for the current answer."""
    return f"{query.text} {NOW}"


def choose_newer(reader: QuestionReader, passages: Sequence[NumberedPassage]) -> NewerMessage | None:
    """Choose the message that most likely gives the current answer; None if none does."""
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
    """Return whether a part belongs to a message that was found, not to a neighbour."""
    return hit.chunk.start <= part.start < hit.chunk.end and NEIGHBOUR not in hit.scores


def _read_message(passage: NumberedPassage, part: Part) -> str:
    """Return the part of a message after its author, without the question before it, which may be outdated."""
    author, text = passage.passage.messages[part.message].author, passage.read_span((part.start, part.end))
    return f"{author}: {text}" if author else text
