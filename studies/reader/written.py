"""Pages and chats that were written for training and testing, with claims and questions about each.

A file holds contexts in this form; `+` follows from the text, `-` does not; `?` is answered by the part after `=>`,
which stands in the text word for word; `!` is close to the subject and not answered; `&` is a question, a follow-up
that leans on it, and the part that answers the follow-up:

    == page | Title > Heading
    The text, in Markdown.
    + …
    - …
    ? … => …
    ! …
    & … => … => …

    == chat | #channel
    [2031-03-04 09:12] Ana: a message on one line
    [2031-03-04 09:15] Ben > Ana: a reply to the last message of Ana
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

WRITTEN = Path(__file__).parent / "written"
TRAINED = (
    *("company", "technical", "chats", "mixed", "teams", "handbook"),
    *("groups", "policies", "engineering", "howto", "workplace"),
    *("channels", "organisations", "workshops", "manuals", "guides"),
)
KEPT = ("rooms", "hard")  # nothing was trained or chosen on them
TEST = "test"
DEVELOPMENT = "development"  # the contexts that are kept for choosing
DEVELOPMENT_SHARE = 8  # one in so many
_MESSAGE = re.compile(r"\[([\d :-]+)\] ([^:>]+?)(?: > ([^:]+))?: (.*)")
_MARKS = {"+ ": "truths", "- ": "lies", "! ": "near_misses"}


@dataclass(frozen=True, slots=True)
class WrittenMessage:
    """A message of a chat, and the place of the one that it replies to."""

    text: str
    author: str
    at: datetime
    reply_to: int | None


@dataclass(slots=True)
class WrittenContext:
    """A page or a chat, claims that follow and that do not, questions with the part that answers, and near misses.

    A follow-up is a question, the next one, and the part that answers the latter.
    """

    id: str
    kind: str
    title: str
    text: str = ""
    truths: list[str] = field(default_factory=list)
    lies: list[str] = field(default_factory=list)
    questions: list[tuple[str, str]] = field(default_factory=list)
    near_misses: list[str] = field(default_factory=list)
    follow_ups: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def messages(self) -> list[WrittenMessage]:
        """The messages of a chat."""
        found: list[WrittenMessage] = []
        for line in self.text.splitlines():
            if match := _MESSAGE.match(line):
                at, author, asked, text = match.groups()
                reply_to = max((place for place, each in enumerate(found) if each.author == asked), default=None)
                moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
                found.append(WrittenMessage(text, author.strip(), moment, reply_to))
        return found

    @property
    def passage(self) -> str:
        """The text as a verifier reads it: its headings first, and the author before each message."""
        said = "\n".join(f"{each.author}: {each.text}" for each in self.messages) if self.kind == "chat" else self.text
        return f"{self.title}\n{said}"


def load_written(name: str, folder: Path = WRITTEN) -> list[WrittenContext]:
    """The contexts of a file, or those of all files for training that are kept for choosing."""
    if name == DEVELOPMENT:
        return [each for other in TRAINED for each in load_written(other, folder) if is_for_development(each.id)]
    return list(parse_contexts((folder / f"{name}.txt").read_text("utf-8"), name))


def is_for_development(id_: str) -> bool:
    """Whether a context, or a group of it, is kept for choosing."""
    name = id_.partition("?")[0].partition("!")[0]
    return hashlib.sha256(name.encode()).digest()[0] % DEVELOPMENT_SHARE == 0


def parse_contexts(text: str, name: str) -> Iterator[WrittenContext]:
    """The contexts of a text; ValueError names one whose quote does not stand in it."""
    parts = re.split(r"^== ", text, flags=re.MULTILINE)[1:]
    for place, part in enumerate(parts):
        first, *lines = part.splitlines()
        kind, _, title = first.partition(" | ")
        found = WrittenContext(f"{name}-{place}", kind.strip(), title.strip())
        said = []
        for line in lines:
            if line.startswith("? "):
                question, _, quote = line[2:].partition(" => ")
                found.questions.append((question.strip(), quote.strip()))
            elif line.startswith("& "):
                first, second, quote = (each.strip() for each in line[2:].split(" => ", 2))
                found.follow_ups.append((first, second, quote))
            elif line[:2] in _MARKS:
                getattr(found, _MARKS[line[:2]]).append(line[2:].strip())
            else:
                said.append(line)
        found.text = "\n".join(said).strip()
        quotes = [each[-1] for each in (*found.questions, *found.follow_ups)]
        if strange := [quote for quote in quotes if not quote or quote not in found.text]:
            raise ValueError(f"{found.id}: not in its text: {strange[0]!r}")
        yield found
