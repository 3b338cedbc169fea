"""Plain text: sections from underlined titles, as in reStructuredText."""

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from clew.core.ids import make_document_id
from clew.core.types import Document
from clew.index.read.outline import Heading, build_sections_from_headings, make_title_from_file_name
from clew.index.read.text.markdown import find_line_starts

_RULE = re.compile(r"""([=\-~^"'#*+`:.])\1{2,}""")
_MAX_TITLE_CHARS = 120  # characters of a title


class UnderlinedTitle(NamedTuple):
    """An underlined title: its span with the underline, its level and its text."""

    start: int
    end: int
    level: int
    label: str


def read_plain_text(text: str, *, uri: str, name: str) -> Document:
    """The Document of a plain text; a section per underlined title."""
    found = () if name.lower().endswith(".log") else find_underlined_titles(text)
    return Document(
        id=make_document_id(uri),
        text=text,
        sections=build_sections_from_headings(
            text, [Heading(title.start, title.level, title.label) for title in found]
        ),
        title=next((title.label for title in found if title.level == 1), "") or make_title_from_file_name(name),
        uri=uri,
        meta={"format": "text"},
    )


@lru_cache(maxsize=4)  # the chunker parses what the reader has just parsed
def find_underlined_titles(text: str) -> tuple[UnderlinedTitle, ...]:
    """The underlined titles in order; the first style of underline is level 1, the next new style level 2, and so on.

    A title is at the margin after a blank line. The rule below it is at least as long; a rule above it must equal it.
    """
    starts = find_line_starts(text)
    lines = [text[start:stop].rstrip() for start, stop in pairwise(starts)]
    styles: list[tuple[str, bool]] = []
    found: list[UnderlinedTitle] = []
    for number, under in enumerate(lines[1:], 1):
        if len(under) < 3 or not _RULE.fullmatch(under):
            continue
        label = lines[number - 1].strip()
        over = number > 1 and lines[number - 2] == under
        first = number - 2 if over else number - 1
        if not 0 < len(label) <= min(len(under), _MAX_TITLE_CHARS) or not any(map(str.isalnum, label)):
            continue
        if (first and lines[first - 1]) or (not over and lines[number - 1][0].isspace()):
            continue
        style = (under[0], over)
        if style not in styles:
            styles.append(style)
        found.append(UnderlinedTitle(starts[first], starts[number] + len(under), styles.index(style) + 1, label))
    return tuple(found)
