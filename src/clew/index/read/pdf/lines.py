"""The lines of PDF pages: what repeats on every page, words broken at line ends, and paragraphs."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from clew.index.read.blocks import Block
from clew.index.read.tables import tables

EDGE = 2  # lines at the top and bottom of a page that may be a running head or foot
REPEATED = 0.4  # of the pages, because left and right pages may differ
FEWEST = 3  # pages on which a line repeats before it is a running one
LONGEST_RUNNING = 70  # characters; what is longer is a sentence
LONGEST_HEADING = 200
_DIGITS = re.compile(r"\d+")
_MARKUP = re.compile(r"[#*_|]|</?(?:u|su[bp])>")
_TAGS = re.compile(r"</?(?:u|su[bp])>|\*\*")
# pdfium marks a hyphen that it took out at the end of a line; other hyphens there are as they were written.
_SEAM = re.compile(r"\ufffe|[-\u2010\u00ad\x02][ \t]*\r?\n[ \t]*")
_SPACED_SEAM = re.compile(r"- ")
_LAST = re.compile(r"[^\W\d_]+$")
_FIRST = re.compile(r"[^\W\d_]+")
_FAR = 40  # characters that the part of a word before a seam may have
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+|[^\W\d_]+")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"([ \t]*)([-*+•●◦▪‣○■]|\d{1,3}[.)])\s+(\S.*)")
_BULLET = re.compile(r"\s*[•●◦▪‣○■]\s*")
_CELLS = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"[\s|:-]+")
_END = re.compile(r"[.!?:;。！？؟]['\"”’)]*$")


@dataclass(frozen=True, slots=True)
class Breaks:
    """The words that line ends broke in two, and what they are when joined."""

    joins: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def joined(self, text: str) -> str:
        """The text with its broken words made whole."""
        return self._sewn(self._sewn(text, _SEAM), _SPACED_SEAM) if self.joins else text

    def _sewn(self, text: str, seam: re.Pattern[str]) -> str:
        pieces: list[str] = []
        at = 0
        for a, b in _seams(text, seam):
            whole = self.joins.get((a[0], b[0]))
            if whole is not None and a.start() >= at:
                pieces += (text[at : a.start()], whole)
                at = b.end()
        return "".join([*pieces, text[at:]])


def breaks_of(texts: Sequence[str]) -> Breaks:
    """How to join the broken words: with their hyphen if they are written so elsewhere in the document, else without.

    What looks like a name or a range (a capital or a digit after the hyphen) keeps it.
    """
    pairs = {(a[0], b[0]) for text in texts for a, b in _seams(text, _SEAM)}
    if not pairs:
        return Breaks()
    known = {word.casefold() for text in texts for word in _COMPOUND.findall(text)}
    return Breaks({(a, b): _join(a, b, known) for a, b in pairs})


def _seams(text: str, seam: re.Pattern[str]) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """The parts of words before and after each seam."""
    for found in seam.finditer(text):
        before = _LAST.search(text, max(found.start() - _FAR, 0), found.start())
        after = _FIRST.match(text, found.end())
        if before is not None and after is not None:
            yield before, after


def _join(a: str, b: str, known: set[str]) -> str:
    if f"{a}-{b}".casefold() in known and f"{a}{b}".casefold() not in known:
        return f"{a}-{b}"
    return f"{a}{b}" if b[0].islower() or f"{a}{b}".casefold() in known else f"{a}-{b}"


def running(texts: Sequence[str]) -> Mapping[str, int]:
    """The lines that stand at the edge of many pages, numbers aside, with the first page that has each.

    A line that also stands inside of pages is part of what they say.
    """
    pages = [[line for line in text.splitlines() if line.strip()] for text in texts]
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for page, lines in enumerate(pages):
        for key in {_key(line) for line in (*lines[:EDGE], *lines[-EDGE:]) if len(line) <= LONGEST_RUNNING}:
            counts[key] += 1
            first.setdefault(key, page)
    enough = max(FEWEST, REPEATED * sum(map(bool, pages)))
    often = {key for key, count in counts.items() if count >= enough and key}
    inside = (line for lines in pages for line in lines[EDGE:-EDGE] if len(line) <= LONGEST_RUNNING) if often else ()
    return {key: first[key] for key in often - set(map(_key, inside))}


def edges(text: str, kept: Mapping[str, int], page: int) -> list[str]:
    """The lines at the top and bottom of a page that repeat one of an earlier page."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] if kept else []
    edge = lines if len(lines) <= 2 * EDGE else [*lines[:EDGE], *lines[-EDGE:]]
    gone = [line for line in edge if kept.get(_key(line), page) < page]
    return gone if 2 * sum(map(len, gone)) <= sum(map(len, lines)) else []  # else it is what the page says


