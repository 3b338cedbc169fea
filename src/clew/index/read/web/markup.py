"""The walk over a parsed HTML page: elements become blocks."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.index.read.blocks import Block, one_line
from clew.index.read.tables import tables

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

DEEPEST = 150  # elements inside one another; what is deeper is taken as plain text
MAX_SPAN = 1_000  # columns or rows that one cell may claim, as browsers have it
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_DROPPED = frozenset(
    re.split(
        r"\s+",
        "script style noscript template head svg canvas iframe object embed audio video map dialog button "
        "select option datalist textarea input -comment link meta title",
    )
)
_ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "menu", "menubar", "toolbar", "complementary"})
_CONTENT = frozenset({"main", "article", "section", "blockquote", "figure", "td", "li"})
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:language|lang|highlight-source|brush:)[-\s:]*([\w+#.-]+)")
_INLINE = frozenset(
    re.split(
        r"\s+",
        "-text a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark math output q "
        "ruby rb rt rp s samp small span strike strong sub sup time tt u var wbr picture source",
    )
)
_BLANK = re.compile(r"[ \t\r\f\v]*\n[ \t\r\f\v]*|[ \t\r\f\v]+")


def flow(node: "LexborNode", *, everything: bool = False) -> Iterator[Block]:
    """The blocks below an element in order; `everything` keeps what else would be taken for navigation."""
    yield from _Flow(everything=everything).children(node, depth=0)


class _Flow:
    """One walk: it knows how deep in lists and in content it stands."""

    def __init__(self, *, everything: bool) -> None:
        self._everything = everything
        self._lists = 0
        self._content = 0

    def children(self, node: "LexborNode", *, depth: int) -> Iterator[Block]:
        """The blocks of the children; neighbours that are inline make one paragraph."""
        runs: list[str] = []
        for child in node.iter(include_text=True):
            if self._is_inline(child, depth):
                runs.append(self._inline(child, depth=depth + 1))
                continue
            yield from self._paragraph(runs)
            runs = []
            if not self._is_dropped(child):
                yield from self._block(child, depth=depth + 1)
        yield from self._paragraph(runs)

    def _paragraph(self, runs: list[str]) -> Iterator[Block]:
        if text := _tidy("".join(runs)):
            yield Block("paragraph", text)

    def _is_inline(self, node: "LexborNode", depth: int) -> bool:
        """Whether it is part of a line: an inline element, unless a block stands in it."""
        if node.tag not in _INLINE:
            return False
        if node.tag in ("-text", "br", "img", "math", "code") or depth > DEEPEST:
            return True
        return all(self._is_inline(child, depth + 1) or child.tag in _DROPPED for child in node.iter(include_text=True))

    def _is_dropped(self, node: "LexborNode") -> bool:
        tag = node.tag or ""
        if tag in _DROPPED:
            return True
        attributes = node.attributes
        if "hidden" in attributes or attributes.get("aria-hidden") == "true":
            return True
        if _HIDDEN.search(attributes.get("style") or ""):
            return True
        if self._everything:
            return False
        if (attributes.get("role") or "") in _ROLES:
            return True
        if tag in ("nav", "menu"):
            return True
        if tag in ("footer", "aside"):
            return not self._content
        return tag == "header" and not self._content and node.css_first("h1, h2") is None

    def _block(self, node: "LexborNode", *, depth: int) -> Iterator[Block]:
        tag = node.tag or ""
        if depth > DEEPEST:
            yield from self._paragraph([node.text(deep=True, separator=" ")])
        elif tag in _HEADINGS:
            yield Block("heading", self._line(node, depth=depth), level=_HEADINGS[tag])
        elif tag == "pre":
            yield Block("code", node.text(deep=True), mark=_language(node))
        elif tag in ("ul", "ol", "dl"):
            yield from self._list(node, depth=depth)
        elif tag == "table":
            yield from self._table(node, depth=depth)
        elif tag == "blockquote":
            for block in self._inside(node, depth=depth):
                yield replace(block, kind="quote") if block.kind == "paragraph" else block
        elif tag in ("figcaption", "caption", "legend"):
            yield Block("caption", self._line(node, depth=depth))
        elif tag in _CONTENT:
            yield from self._inside(node, depth=depth)
        else:
            yield from self.children(node, depth=depth)

    def _inside(self, node: "LexborNode", *, depth: int) -> Iterator[Block]:
        self._content += 1
        yield from self.children(node, depth=depth)
        self._content -= 1

    def _list(self, node: "LexborNode", *, depth: int) -> Iterator[Block]:
        number = _whole(node.attributes.get("start"), 1) if node.tag == "ol" else None
        self._lists += 1
        for child in node.iter():
            if self._is_dropped(child):
                continue
            if child.tag in ("li", "dt", "dd"):
                yield from self._item(child, number, depth=depth + 1)
                number = None if number is None else number + 1
            elif child.tag in ("ul", "ol", "dl"):
                yield from self._list(child, depth=depth + 1)
            else:  # a div around the terms of a description list, or anything else that should not be here
                yield from self._list(child, depth=depth + 1) if node.tag == "dl" else self._block(child, depth=depth)
        self._lists -= 1

    def _item(self, node: "LexborNode", number: int | None, *, depth: int) -> Iterator[Block]:
        """The item with its first paragraph, then what else stands in it: deeper lists, tables, code."""
        level = self._lists - 1 + (node.tag == "dd")
        mark = "" if number is None else f"{_whole(node.attributes.get('value'), number)}."
        is_first = True
        for block in self._inside(node, depth=depth):
            if block.kind == "paragraph":
                yield Block(
                    "list_item", block.text, level=level if is_first else level + 1, mark=mark if is_first else ""
                )
                is_first = False
            elif block.kind == "list_item" and is_first:
                yield replace(block, level=max(block.level - 1, 0))
            else:
                yield block

    def _table(self, node: "LexborNode", *, depth: int) -> Iterator[Block]:
        rows = list(_rows(node))
        cells = [cell for row in rows for cell in row.iter() if cell.tag in ("td", "th")]
        if len(cells) <= 1 or (node.attributes.get("role") or "") in ("presentation", "none"):
            for child in cells:
                yield from self._inside(child, depth=depth)
            return
        for child in node.iter():
            if child.tag == "caption":
                yield Block("caption", self._line(child, depth=depth))
        grid = _grid([[(self._line(cell, depth=depth), *_spans(cell)) for cell in _cells(row)] for row in rows])
        yield from tables(grid, header=_header(rows, max(map(len, grid), default=0)))

    def _line(self, node: "LexborNode", *, depth: int) -> str:
        """All words below an element on one line: blocks are set apart by a space."""
        return one_line(self._inline(node, depth=depth, apart=" "))

    def _inline(self, node: "LexborNode", *, depth: int, apart: str = "") -> str:
        tag = node.tag
        if tag == "-text":
            return _BLANK.sub(" ", node.text(deep=False))
        if tag == "br":
            return "\n"
        if tag == "img":
            return f" {node.attributes.get('alt') or ''} "
        if self._is_dropped(node):
            return ""
        if tag == "math":
            return _formula(node)
        if depth > DEEPEST:
            return node.text(deep=True, separator=" ")
        text = "".join(self._inline(child, depth=depth + 1, apart=apart) for child in node.iter(include_text=True))
        if tag == "code" and text.strip() and "`" not in text and "\n" not in text:
            return f"`{text.strip()}`"
        return text if tag in _INLINE else f"{apart}{text}{apart}"


def _tidy(text: str) -> str:
    """The lines of a paragraph without the white space that no browser shows."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))


