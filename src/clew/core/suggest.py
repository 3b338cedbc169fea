"""Suggestions ("did you mean"): the known names nearest to one that is not known, for error messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def find_close_names(name: str, candidates: Iterable[str], *, max_names: int = 3, cutoff: float = 0.4) -> list[str]:
    """The candidates most like the name, nearest first, compared without regard to case.

    `cutoff` is the least likeness, from 0 to 1, by difflib's ratio.
    """
    folded: dict[str, str] = {}
    for candidate in candidates:
        folded.setdefault(candidate.casefold(), candidate)
    return [folded[near] for near in get_close_matches(name.casefold(), folded, n=max_names, cutoff=cutoff)]


def format_suggestion(name: str, candidates: Iterable[str], *, max_names: int = 3, cutoff: float = 0.4) -> str:
    """The question `did you mean a, b?` with the nearest candidates; empty if none is near."""
    near = find_close_names(name, candidates, max_names=max_names, cutoff=cutoff)
    return f"did you mean {', '.join(near)}?" if near else ""
