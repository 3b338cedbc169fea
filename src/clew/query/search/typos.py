"""Typing errors: the words that a misspelt one may be."""

from collections.abc import Iterator, Sequence
from string import ascii_lowercase

MIN_LETTERS = 4  # of a word that is corrected: shorter ones are like too many others, …
MIN_REPLACED = 6  # … and so are those of which any letter may be another
MIN_TWICE = 7  # of one that may have two errors


def list_edits(word: str) -> list[str]:
    """The words at one edit from a word, a short one at one slip.

    Damerau, "A Technique for Computer Detection and Correction of Spelling Errors", 1964.
    """
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)] if len(word) >= MIN_REPLACED else []
    replaced = [a + letter + b[1:] for a, b in splits if b for letter in ascii_lowercase]
    inserted = [a + letter + b for a, b in splits for letter in ascii_lowercase]
    return [*dict.fromkeys([*_slip(word), *replaced, *inserted])]


def list_two_edits(word: str) -> list[str]:
    """The words at two slips from a word: letters left out, doubled, or exchanged with the next one."""
    return [*dict.fromkeys(twice for once in _slip(word) for twice in _slip(once))] if len(word) >= MIN_TWICE else []


def _slip(word: str) -> Iterator[str]:
    """The words with one letter less, one doubled, or two exchanged."""
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]
        yield word[: at + 1] + word[at:]
        yield word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]


def is_correctable(word: str) -> bool:
    """Whether a word is one of letters that people mistype: in others, an edit is mostly another word."""
    return len(word) >= MIN_LETTERS and word.isascii() and word.isalpha()


def replace_words(text: str, words: Sequence[tuple[str, str]]) -> str:
    """The text with words replaced, whatever their case."""
    spoken = text.split()
    for old, new in words:
        spoken = [each.lower().replace(old, new) if old in each.lower() else each for each in spoken]
    return " ".join(spoken)
