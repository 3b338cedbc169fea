"""HTML: the main content of a page as blocks, without navigation, banners, scripts and hidden elements."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clew.core.errors import DriverMissing, SourceError
from clew.core.types import Document
from clew.index.read.blocks import ParsedSource, SourceBlock, build_document, collapse_whitespace, split_large_table
from clew.index.read.guard import wrap_library_errors
from clew.index.read.load import decode_with_fallbacks

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Parsing time grows with the square of these counts.
MAX_ELEMENT_DEPTH = 5_000
MAX_ATTRIBUTES = 500  # of one element
MAX_OPTIONS = 1_000  # of all menus; option texts are not read
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
_MANY_ATTRIBUTES = re.compile(
    r"<[a-zA-Z][^\s/>]{0,40}+(?:[\s/]++[^\s/>=][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"'][^\s>]*+))?+)"
    f"{{{MAX_ATTRIBUTES + 1}}}"
)
_OPTION = re.compile(r"(</?)option(?![^\s/>])", re.IGNORECASE)
# Elements without a required end tag: a page may leave thousands of them open.
_SELF_CLOSING = frozenset(
    re.split(
        r"\s+",
        "area base br col embed hr img input link meta param source track wbr p li dt dd tr td th thead tbody tfoot "
        "option optgroup rt rp colgroup caption path html head body",
    )
)
_DATE_TAGS = ("article:published_time", "article:modified_time", "date", "dc.date", "datePublished", "last-modified")
SMALL_PAGE_WORDS = 200
MIN_MAIN_SHARE = 0.25  # of the words of a page; a smaller <main> or <article> is one of many teasers
MAX_WALK_DEPTH = 150  # nested elements; deeper ones are read as plain text
MAX_SPAN = 1_000  # columns or rows of a cell, as in browsers
_HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
_DROPPED_TAGS = frozenset(
    re.split(
        r"\s+",
        "script style noscript template head svg canvas iframe object embed audio video map dialog button "
        "select option datalist textarea input -comment link meta title",
    )
)
_DROPPED_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "search", "menu", "menubar", "toolbar", "complementary"}
)
_CONTENT_TAGS = frozenset({"main", "article", "section", "blockquote", "figure", "td", "li"})
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:language|lang|highlight-source|brush:)[-\s:]*([\w+#.-]+)")
_INLINE_TAGS = frozenset(
    re.split(
        r"\s+",
        "-text a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark math output q "
        "ruby rb rt rp s samp small span strike strong sub sup time tt u var wbr picture source",
    )
)
_BLANK = re.compile(r"[ \t\r\f\v]*\n[ \t\r\f\v]*|[ \t\r\f\v]+")
_PERMALINK_SIGNS = frozenset({"¶", "#", "§", "🔗", "⁋", "∞"})
_PANEL_TAGS = frozenset({"div", "p", "table"})
_PANEL_CLASSES = frozenset({"nav-panel", "header", "footer", "node"})
_TO_PAGES_AROUND = "a[rel~=next], a[rel~=prev], a[rel~=previous], a[rel~=up]"


def read_html(data: bytes, *, uri: str, name: str, charset: str = "") -> Document:
    """Return the Document of an HTML page; a charset from the web server overrides the one declared in the page."""
    return build_document(
        parse_html(decode_with_fallbacks(data, charset=charset), uri=uri), uri=uri, name=name, source_format="html"
    )


def parse_html(text: str, *, uri: str) -> ParsedSource:
    """Parse the blocks of the main content, the title, and the metadata (description, language, date, author)."""
    _check_nesting_depth(text, uri=uri)
    if _MANY_ATTRIBUTES.search(text):
        raise SourceError(uri, f"is refused: one of its elements has more than {MAX_ATTRIBUTES} attributes")
    if sum(1 for _ in _OPTION.finditer(text)) > MAX_OPTIONS:
        text = _OPTION.sub(r"\1wbr", text)  # an element without content
    with wrap_library_errors(uri, format_name="web page"):
        try:
            from selectolax.lexbor import LexborHTMLParser
        except ImportError as error:
            raise DriverMissing("reading HTML needs selectolax: pip install selectolax") from error
        tree = LexborHTMLParser(text)
        body = tree.body
        blocks = list(extract_html_blocks(_find_main_element(body))) if body is not None else []
        if body is not None and _is_content_mostly_dropped(blocks, body):
            blocks = list(extract_html_blocks(body, keep_navigation=True))
        return ParsedSource(blocks, _find_title(tree, blocks), _read_page_meta(tree))


def _check_nesting_depth(text: str, *, uri: str) -> None:
    depth = 0
    for closing, tag in _TAG.findall(text):
        if tag.lower() not in _SELF_CLOSING:
            depth = max(depth - 1, 0) if closing else depth + 1
            if depth > MAX_ELEMENT_DEPTH:
                raise SourceError(
                    uri, f"is refused: its elements are nested more than {MAX_ELEMENT_DEPTH:,} levels deep"
                )


def _find_main_element(body: "LexborNode") -> "LexborNode":
    """Find the only element marked as main content, else the body."""
    words = len(body.text(deep=True).split())
    for selector in ("main, [role=main]", "article"):
        found = body.css(selector)
        if len(found) == 1 and len(found[0].text(deep=True).split()) >= MIN_MAIN_SHARE * words:
            return found[0]
    return body


def _is_content_mostly_dropped(blocks: list[SourceBlock], body: "LexborNode") -> bool:
    """Return whether almost nothing of a page is left, as when its content was taken for navigation."""
    left = sum(len(block.text.split()) for block in blocks)
    return left == 0 or 2 * left < len(body.text(deep=True).split()) <= SMALL_PAGE_WORDS


def _find_title(tree: "LexborHTMLParser", blocks: list[SourceBlock]) -> str:
    node = tree.css_first("head > title, body > title")
    if node is not None and (text := collapse_whitespace(node.text(deep=True))):
        return text
    named = _read_meta_tag(tree, "og:title")
    return named or next((collapse_whitespace(block.text) for block in blocks if block.kind == "heading"), "")


def _read_page_meta(tree: "LexborHTMLParser") -> dict[str, Any]:
    root = tree.css_first("html")
    language = (root.attributes.get("lang") or "") if root is not None else ""
    date = next(filter(None, (_read_meta_tag(tree, name) for name in _DATE_TAGS)), "")
    if not date and (time := tree.css_first("article time[datetime], header time[datetime]")) is not None:
        date = time.attributes.get("datetime") or ""
    meta = {
        "description": _read_meta_tag(tree, "description") or _read_meta_tag(tree, "og:description"),
        "language": language,
        "date": date,
        "author": _read_meta_tag(tree, "author"),
    }
    return {key: collapse_whitespace(value) for key, value in meta.items() if value.strip()}


def _read_meta_tag(tree: "LexborHTMLParser", name: str) -> str:
    for node in tree.css("meta"):
        attributes = node.attributes
        if (attributes.get("name") or attributes.get("property") or "").lower() == name.lower():
            return attributes.get("content") or ""
    return ""


def extract_html_blocks(node: "LexborNode", *, keep_navigation: bool = False) -> Iterator[SourceBlock]:
    """Yield the blocks below an element in order; `keep_navigation` keeps likely navigation."""
    yield from _HtmlWalker(everything=keep_navigation).visit_children(node, depth=0)


class _HtmlWalker:
    """A walk over a page that tracks its depth in lists and in content."""

    def __init__(self, *, everything: bool) -> None:
        self._keep_navigation = everything
        self._list_depth = 0
        self._content_depth = 0

    def visit_children(self, node: "LexborNode", *, depth: int) -> Iterator[SourceBlock]:
        """Yield the blocks of the children; adjacent inline elements form a paragraph."""
        runs: list[str] = []
        for child in node.iter(include_text=True):
            if self._is_inline(child, depth):
                runs.append(self._to_text(child, depth=depth + 1))
                continue
            yield from self._make_paragraph(runs)
            runs = []
            if not self._is_dropped_element(child):
                yield from self._visit_element(child, depth=depth + 1)
        yield from self._make_paragraph(runs)

    def _make_paragraph(self, runs: list[str]) -> Iterator[SourceBlock]:
        if text := _collapse_line_spaces("".join(runs)):
            yield SourceBlock("paragraph", text)

    def _is_inline(self, node: "LexborNode", depth: int) -> bool:
        """Return whether a node is an inline element without a block inside."""
        if node.tag not in _INLINE_TAGS:
            return False
        if node.tag in ("-text", "br", "img", "math", "code") or depth > MAX_WALK_DEPTH:
            return True
        return all(
            self._is_inline(child, depth + 1) or child.tag in _DROPPED_TAGS for child in node.iter(include_text=True)
        )

    def _is_dropped_element(self, node: "LexborNode") -> bool:
        tag = node.tag or ""
        if tag in _DROPPED_TAGS or is_permalink(node):
            return True
        attributes = node.attributes
        if "hidden" in attributes or attributes.get("aria-hidden") == "true":
            return True
        if _HIDDEN_STYLE.search(attributes.get("style") or ""):
            return True
        if self._keep_navigation:
            return False
        if (attributes.get("role") or "") in _DROPPED_ROLES:
            return True
        if tag in ("nav", "menu") or is_navigation_panel(node):
            return True
        if tag in ("footer", "aside"):
            return not self._content_depth
        return tag == "header" and not self._content_depth and node.css_first("h1, h2") is None

    def _visit_element(self, node: "LexborNode", *, depth: int) -> Iterator[SourceBlock]:
        tag = node.tag or ""
        if depth > MAX_WALK_DEPTH:
            yield from self._make_paragraph([node.text(deep=True, separator=" ")])
        elif tag in _HEADING_LEVELS:
            yield SourceBlock("heading", self._to_single_line(node, depth=depth), level=_HEADING_LEVELS[tag])
        elif tag == "pre":
            yield SourceBlock("code", node.text(deep=True), marker=_find_code_language(node))
        elif tag in ("ul", "ol", "dl"):
            yield from self._visit_list(node, depth=depth)
        elif tag == "table":
            yield from self._visit_table(node, depth=depth)
        elif tag == "blockquote":
            for block in self._visit_content(node, depth=depth):
                yield replace(block, kind="quote") if block.kind == "paragraph" else block
        elif tag in ("figcaption", "caption", "legend"):
            yield SourceBlock("caption", self._to_single_line(node, depth=depth))
        elif tag in _CONTENT_TAGS:
            yield from self._visit_content(node, depth=depth)
        else:
            yield from self.visit_children(node, depth=depth)

    def _visit_content(self, node: "LexborNode", *, depth: int) -> Iterator[SourceBlock]:
        self._content_depth += 1
        yield from self.visit_children(node, depth=depth)
        self._content_depth -= 1

    def _visit_list(self, node: "LexborNode", *, depth: int) -> Iterator[SourceBlock]:
        number = _parse_int(node.attributes.get("start"), 1) if node.tag == "ol" else None
        self._list_depth += 1
        for child in node.iter():
            if self._is_dropped_element(child):
                continue
            if child.tag in ("li", "dt", "dd"):
                yield from self._visit_list_item(child, number, depth=depth + 1)
                number = None if number is None else number + 1
            elif child.tag in ("ul", "ol", "dl"):
                yield from self._visit_list(child, depth=depth + 1)
            else:  # a div around the terms of a description list, or invalid content
                yield from (
                    self._visit_list(child, depth=depth + 1)
                    if node.tag == "dl"
                    else self._visit_element(child, depth=depth)
                )
        self._list_depth -= 1

    def _visit_list_item(self, node: "LexborNode", number: int | None, *, depth: int) -> Iterator[SourceBlock]:
        """Yield the item with its first paragraph, then its other content: nested lists, tables, code."""
        level = self._list_depth - 1 + (node.tag == "dd")
        marker = "" if number is None else f"{_parse_int(node.attributes.get('value'), number)}."
        is_first = True
        for block in self._visit_content(node, depth=depth):
            if block.kind == "paragraph":
                yield SourceBlock(
                    "list_item", block.text, level=level if is_first else level + 1, marker=marker if is_first else ""
                )
                is_first = False
            elif block.kind == "list_item" and is_first:
                yield replace(block, level=max(block.level - 1, 0))
            else:
                yield block

    def _visit_table(self, node: "LexborNode", *, depth: int) -> Iterator[SourceBlock]:
        rows = list(_iter_table_rows(node))
        cells = [cell for row in rows for cell in row.iter() if cell.tag in ("td", "th")]
        if len(cells) <= 1 or (node.attributes.get("role") or "") in ("presentation", "none"):
            for child in cells:
                yield from self._visit_content(child, depth=depth)
            return
        for child in node.iter():
            if child.tag == "caption":
                yield SourceBlock("caption", self._to_single_line(child, depth=depth))
        grid = _expand_cell_spans(
            [
                [(self._to_single_line(cell, depth=depth), *_read_cell_spans(cell)) for cell in _list_cells(row)]
                for row in rows
            ]
        )
        yield from split_large_table(grid, header_rows=_count_header_rows(rows, max(map(len, grid), default=0)))

    def _to_single_line(self, node: "LexborNode", *, depth: int) -> str:
        """Return the text of an element on one line, separating blocks by a space."""
        return collapse_whitespace(self._to_text(node, depth=depth, gap=" "))

    def _to_text(self, node: "LexborNode", *, depth: int, gap: str = "") -> str:
        tag = node.tag
        if tag == "-text":
            return _BLANK.sub(" ", node.text(deep=False))
        if tag == "br":
            return "\n"
        if tag == "img":
            return f" {node.attributes.get('alt') or ''} "
        if self._is_dropped_element(node):
            return ""
        if tag == "math":
            return _format_formula(node)
        if depth > MAX_WALK_DEPTH:
            return node.text(deep=True, separator=" ")
        text = "".join(self._to_text(child, depth=depth + 1, gap=gap) for child in node.iter(include_text=True))
        if tag == "code" and text.strip() and "`" not in text and "\n" not in text:
            return f"`{text.strip()}`"
        return text if tag in _INLINE_TAGS else f"{gap}{text}{gap}"


def _collapse_line_spaces(text: str) -> str:
    """Collapse the white space in the lines of a paragraph, as browsers do."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))


