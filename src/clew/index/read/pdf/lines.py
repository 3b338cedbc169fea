"""Lines of PDF pages: running heads and feet, hyphenated words, paragraphs, tables and prose in columns."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clew.core.time import parse_iso_or_none
from clew.index.read.blocks import MAX_HEADING_LEVEL, SourceBlock, split_large_table

EDGE_LINES = 2  # lines at the top and bottom of a page that may be running heads or feet
MIN_PAGE_SHARE = 0.4  # of pages with a running line; below one half, because left and right pages may differ
MIN_PAGES = 3  # pages that must have a running line
MAX_RUNNING_CHARS = 70  # a longer line is a sentence
MAX_HEADING_CHARS = 200
_DIGITS = re.compile(r"\d+")
_MARKUP = re.compile(r"[#*_|]|</?(?:u|su[bp])>")
_TAGS = re.compile(r"</?(?:u|su[bp])>|\*\*")
# pdfium marks a hyphen that it removed at the end of a line, and keeps other hyphens there.
_SEAM = re.compile(r"\ufffe|[-\u2010\u00ad\x02][ \t]*\r?\n[ \t]*")
_SPACED_SEAM = re.compile(r"- ")
_LAST_WORD = re.compile(r"[^\W\d_]+$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_MAX_HALF_CHARS = 40  # of a word before a seam
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+|[^\W\d_]+")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
# Check boxes, and private and control characters that stand for marks of symbol fonts.
_MARKS = r"☐☑☒□❏❐❑❒\ue000-\uf8df\ufffd\x80-\x84\x86-\x9f"
_ITEM = re.compile(rf"([ \t]*)([-*+•●◦▪‣○■]|\d{{1,3}}[.)]|[{_MARKS}]+(?=\s*[^\W_]))\s+(\S.*)")
_BULLET = re.compile(rf"\s*(?:[•●◦▪‣○■]|[{_MARKS}]+)\s*")
_NEXT_MARK = re.compile(rf"\s+(?=[{_MARKS}]+\s*[^\W\d_])")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_TABLE_RULE = re.compile(r"[\s|:-]+")
_SENTENCE_END = re.compile(r"[.!?:;。！？؟]['\"”’)]*$")
MIN_COLUMN_ROWS = 4  # of a table that may be columns of prose
MAX_COLUMNS = 3
MIN_PROSE_CHARS = 20  # median of the cells in a column of prose
MIN_CONTINUED_SHARE = 0.5  # share of its cells that continue the sentence of the cell above
_NUMBERED = re.compile(r"(?:\d+(?:\.\d+)*\.?|[IVX]+\.|[A-Z]\.\d*)\s+\S")
_NAMED = re.compile(
    r"(?:chapter|part|section|appendix|abstract|introduction|summary|contents|preface|foreword|references|kapitel|teil"
    r"|chapitre|partie|capítulo|anhang|annexe)\b",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"(?:D:)?(?P<year>\d{4})(?P<month>\d\d)?(?P<day>\d\d)?(?P<hour>\d\d)?(?P<minute>\d\d)?(?P<second>\d\d)?"
    r"(?:Z|(?P<sign>[+-])(?P<ahead>\d\d)'?(?P<more>\d\d)?)?"
)
_CONTINUED = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class HyphenJoins:
    """The words hyphenated at line ends, by their two halves."""

    joins: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def join_hyphenated_words(self, text: str) -> str:
        """Join the hyphenated words of a text."""
        return self._join_at_seam(self._join_at_seam(text, _SEAM), _SPACED_SEAM) if self.joins else text

    def _join_at_seam(self, text: str, seam: re.Pattern[str]) -> str:
        pieces: list[str] = []
        at = 0
        for a, b in _find_hyphen_seams(text, seam):
            whole = self.joins.get((a[0], b[0]))
            if whole is not None and a.start() >= at:
                pieces += (text[at : a.start()], whole)
                at = b.end()
        return "".join([*pieces, text[at:]])


def find_hyphen_joins(texts: Sequence[str]) -> HyphenJoins:
    """Find how to join hyphenated words: with the hyphen if written so elsewhere, else without.

    A likely name (a capital after the hyphen) keeps its hyphen.
    """
    pairs = {(a[0], b[0]) for text in texts for a, b in _find_hyphen_seams(text, _SEAM)}
    if not pairs:
        return HyphenJoins()
    known = {word.casefold() for text in texts for word in _COMPOUND.findall(text)}
    return HyphenJoins({(a, b): _join_word_halves(a, b, known) for a, b in pairs})


def _find_hyphen_seams(text: str, seam: re.Pattern[str]) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """Yield the halves of the word at each seam."""
    for found in seam.finditer(text):
        before = _LAST_WORD.search(text, max(found.start() - _MAX_HALF_CHARS, 0), found.start())
        after = _FIRST_WORD.match(text, found.end())
        if before is not None and after is not None:
            yield before, after


def _join_word_halves(a: str, b: str, known: set[str]) -> str:
    if f"{a}-{b}".casefold() in known and f"{a}{b}".casefold() not in known:
        return f"{a}-{b}"
    return f"{a}{b}" if b[0].islower() or f"{a}{b}".casefold() in known else f"{a}-{b}"


def find_running_lines(texts: Sequence[str]) -> Mapping[str, int]:
    """Find the lines at the edge of many pages, ignoring numbers; return the first page of each.

    A line that also occurs inside pages is content.
    """
    pages = [[line for line in text.splitlines() if line.strip()] for text in texts]
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for page, lines in enumerate(pages):
        for key in {
            _normalise_line(line)
            for line in (*lines[:EDGE_LINES], *lines[-EDGE_LINES:])
            if len(line) <= MAX_RUNNING_CHARS
        }:
            counts[key] += 1
            first.setdefault(key, page)
    min_count = max(MIN_PAGES, MIN_PAGE_SHARE * sum(map(bool, pages)))
    frequent = {key for key, count in counts.items() if count >= min_count and key}
    inside = (
        (line for lines in pages for line in lines[EDGE_LINES:-EDGE_LINES] if len(line) <= MAX_RUNNING_CHARS)
        if frequent
        else ()
    )
    return {key: first[key] for key in frequent - set(map(_normalise_line, inside))}


def match_running_lines(text: str, running_lines: Mapping[str, int], page: int) -> list[str]:
    """Return the lines at the top and bottom of a page that repeat a running line of an earlier page."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] if running_lines else []
    edge = lines if len(lines) <= 2 * EDGE_LINES else [*lines[:EDGE_LINES], *lines[-EDGE_LINES:]]
    dropped = [line for line in edge if running_lines.get(_normalise_line(line), page) < page]
    return (
        dropped if 2 * sum(map(len, dropped)) <= sum(map(len, lines)) else []
    )  # else they are the content of the page


