"""Plain text: paragraphs, and sections where a title is underlined as in reStructuredText."""

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from clew.core.ids import document_id
from clew.core.types import Document
from clew.index.read.outline import Heading, outline, title_of
from clew.index.read.text.markdown import line_starts

_RULE = re.compile(r"""([=\-~^"'#*+`:.])\1{2,}""")
_LONGEST = 120  # characters of a title


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


@lru_cache(maxsize=4)  # the chunker asks again for what the reader has just asked for
def titles(text: str) -> tuple[Title, ...]:
    """The underlined titles in order; the first way of underlining is the first level, the next new one the second.

    A title stands at the margin after a blank line. The rule below it is at least as long; a rule above it is the same.
    """
    starts = line_starts(text)
    lines = [text[start:stop].rstrip() for start, stop in pairwise(starts)]
    styles: list[tuple[str, bool]] = []
    found: list[Title] = []
    for number, under in enumerate(lines[1:], 1):
        if len(under) < 3 or not _RULE.fullmatch(under):
            continue
        label = lines[number - 1].strip()
        over = number > 1 and lines[number - 2] == under
        first = number - 2 if over else number - 1
        if not 0 < len(label) <= min(len(under), _LONGEST) or not any(map(str.isalnum, label)):
            continue
        if (first and lines[first - 1]) or (not over and lines[number - 1][0].isspace()):
            continue
        style = (under[0], over)
        if style not in styles:
            styles.append(style)
        found.append(Title(starts[first], starts[number] + len(under), styles.index(style) + 1, label))
    return tuple(found)
