"""Parts of messages: suggestions ("did you mean"), lists and counts of names, masked secrets."""

import re
from collections.abc import Iterable, Sequence

from clew.core.errors import NotFound
from clew.core.patterns import compile_pattern

_WORD = re.compile(r"[^\W_]+")
_MIN_ALIKE = 0.6  # minimum difflib ratio for names with another first letter
_MIN_WORD = 2  # minimum characters of a word that two names share


def find_close_names(
    name: str, candidates: Iterable[str], *, max_names: int = 3, cutoff: float = 0.4, by_word: bool = False
) -> list[str]:
    """Find the candidates most similar to a name, nearest first, ignoring case.

    The same name in another case comes first. With `by_word`, names that contain all words of the other follow, such as
    a first and a full name. Last come names with a difflib ratio (0 to 1) of at least `cutoff`.
    """
    from difflib import get_close_matches

    wanted = name.casefold()
    folded: dict[str, list[str]] = {}
    for candidate in dict.fromkeys(candidates):
        folded.setdefault(candidate.casefold(), []).append(candidate)
    words = _split_words(wanted) if by_word else set()
    related = [each for each in folded if words and _shares_words(words, _split_words(each))]
    near = get_close_matches(wanted, folded, n=max(max_names, 1), cutoff=cutoff)
    if by_word:  # half the letters of a short name may agree by chance
        near = [each for each in near if each[:1] == wanted[:1] or _is_alike(wanted, each)]
    related.sort(key=lambda each: (near.index(each) if each in near else max_names, each))
    ranked = dict.fromkeys([*([wanted] if wanted in folded else []), *related, *near])
    return [each for fold in ranked for each in folded[fold]][:max_names]


def format_suggestion(
    name: str, candidates: Iterable[str], *, max_names: int = 3, cutoff: float = 0.4, by_word: bool = False
) -> str:
    """Format the question `did you mean a, b?` with the nearest candidates; empty if none is near."""
    near = find_close_names(name, candidates, max_names=max_names, cutoff=cutoff, by_word=by_word)
    return f"did you mean {', '.join(near)}?" if near else ""


def unknown_name_error(what: str, name: object, known: Iterable[str]) -> NotFound:
    """Make the error for an unknown name, with the nearest known name and all others."""
    names = list(known)
    near = find_close_names(str(name), names, max_names=1, cutoff=0.6)
    guess = f"; did you mean {near[0]}?" if near else "."
    return NotFound(f"there is no {what} {name!r}{guess} There are: {', '.join(names)}")


def format_names(names: Sequence[str], *, max_names: int = 3) -> str:
    """Format a list of names, and the number of those left out: `general, leads, ops and 4 more`."""
    shown = ", ".join(names[:max_names])
    return f"{shown} and {len(names) - max_names} more" if len(names) > max_names else shown


def suggest_name(what: str, name: str, known: Iterable[str], *, place: str = "") -> str:
    """Write a sentence about an unknown name (in a place), with the nearest known names, or else the first ones."""
    names = sorted(known)
    hint = format_suggestion(name, names, cutoff=0.5, by_word=True) or (
        f"there are {format_names(names)}" if names else ""
    )
    missing = f"there is no {what} {name!r}{f' {place}' if place else ''}"
    return f"{missing}; {hint}" if hint else missing


def _is_alike(some: str, other: str) -> bool:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, some, other).ratio() >= _MIN_ALIKE


def _split_words(name: str) -> set[str]:
    return {word for word in _WORD.findall(name) if len(word) >= _MIN_WORD}


def _shares_words(some: set[str], others: set[str]) -> bool:
    """Return whether all words of one name are words of the other."""
    return bool(others) and (some <= others or others <= some)


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun, singular for one: `1 document`, `2,000 documents`, `3 replies`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


HIDDEN = "********"
_USER = compile_pattern(r"(?<=://)([^:/?#@]*):[^/?#]*@")
_LOOSE = compile_pattern(r"(?<=:/)([^:/?#@]+):[^?#]*@")  # in a malformed address, everything that may be a password
_PARAMETER = compile_pattern(r"(?i)((?:^|[?&\s])[^=&?\s]*(?:password|passwd|token|secret|api_?key)[^=&?\s]*=)[^&\s]*")


def mask_secrets(address: str) -> str:
    """Replace the password and secret parameters of an address by asterisks."""
    hidden = _USER.sub(rf"\1:{HIDDEN}@", address)
    if hidden == address and re.match(r"[a-z]+:/", address, re.IGNORECASE) and "://" not in address:
        hidden = _LOOSE.sub(rf"\1:{HIDDEN}@", address)
    return _PARAMETER.sub(rf"\1{HIDDEN}", hidden)
