"""HTML: the main content of a page as blocks, without navigation, banners, scripts and hidden elements."""

import re
from typing import TYPE_CHECKING, Any

from clew.core.errors import DriverMissing, SourceError
from clew.core.types import Document
from clew.index.read.blocks import ParsedSource, SourceBlock, build_document, collapse_whitespace
from clew.index.read.guard import wrap_library_errors
from clew.index.read.load import decode_with_fallbacks
from clew.index.read.web.markup import extract_html_blocks

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Parsing time grows with the square of these.
MAX_ELEMENT_DEPTH = 5_000
MAX_ATTRIBUTES = 500  # of one element
MAX_OPTIONS = 1_000  # of all menus; their texts are not read
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
_MANY_ATTRIBUTES = re.compile(
    r"<[a-zA-Z][^\s/>]{0,40}+(?:[\s/]++[^\s/>=][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>\"'][^\s>]*+))?+)"
    f"{{{MAX_ATTRIBUTES + 1}}}"
)
_OPTION = re.compile(r"(</?)option(?![^\s/>])", re.IGNORECASE)
# Elements with an optional end tag or none: a page may leave thousands of them open.
_SELF_CLOSING = frozenset(
    re.split(
        r"\s+",
        "area base br col embed hr img input link meta param source track wbr p li dt dd tr td th thead tbody tfoot "
        "option optgroup rt rp colgroup caption path html head body",
    )
)
_DATE_TAGS = ("article:published_time", "article:modified_time", "date", "dc.date", "datePublished", "last-modified")
SMALL_PAGE_WORDS = 200  # words
MIN_MAIN_SHARE = 0.25  # of the words of a page; a smaller <main> or <article> is one teaser of many


def read_html(data: bytes, *, uri: str, name: str, charset: str = "") -> Document:
    """The Document of an HTML page; a charset from the web server goes before that declared in the page."""
    return build_document(
        parse_html(decode_with_fallbacks(data, charset=charset), uri=uri), uri=uri, name=name, source_format="html"
    )


def parse_html(text: str, *, uri: str) -> ParsedSource:
    """The blocks of the main content, the title, and description, language, date and author as meta."""
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
    """The only element marked as main content, or else the whole body."""
    words = len(body.text(deep=True).split())
    for selector in ("main, [role=main]", "article"):
        found = body.css(selector)
        if len(found) == 1 and len(found[0].text(deep=True).split()) >= MIN_MAIN_SHARE * words:
            return found[0]
    return body


def _is_content_mostly_dropped(blocks: list[SourceBlock], body: "LexborNode") -> bool:
    """Whether next to nothing of a page is left: then what looked like navigation is its content."""
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