def _find_code_language(node: "LexborNode") -> str:
    """Find the language in the classes of a code block, its <code> or its parent."""
    inner = node.css_first("code")
    for element in (inner, node, node.parent):
        if element is not None:
            classes = element.attributes.get("class") or ""
            if found := element.attributes.get("data-lang") or element.attributes.get("data-language"):
                return found
            if match := _LANGUAGE.search(classes):
                return match[1]
    return ""


def _format_formula(node: "LexborNode") -> str:
    tex = node.attributes.get("alttext") or ""
    source = node.css_first("annotation[encoding='application/x-tex']")
    if source is not None:
        tex = source.text(deep=True)
    return (
        f"${collapse_whitespace(tex)}$"
        if tex.strip()
        else f" {collapse_whitespace(node.text(deep=True, separator=' '))} "
    )


def _iter_table_rows(table: "LexborNode") -> Iterator["LexborNode"]:
    """Yield the rows of a table, without those of nested tables."""
    for child in table.iter():
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in child.iter() if row.tag == "tr")


def _list_cells(row: "LexborNode") -> list["LexborNode"]:
    return [cell for cell in row.iter() if cell.tag in ("td", "th")]


def _count_header_rows(rows: list["LexborNode"], width: int) -> int:
    """Count the header rows: the first one, and following ones with header cells over half of the width."""
    header = 1
    for row in rows[1:-1]:
        cells = _list_cells(row)
        if not cells or any(cell.tag != "th" for cell in (*cells, *_list_cells(rows[0]))) or 2 * len(cells) < width:
            break
        header += 1
    return header


