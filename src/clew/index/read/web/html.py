"""HTML: the main content of a page as blocks; navigation, banners, scripts and what is hidden are left out."""

import codecs
import re
from typing import TYPE_CHECKING, Any

from clew.core.errors import DriverMissing, SourceError
from clew.core.types import Document
from clew.index.read.blocks import Block, Page, document, one_line
from clew.index.read.guard import sealed
from clew.index.read.web.markup import flow

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_NESTED = 5_000  # the time to parse grows with the square of the depth
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
# Elements that end by themselves or by what follows them: a page may leave thousands of them open.
_CLOSING = frozenset(
    re.split(
        r"\s+",
        "area base br col embed hr img input link meta param source track wbr p li dt dd tr td th thead tbody tfoot "
        "option optgroup rt rp colgroup caption path html head body",
    )
)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"""^\s*<\?xml[^>]{0,100}?encoding\s*=\s*["']([A-Za-z0-9_.:-]{1,40})""")
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DATES = ("article:published_time", "article:modified_time", "date", "dc.date", "datePublished", "last-modified")
SMALL = 200  # words
MAIN_SHARE = 0.25  # of the page's words: a smaller <main> or <article> is one teaser of many


def html(data: bytes, *, uri: str, name: str, charset: str = "") -> Document:
    """The Document of an HTML page; a charset given with it (by a web server) goes before what the page says."""
    return document(page_of(spelled(data, charset=charset), uri=uri), uri=uri, name=name, source_format="html")


def page_of(text: str, *, uri: str) -> Page:
    """The blocks of the page's main content, its title, and its description, language and date as meta."""
    _check_depth(text, uri=uri)
    with sealed(uri, what="web page"):
        try:
            from selectolax.lexbor import LexborHTMLParser
        except ImportError as error:
            raise DriverMissing("HTML is read by selectolax, which is not here: pip install selectolax") from error
        tree = LexborHTMLParser(text)
        body = tree.body
        blocks = list(flow(_main(body))) if body is not None else []
        if body is not None and _is_little(blocks, body):
            blocks = list(flow(body, everything=True))
        return Page(blocks, _title(tree, blocks), _meta(tree))


def spelled(data: bytes, *, charset: str = "") -> str:
    """The text of a page in the encoding that its first bytes, the server, or the page itself name."""
    named = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "")
    declared = _CHARSET.search(data[:4096]) or _XML_CHARSET.search(data[:200])
    for encoding in (named, charset, declared[1].decode() if declared else "", "utf-8"):
        try:
            known = codecs.lookup(encoding).name if encoding else ""
            if known:
                return data.decode("cp1252" if known in ("iso8859-1", "ascii") else known)
        except (LookupError, UnicodeDecodeError):
            continue
    return data.decode("cp1252", "replace")


def _check_depth(text: str, *, uri: str) -> None:
    depth = 0
    for closing, tag in _TAG.findall(text):
        if tag.lower() not in _CLOSING:
            depth = max(depth - 1, 0) if closing else depth + 1
            if depth > MAX_NESTED:
                raise SourceError(uri, f"is refused: its elements are nested more than {MAX_NESTED:,} levels deep")


def _main(body: "LexborNode") -> "LexborNode":
    """The one element that the page calls its main content, or else all of its body."""
    words = len(body.text(deep=True).split())
    for selector in ("main, [role=main]", "article"):
        found = body.css(selector)
        if len(found) == 1 and len(found[0].text(deep=True).split()) >= MAIN_SHARE * words:
            return found[0]
    return body


def _is_little(blocks: list[Block], body: "LexborNode") -> bool:
    """Whether next to nothing is left of a page: then what looked like navigation is what it says."""
    left = sum(len(block.text.split()) for block in blocks)
    return left == 0 or 2 * left < len(body.text(deep=True).split()) <= SMALL


def _title(tree: "LexborHTMLParser", blocks: list[Block]) -> str:
    shown = tree.css_first("head > title, body > title")
    if shown is not None and (text := one_line(shown.text(deep=True))):
        return text
    named = _content(tree, "og:title")
    return named or next((one_line(block.text) for block in blocks if block.kind == "heading"), "")


def _meta(tree: "LexborHTMLParser") -> dict[str, Any]:
    root = tree.css_first("html")
    language = (root.attributes.get("lang") or "") if root is not None else ""
    date = next(filter(None, (_content(tree, name) for name in _DATES)), "")
    if not date and (time := tree.css_first("article time[datetime], header time[datetime]")) is not None:
        date = time.attributes.get("datetime") or ""
    said = {
        "description": _content(tree, "description") or _content(tree, "og:description"),
        "language": language,
        "date": date,
        "author": _content(tree, "author"),
    }
    return {key: one_line(value) for key, value in said.items() if value.strip()}


def _content(tree: "LexborHTMLParser", name: str) -> str:
    for node in tree.css("meta"):
        attributes = node.attributes
        if (attributes.get("name") or attributes.get("property") or "").lower() == name.lower():
            return attributes.get("content") or ""
    return ""