def without(text: str, gone: Sequence[str]) -> str:
    """The text of a page without those lines at its beginning and its end, in whatever line they stand there."""
    for _ in gone:  # outer lines first: only then do inner ones stand at the edge
        for line in gone:
            words = r"\s+".join(map(re.escape, line.split()))
            text = re.sub(rf"\A[#*\s]*{words}(?!\w)[*]*\s*", "", text)
            if tail := re.search(rf"\s*[#*]*(?<!\w){words}[*\s]*\Z", text[-2 * len(line) - 40 :]):
                text = text[: len(text) - (len(tail[0]))]
    return text


def _key(line: str) -> str:
    return " ".join(_DIGITS.sub("#", _MARKUP.sub("", line)).split()).casefold()


def structured_blocks(markdown: str, *, page: int) -> Iterator[Block]:
    """The blocks of pdf-inspector's markdown, which knows only a few forms: read by lines, many times faster."""
    lines = _TAGS.sub("", markdown).split("\n")
    paragraph: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        heading = _HEADING.fullmatch(line)
        item = None if heading else _ITEM.fullmatch(line)
        is_special = heading or item or line.startswith(("|", "```")) or not line.strip()
        if not is_special:
            paragraph.append(line)
            continue
        if paragraph:
            yield Block("paragraph", "\n".join(paragraph), page=page)
            paragraph = []
        if heading:
            yield _heading(heading[2], len(heading[1]), page)
        elif item:
            mark = item[2] if item[2][0].isdigit() else ""
            yield Block("list_item", item[3], level=len(item[1].expandtabs(2)) // 2, page=page, mark=mark)
        elif line.startswith("|"):
            rows = [line]
            while at < len(lines) and lines[at].startswith("|"):
                rows.append(lines[at])
                at += 1
            yield from tables((_cells(row) for row in rows if not _RULE.fullmatch(row)), page=page)
        elif line.startswith("```"):
            end = next((i for i in range(at, len(lines)) if lines[i].startswith("```")), len(lines))
            yield Block("code", "\n".join(lines[at:end]), page=page, mark=line.strip("` "))
            at = end + 1
    if paragraph:
        yield Block("paragraph", "\n".join(paragraph), page=page)


def _heading(text: str, level: int, page: int) -> Block:
    """A heading, unless it is one in size only: a bullet, a number, or a whole paragraph in large type."""
    if bullet := _BULLET.match(text):
        return Block("list_item", text[bullet.end() :], page=page)
    is_heading = len(text) <= LONGEST_HEADING and sum(map(str.isalpha, text)) > 1
    return Block("heading", text, level=level, page=page) if is_heading else Block("paragraph", text, page=page)


def _cells(row: str) -> list[str]:
    return [cell.replace("\\|", "|").strip() for cell in _CELLS.split(row.strip().removeprefix("|").removesuffix("|"))]


def raw_blocks(text: str, *, page: int) -> Iterator[Block]:
    """The paragraphs of raw text: one ends where a line ends a sentence and is shorter than most lines."""
    lines = [line.strip() for line in text.splitlines()]
    full = sorted(map(len, filter(None, lines)))
    usual = full[len(full) * 3 // 4] if full else 0
    paragraph: list[str] = []
    for line in lines:
        bullet = _BULLET.match(line)
        if paragraph and (bullet or not line or _is_last(paragraph[-1], usual)):
            yield _raw_block(paragraph, page)
            paragraph = []
        if line:
            paragraph.append(line)
    if paragraph:
        yield _raw_block(paragraph, page)


def _is_last(line: str, usual: int) -> bool:
    return len(line) < 0.8 * usual and _END.search(line) is not None


def _raw_block(lines: list[str], page: int) -> Block:
    if bullet := _BULLET.match(lines[0]):
        return Block("list_item", "\n".join([lines[0][bullet.end() :], *lines[1:]]), page=page)
    return Block("paragraph", "\n".join(lines), page=page)
