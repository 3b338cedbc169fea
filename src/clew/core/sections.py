"""Rules of the sections of a document."""

from collections.abc import Sequence

from clew.core.types import Section


def find_section_cycle(sections: Sequence[Section]) -> int | None:
    """The position of a section that is among its own ancestors, or None."""
    acyclic: set[int] = set()  # sections whose chain of parents is known to end
    for start in range(len(sections)):
        path: dict[int, None] = {}
        at: int | None = start
        while at is not None and at not in acyclic:
            if at in path:
                return at
            path[at] = None
            at = sections[at].parent
        acyclic |= path.keys()
    return None
