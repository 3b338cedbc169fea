"""What the readers of text share: headings become the sections that partition it."""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from typing import NamedTuple

from clew.core.types import Section

_SEPARATORS = re.compile(r"[\s_\-]+")


class Heading(NamedTuple):
    """Where a section begins, how deep it stands, and what it is called."""

    start: int
    level: int
    label: str


def outline(text: str, headings: Sequence[Heading], *, at: datetime | None = None) -> tuple[Section, ...]:
    """The sections that the headings open, each up to the next; together they are the whole text, in order.

    What stands before the first heading is a section without a label; only white space there belongs to the first.
    """
    if not text:
        return ()
    opened = list(headings)
    if not opened or text[: opened[0].start].strip():
        opened.insert(0, Heading(0, 0, ""))
    starts = [0, *(heading.start for heading in opened[1:]), len(text)]
    sections: list[Section] = []
    above: list[tuple[int, int]] = []  # level and position of the headings that are open
    for position, heading in enumerate(opened):
        while above and above[-1][0] >= heading.level:
            above.pop()
        parent = above[-1][1] if above else None
        sections.append(Section(starts[position], starts[position + 1], heading.label, parent, at=at))
        if heading.level:
            above.append((heading.level, position))
    return tuple(sections)


def title_of(name: str) -> str:
    """A title made of a file's name: `getting-started_2.md` is Getting started 2."""
    stem = PurePath(name).stem
    words = _SEPARATORS.sub(" ", stem).strip()
    return words[:1].upper() + words[1:] or name