def _language(node: "LexborNode") -> str:
    """The language that the classes of a code block, of its <code> or of what holds it, name."""
    inner = node.css_first("code")
    for element in (inner, node, node.parent):
        if element is not None:
            classes = element.attributes.get("class") or ""
            if found := element.attributes.get("data-lang") or element.attributes.get("data-language"):
                return found
            if match := _LANGUAGE.search(classes):
                return match[1]
    return ""


def _formula(node: "LexborNode") -> str:
    tex = node.attributes.get("alttext") or ""
    source = node.css_first("annotation[encoding='application/x-tex']")
    if source is not None:
        tex = source.text(deep=True)
    return f"${one_line(tex)}$" if tex.strip() else f" {one_line(node.text(deep=True, separator=' '))} "


def _rows(table: "LexborNode") -> Iterator["LexborNode"]:
    """The rows of a table, not those of a table inside it."""
    for child in table.iter():
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in child.iter() if row.tag == "tr")


def _cells(row: "LexborNode") -> list["LexborNode"]:
    return [cell for cell in row.iter() if cell.tag in ("td", "th")]


def _header(rows: list["LexborNode"], width: int) -> int:
    """How many rows head the columns: the first, and the next ones that are headers over half of the width."""
    header = 1
    for row in rows[1:-1]:
        cells = _cells(row)
        if not cells or any(cell.tag != "th" for cell in (*cells, *_cells(rows[0]))) or 2 * len(cells) < width:
            break
        header += 1
    return header


def _spans(cell: "LexborNode") -> tuple[int, int]:
    attributes: Mapping[str, str | None] = cell.attributes
    columns, rows = (_whole(attributes.get(name), 1) for name in ("colspan", "rowspan"))
    return min(max(columns, 1), MAX_SPAN), min(max(rows, 1), MAX_SPAN)


def _grid(rows: list[list[tuple[str, int, int]]]) -> list[list[str]]:
    """The cells by row and column: one that spans several stands in each of them, as far as there is room."""
    room = 10_000 + 20 * sum(map(len, rows))  # a page can claim far more than it holds
    grid: list[list[str]] = []
    hanging: dict[int, tuple[str, int]] = {}  # by column: the text of a cell above, and the rows that it still fills
    for row in rows:
        line: list[str] = []
        below: dict[int, tuple[str, int]] = {}
        for text, columns, high in [*row, ("", 0, 0)]:
            while (above := hanging.get(len(line))) is not None:
                below[len(line)] = above
                line.append(above[0])
            for _ in range(columns if room > 0 else min(columns, 1)):
                below[len(line)] = (text, high)
                line.append(text)
                room -= 1
        room -= len(line)
        hanging = {at: (text, high - 1) for at, (text, high) in below.items() if high > 1} if room > 0 else {}
        grid.append(line)
    return grid


def _whole(value: str | None, default: int) -> int:
    text = (value or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
