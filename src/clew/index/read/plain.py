"""Plain text: paragraphs, and sections where a title is underlined as in reStructuredText."""

import re
from functools import lru_cache
from typing import NamedTuple

from clew.core.ids import document_id
from clew.core.types import Document
from clew.index.read.outline import Heading, outline, title_of

# A title stands at the margin between blank lines, and its underline is at least as long.
_UNDERLINED = re.compile(
    r"""(?:\A\s*|\n[ \t]*\n+)
    (?:(?P<over>(?P<char>[=\-~^"'\#*+`:.])(?P=char){2,})[ \t]*\n[ ]?)?
    (?P<title>\S[^\n]{0,119})\n
    (?P<under>(?P<mark>[=\-~^"'\#*+`:.])(?P=mark){2,})[ \t]*(?=\n|\Z)""",
    re.VERBOSE,
)


class Title(NamedTuple):
    """An underlined title: its lines with the underline, how deep it stands, and its words."""

    start: int
    end: int
    level: int
    label: str


def plain(text: str, *, uri: str, name: str) -> Document:
    """The Document of a plain text; its underlined titles are the sections."""
    found = () if name.lower().endswith(".log") else titles(text)
    return Document(
        id=document_id(uri),
        text=text,
        sections=outline(text, [Heading(title.start, title.level, title.label) for title in found]),
        title=next((title.label for title in found if title.level == 1), "") or title_of(name),
        uri=uri,
        meta={"format": "text"},
    )


@lru_cache(maxsize=4)
def titles(text: str) -> tuple[Title, ...]:
    """The underlined titles in order; the first way of underlining is the first level, the next new one the second."""
    styles: list[tuple[str, bool]] = []
    found: list[Title] = []
    for match in _UNDERLINED.finditer(text):
        label = match["title"].strip()
        over = match["over"]
        mark = match["mark"]
        if len(match["under"]) < len(label) or not any(map(str.isalnum, label)):
            continue
        if over and (match["char"] != mark or len(over) != len(match["under"])):
            continue
        style = (mark, bool(over))
        if style not in styles:
            styles.append(style)
        start = match.start("over") if over else match.start("title")
        found.append(Title(start, match.end("under"), styles.index(style) + 1, label))
    return tuple(found)