def remove_edge_lines(text: str, dropped: Sequence[str]) -> str:
    """Remove these lines from the beginning and end of a page, even if line breaks differ."""
    for _ in dropped:  # outer lines first: only then are inner ones at the edge
        for line in dropped:
            words = r"\s+".join(map(re.escape, line.split()))
            text = re.sub(rf"\A[#*\s]*{words}(?!\w)[*]*\s*", "", text)
            if tail := re.search(rf"\s*[#*]*(?<!\w){words}[*\s]*\Z", text[-2 * len(line) - 40 :]):
                text = text[: len(text) - (len(tail[0]))]
    return text


def _normalise_line(line: str) -> str:
    return " ".join(_DIGITS.sub("#", _MARKUP.sub("", line)).split()).casefold()


def parse_structured_page(markdown: str, *, page: int) -> Iterator[SourceBlock]:
    """Yield the blocks of pdf-inspector's markdown, by line rules: it is simple, and they are faster than a parser."""
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
            yield SourceBlock("paragraph", "\n".join(paragraph), page=page)
            paragraph = []
        if heading:
            yield from _make_heading(heading[2], len(heading[1]), page)
        elif item and _BULLET.match(item[2]):
            yield from _split_marked_items(line, page)
        elif item:
            marker = item[2] if item[2][0].isdigit() else ""
            yield SourceBlock("list_item", item[3], level=len(item[1].expandtabs(2)) // 2, page=page, marker=marker)
        elif line.startswith("|"):
            rows = [line]
            while at < len(lines) and lines[at].startswith("|"):
                rows.append(lines[at])
                at += 1
            cells = [_split_cells(row) for row in rows if not _TABLE_RULE.fullmatch(row)]
            if is_prose_in_columns(cells):
                yield from read_columns(cells, page=page)
            else:
                yield from split_large_table(cells, page=page)
        elif line.startswith("```"):
            end = next((i for i in range(at, len(lines)) if lines[i].startswith("```")), len(lines))
            yield SourceBlock("code", "\n".join(lines[at:end]), page=page, marker=line.strip("` "))
            at = end + 1
    if paragraph:
        yield SourceBlock("paragraph", "\n".join(paragraph), page=page)


def _make_heading(text: str, level: int, page: int) -> Iterator[SourceBlock]:
    """Yield a heading, or if it is only large type, a list item or paragraph."""
    if _BULLET.match(text):
        yield from _split_marked_items(text, page)
    elif len(text) <= MAX_HEADING_CHARS and sum(map(str.isalpha, text)) > 1:
        yield SourceBlock("heading", text, level=level, page=page)
    else:
        yield SourceBlock("paragraph", text, page=page)


def _split_marked_items(text: str, page: int) -> Iterator[SourceBlock]:
    """Yield the items of a line that begins with a bullet or a check box; a line may have several."""
    depth = len(text) - len(text.lstrip())
    for item in _NEXT_MARK.split(text.strip()):
        yield SourceBlock("list_item", _BULLET.sub("", item, count=1), level=depth // 2, page=page)


def _split_cells(row: str) -> list[str]:
    return [
        cell.replace("\\|", "|").strip() for cell in _CELL_BORDER.split(row.strip().removeprefix("|").removesuffix("|"))
    ]


def measure_usual_line(lines: Sequence[str]) -> int:
    """Estimate the characters of a full line."""
    full = sorted(map(len, filter(None, lines)))
    return full[len(full) * 3 // 4] if full else 0


def parse_raw_page(text: str, *, page: int, usual: int | None = None) -> Iterator[SourceBlock]:
    """Yield the paragraphs of raw text: a short line that ends a sentence ends its paragraph."""
    lines = [line.strip() for line in text.splitlines()]
    usual = measure_usual_line(lines) if usual is None else usual
    paragraph: list[str] = []
    for line in lines:
        bullet = _BULLET.match(line)
        if paragraph and (bullet or not line or _is_paragraph_end(paragraph[-1], usual)):
            yield _make_raw_block(paragraph, page)
            paragraph = []
        if line:
            paragraph.append(line)
    if paragraph:
        yield _make_raw_block(paragraph, page)


def _is_paragraph_end(line: str, usual: int) -> bool:
    return len(line) < 0.8 * usual and _SENTENCE_END.search(line) is not None


def _make_raw_block(lines: list[str], page: int) -> SourceBlock:
    if bullet := _BULLET.match(lines[0]):
        return SourceBlock("list_item", "\n".join([lines[0][bullet.end() :], *lines[1:]]), page=page)
    return SourceBlock("paragraph", "\n".join(lines), page=page)


def parse_pdf_date(text: str) -> str:
    """Convert a date of PDF metadata (D:20240131120000+01'00') to ISO 8601; empty if it is not a date."""
    found = _DATE.match(text)
    if found is None:
        return ""
    year, month, day = found["year"], found["month"] or "01", found["day"] or "01"
    clock = ":".join((found["hour"] or "00", found["minute"] or "00", found["second"] or "00"))
    zone = f"{found['sign']}{found['ahead']}:{found['more'] or '00'}" if found["sign"] else "+00:00"
    at = parse_iso_or_none(f"{year}-{month}-{day}T{clock}{zone}")
    return at.isoformat() if at else ""


def raise_title(blocks: Sequence[SourceBlock]) -> Sequence[SourceBlock]:
    """Return the blocks with the opening heading raised above the chapters, if it is a title in smaller type.

    It is a title if text follows it, the next heading is a chapter, and there are at least two chapters.
    """
    headings = [block for block in blocks if block.kind == "heading"]
    if len(blocks) < 2 or blocks[0].kind != "heading" or blocks[1].kind == "heading":
        return blocks
    title, top = blocks[0], min(heading.level for heading in headings)
    chapters = sum(heading.level == top for heading in headings)
    is_named = _NUMBERED.match(title.text) or _NAMED.match(title.text)
    if title.level == top or chapters < 2 or headings[1].level != top or is_named:
        return blocks
    deeper = (
        replace(block, level=min(block.level - top + 2, MAX_HEADING_LEVEL)) if block.kind == "heading" else block
        for block in blocks[1:]
    )
    return [replace(title, level=1), *deeper]


def is_prose_in_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table is really prose in columns: long cells whose sentences continue in the next row."""
    width = max(map(len, rows), default=0)
    if len(rows) < MIN_COLUMN_ROWS or not 2 <= width <= MAX_COLUMNS:
        return False
    columns = [[row[at] if at < len(row) else "" for row in rows] for at in range(width)]
    return all(_is_prose(column) for column in columns)


def _is_prose(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    sizes = sorted(map(len, filled))
    if len(filled) < MIN_COLUMN_ROWS or sizes[len(sizes) // 2] < MIN_PROSE_CHARS:
        return False
    continued = sum(
        bool(_CONTINUED.match(cell)) and cell[0].islower() and before[-1] not in ".!?:;"
        for before, cell in itertools.pairwise(filled)
    )
    return continued >= MIN_CONTINUED_SHARE * (len(filled) - 1)


def read_columns(rows: Sequence[Sequence[str]], *, page: int) -> Iterator[SourceBlock]:
    """Yield the text of each column as a paragraph."""
    for at in range(max(map(len, rows), default=0)):
        lines = [row[at] for row in rows if at < len(row) and row[at]]
        if lines:
            yield SourceBlock("paragraph", "\n".join(lines), page=page)