def _read_cell_spans(cell: "LexborNode") -> tuple[int, int]:
    attributes: Mapping[str, str | None] = cell.attributes
    columns, rows = (_parse_int(attributes.get(name), 1) for name in ("colspan", "rowspan"))
    return min(max(columns, 1), MAX_SPAN), min(max(rows, 1), MAX_SPAN)


def _expand_cell_spans(rows: list[list[tuple[str, int, int]]]) -> list[list[str]]:
    """Return the cells by row and column, repeating a spanning cell in each, up to a limit on all cells."""
    cells_left = 10_000 + 20 * sum(map(len, rows))  # spans can claim far more cells than a page holds
    grid: list[list[str]] = []
    spanning: dict[
        int, tuple[str, int]
    ] = {}  # by column: the text of a spanning cell above, and the number of rows it still fills
    for row in rows:
        line: list[str] = []
        below: dict[int, tuple[str, int]] = {}
        for text, columns, height in [*row, ("", 0, 0)]:
            while (above := spanning.get(len(line))) is not None:
                below[len(line)] = above
                line.append(above[0])
            for _ in range(columns if cells_left > 0 else min(columns, 1)):
                below[len(line)] = (text, height)
                line.append(text)
                cells_left -= 1
        cells_left -= len(line)
        spanning = (
            {at: (text, height - 1) for at, (text, height) in below.items() if height > 1} if cells_left > 0 else {}
        )
        grid.append(line)
    return grid


def _parse_int(value: str | None, default: int) -> int:
    text = (value or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


def is_permalink(node: "LexborNode") -> bool:
    """Return whether an element is a permalink, shown as a sign such as ¶."""
    return (
        node.tag == "a"
        and node.text(deep=True).strip() in _PERMALINK_SIGNS
        and "#" in (node.attributes.get("href") or "")
    )


def is_navigation_panel(node: "LexborNode") -> bool:
    """Return whether an element is a line of links to the next, previous and upper page."""
    if node.tag not in _PANEL_TAGS or _PANEL_CLASSES.isdisjoint((node.attributes.get("class") or "").split()):
        return False
    return node.css_first(_TO_PAGES_AROUND) is not None and node.css_first("h1, h2, h3") is None
