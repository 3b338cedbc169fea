"""Repairs of the structured text of a page by its raw lines: split words, headings run into text, repeated rows."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from clew.index.read.blocks import SourceBlock

MAX_HEADING_SHARE = 0.75  # of a full line that a heading run into text may fill
MAX_TITLE_CHARS = 200
_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_NUMBERED = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,3}\.?\s+[^\W\d_]")


def join_split_words(structured: str, raw: str) -> str:
    """The structured text with words made whole that a narrow gap has split, where the raw text has them whole."""
    there = _WORD.findall(raw)
    missing = Counter(there) - Counter(_WORD.findall(structured))
    if not missing:
        return structured
    adjacent = set(pairwise(there))
    parts: list[str] = []
    at = 0
    for first, second in pairwise(_LETTERS.finditer(structured)):
        whole = first[0] + second[0]
        is_split = first.start() >= at and structured[first.end() : second.start()] == " " and missing[whole] > 0
        if is_split and (first[0], second[0]) not in adjacent:
            parts += (structured[at : first.start()], whole)
            at = second.end()
            missing[whole] -= 1
    return "".join([*parts, structured[at:]])


def split_off_headings(blocks: Iterable[SourceBlock], lines: Sequence[str], usual: int) -> Iterator[SourceBlock]:
    """The blocks, with a numbered title at the beginning of a paragraph as a heading: it is a short line of its own."""
    short = {
        " ".join(line.split()): below.split()[0]
        for line, below in pairwise(lines)
        if _NUMBERED.match(line) and len(line) <= MAX_HEADING_SHARE * usual and line.rstrip()[-1].isalnum() and below
    }
    for block in blocks:
        words = block.text[:MAX_TITLE_CHARS].split() if short and block.kind == "paragraph" else []
        title = next((title for title in _list_beginnings(words) if title in short), "")
        rest = block.text.split(maxsplit=len(title.split()))[-1] if title else ""
        if rest.split(maxsplit=1)[:1] == [short.get(title, "")] and rest[0].isupper():
            yield replace(block, kind="heading", text=title, level=title.split()[0].strip(".").count(".") + 1)
            yield replace(block, text=rest)
        else:
            yield block


def _list_beginnings(words: Sequence[str]) -> Iterator[str]:
    """The first two words, the first three, and so on to the first twenty."""
    return (" ".join(words[:count]) for count in range(2, min(len(words), 20)))


def drop_repeated_headers(blocks: Iterable[SourceBlock]) -> Iterator[SourceBlock]:
    """The blocks without a paragraph that repeats the header of the table above it."""
    header: list[str] = []
    for block in blocks:
        if block.kind == "paragraph" and len(header) > 1 and _WORD.findall(block.text) == header:
            header = []
            continue
        header = _WORD.findall(block.text.split("\n", 1)[0]) if block.kind == "table" else []
        yield block
