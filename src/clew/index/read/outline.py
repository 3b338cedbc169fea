"""Sections from headings, shared by the readers of text."""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from typing import NamedTuple

from clew.core.types import Section

_SEPARATORS = re.compile(r"[\s_\-]+")


class Heading(NamedTuple):
    """Where a section begins, its level and its label."""

    start: int
    level: int
    label: str


def build_sections_from_headings(
    text: str, headings: Sequence[Heading], *, at: datetime | None = None
) -> tuple[Section, ...]:
    """One section from each heading to the next; together they partition the text, in order.

    Text before the first heading is a section without a label; mere white space there belongs to the first section.
    """
    if not text:
        return ()
    starting = list(headings)
    if not starting or text[: starting[0].start].strip():
        starting.insert(0, Heading(0, 0, ""))
    starts = [0, *(heading.start for heading in starting[1:]), len(text)]
    sections: list[Section] = []
    ancestors: list[tuple[int, int]] = []  # level and position of the open headings
    for position, heading in enumerate(starting):
        while ancestors and ancestors[-1][0] >= heading.level:
            ancestors.pop()
        parent = ancestors[-1][1] if ancestors else None
        sections.append(Section(starts[position], starts[position + 1], heading.label, parent, at=at))
        if heading.level:
            ancestors.append((heading.level, position))
    return tuple(sections)


def make_title_from_file_name(name: str) -> str:
    """A title from a file name: `getting-started_2.md` becomes "Getting started 2"."""
    stem = PurePath(name).stem
    words = _SEPARATORS.sub(" ", stem).strip()
    return words[:1].upper() + words[1:] or name
