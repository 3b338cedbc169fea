"""Repairs of the structured text of a page by its raw lines: split words, headings run into text, and reading order.

A file almost always states its lines in the order in which they are read. Text that was read across columns keeps the
words of a line together but tears each line from the one below it, so the ends of lines show it, on the shortest page
too.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import pairwise

from clew.index.read.blocks import SourceBlock
from clew.index.read.pdf.lines import measure_usual_line, parse_raw_page

MAX_HEADING_SHARE = 0.75  # of a full line that a heading run into text may fill
MAX_TITLE_CHARS = 200
_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_NUMBERED = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,3}\.?\s+[^\W\d_]")
MIN_LINE_WORDS = 4  # of a line of prose; shorter ones are cells and labels
MIN_LINE_ENDS = 2  # between lines of prose, before they tell the order
MIN_KEPT_LINE_ENDS = 0.75  # share of them at which the structured text goes on with the line below
MAX_LINES = 3_000  # of a page that is laid out again
MAX_HEADINGS = 300


def join_split_words(structured: str, raw: str) -> str:
    """Join words that a narrow gap has split in the structured text, where the raw text has them whole."""
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
    """Yield the blocks, with a numbered title at the start of a paragraph as a heading.

    It is a short line of its own.
    """
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
    """List the first two words, the first three, and so on to the first twenty."""
    return (" ".join(words[:count]) for count in range(2, min(len(words), 20)))


def drop_repeated_headers(blocks: Iterable[SourceBlock]) -> Iterator[SourceBlock]:
    """Yield the blocks without a paragraph that repeats the header of the table above it."""
    header: list[str] = []
    for block in blocks:
        if block.kind == "paragraph" and len(header) > 1 and _WORD.findall(block.text) == header:
            header = []
            continue
        header = _WORD.findall(block.text.split("\n", 1)[0]) if block.kind == "table" else []
        yield block


def reads_across_columns(raw: str, structured: str) -> bool:
    """Return whether the structured text goes on elsewhere at the end of many a line of prose."""
    lines = [_WORD.findall(line) for line in raw.splitlines()]
    ends = [(line[-1], below[0]) for line, below in pairwise(lines) if min(len(line), len(below)) >= MIN_LINE_WORDS]
    inside = Counter(pair for line in lines for pair in pairwise(line))
    kept = (Counter(ends) & (Counter(pairwise(_WORD.findall(structured))) - inside)).total()
    return len(ends) >= MIN_LINE_ENDS and kept < MIN_KEPT_LINE_ENDS * len(ends)


def order_by_raw_lines(blocks: Sequence[SourceBlock], text: str, *, page: int) -> Iterator[SourceBlock]:
    """Yield the raw text of a page with its headings, tables and code, each where its lines are."""
    lines = [line.strip() for line in text.splitlines()]
    whole = {_join_words(_WORD.findall(line)) for line in lines}
    parts = [_Part(block) for block in blocks if block.kind == "heading" or _has_whole_lines(block, whole)]
    if len(lines) > MAX_LINES or len(parts) > MAX_HEADINGS:
        yield from parse_raw_page(text, page=page)
        return
    usual = measure_usual_line(lines)
    prose: list[str] = []
    heading: SourceBlock | None = None
    for line in lines:
        words = _WORD.findall(line)
        part = next((part for part in parts if part.take(words)), None) if words else None
        if heading is not None and (part is None or part.block.kind != "heading" or not _goes_on(heading, part, line)):
            yield heading
            heading = None
        if part is None:
            prose.append(line)
            continue
        yield from parse_raw_page("\n".join(prose), page=page, usual=usual)
        prose = []
        if part.block.kind == "heading":
            heading = replace(heading or part.block, text=f"{heading.text} {line}" if heading else line)
        elif part.is_first:
            yield part.block
    if heading is not None:
        yield heading
    yield from parse_raw_page("\n".join(prose), page=page, usual=usual)


def _has_whole_lines(block: SourceBlock, lines: Set[str]) -> bool:
    """Return whether each row of a table or line of code is a line of the page.

    Otherwise it may be torn out of columns.
    """
    if block.kind not in ("table", "code"):
        return False
    rows = (_WORD.findall(row) for row in block.text.splitlines())
    return all(_join_words(row) in lines for row in rows if row)


def _goes_on(heading: SourceBlock, part: "_Part", line: str) -> bool:
    """Return whether a heading goes on in the line below it.

    It was found as one, or the line begins with a small letter.
    """
    return part.block.level == heading.level and (part.goes_on or line[:1].islower())


class _Part:
    """A block of the structure, and the words of it that no line has taken yet."""

    def __init__(self, block: SourceBlock) -> None:
        self.block = block
        self.is_first = True
        self.goes_on = False
        self._text = _join_words(_WORD.findall(block.text))
        self._end = -1
        self._left = Counter(_WORD.findall(block.text))
        self._taken = False

    def take(self, words: Sequence[str]) -> bool:
        """Return whether a line with these words is of this block; they are taken then."""
        if not self._left.total() or any(word not in self._left for word in words):
            return False
        run = _join_words(words)
        begin = self._text.find(run)
        if begin < 0 or not Counter(words) <= self._left:
            return False
        self.is_first, self._taken = not self._taken, True
        self.goes_on = begin == self._end
        self._end = begin + len(run) - 1
        self._left -= Counter(words)
        return True


def _join_words(words: Sequence[str]) -> str:
    return f" {' '.join(words)} "
