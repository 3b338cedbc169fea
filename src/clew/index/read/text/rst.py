"""reStructuredText: headings, lists, code and paragraphs as blocks; of a directive, what it shows."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile

from clew.core.types import Document
from clew.index.read.blocks import ParsedSource, SourceBlock, build_document
from clew.index.read.text.plain import UnderlinedTitle, find_underlined_titles, read_plain_text

MAX_DEPTH = 12  # of directives inside one another; what is deeper is read as paragraphs
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|[^|\n]{1,80}\|[ \t]+)?([\w.+:-]{1,60})::(?:[ \t]+(.*))?")
_EXPLICIT = re.compile(r"\.\.(?:[ \t]+|$)")  # a comment or a target
_FOOTNOTE = re.compile(r"\.\.[ \t]+(\[[^\]\n]{1,80}\][ \t]+\S.*)")
_OPTION = re.compile(r"[ \t]+:[\w-]{1,60}:(?:[ \t]|$)")
_FIELD = re.compile(r":[\w-]{1,60}:\s*$")
_ITEM = re.compile(r"([ \t]*)([-*+•]|\d{1,9}[.)]|#[.)])[ \t]+(\S.*)")
_TABLE_RULE = re.compile(r"\s*(?:=+(?:[ \t]+=+)+|\+[-=+]+\+)\s*")
_ROLE = re.compile(r":[\w:.+-]{1,60}:`([^`\n]{1,300})`")
_LINK = re.compile(r"`([^`<\n]{1,300}?)\s*<([^>\s]{1,300})>`_{0,2}")
_LITERAL = re.compile(r"``([^`\n]{1,300})``")
_CODE = frozenset({"code", "code-block", "sourcecode", "parsed-literal", "doctest", "testcode", "prompt", "math"})
_WITHOUT_TEXT = frozenset({"toctree", "contents", "meta", "index", "raw", "image", "include", "literalinclude"})
# They say something with their argument alone; others are calls of an extension.
_WITH_TEXT = frozenset(
    (
        *("note", "warning", "tip", "hint", "important", "caution", "attention", "danger", "error", "seealso", "todo"),
        *("admonition", "topic", "rubric", "sidebar", "versionadded", "versionchanged", "deprecated", "centered"),
        *("function", "class", "method", "attribute", "data", "exception", "module", "option", "envvar", "describe"),
    )
)


def read_rst(text: str, *, uri: str, name: str) -> Document:
    """The Document of a page in reStructuredText, a section for each underlined title.

    A page of nothing but directives that show nothing here, such as `include`, is read as it is written.
    """
    lines = text.expandtabs(8).splitlines()
    blocks = list(_parse(lines, _find_titles("\n".join(lines)), depth=0))
    if not any(block.text.strip() for block in blocks):
        return read_plain_text(text, uri=uri, name=name)
    return build_document(ParsedSource(blocks), uri=uri, name=name, source_format="rst")


def _find_titles(text: str) -> Mapping[int, tuple[int, UnderlinedTitle]]:
    """The underlined titles by their first line, each with the number of its lines."""
    found: dict[int, tuple[int, UnderlinedTitle]] = {}
    line = at = 0
    for title in find_underlined_titles(text):
        line += text.count("\n", at, title.start)
        at = title.start
        found[line] = (text.count("\n", title.start, title.end) + 1, title)
    return found


def _parse(
    lines: Sequence[str], titles: Mapping[int, tuple[int, UnderlinedTitle]], *, depth: int
) -> Iterator[SourceBlock]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if at in titles:
            count, title = titles[at]
            yield SourceBlock("heading", _to_plain(title.label), level=title.level)
            at += count
        elif not line.strip() or _FIELD.match(line):
            at += 1
        elif line.startswith("..") and _EXPLICIT.match(line):
            end = _find_end_of_body(lines, at + 1)
            yield from _read_directive(lines[at:end], depth=depth)
            at = end
        elif _ITEM.fullmatch(line):
            end = _find_end_of_paragraph(lines, at + 1, titles, ends_at_items=True)
            yield _make_item(lines[at:end])
            at = end
        elif line[0].isspace():
            end = _find_end_of_body(lines, at)
            inside = textwrap.dedent("\n".join(lines[at:end])).split("\n")
            yield from _parse(inside, {}, depth=depth + 1) if depth < MAX_DEPTH else _make_paragraph(inside)
            at = end
        else:
            end = _find_end_of_paragraph(lines, at + 1, titles)
            yield from _make_paragraph(lines[at:end])
            at = end
            if lines[end - 1].rstrip().endswith("::"):
                at = _find_end_of_body(lines, end)
                yield SourceBlock("code", _dedent(lines[end:at]))


def _find_end_of_body(lines: Sequence[str], at: int) -> int:
    """The first line that is neither blank nor indented."""
    while at < len(lines) and (not lines[at].strip() or lines[at][0].isspace()):
        at += 1
    return at


def _find_end_of_paragraph(
    lines: Sequence[str], at: int, titles: Mapping[int, object], *, ends_at_items: bool = False
) -> int:
    while at < len(lines) and lines[at].strip() and at not in titles:
        if ends_at_items and (_ITEM.fullmatch(lines[at]) or not lines[at][0].isspace()):
            break
        at += 1
    return at


def _read_directive(lines: Sequence[str], *, depth: int) -> Iterator[SourceBlock]:
    """What a directive shows: its content, and its argument where that is text; nothing of a comment or a target."""
    directive = _DIRECTIVE.fullmatch(lines[0].rstrip())
    if directive is None:
        if footnote := _FOOTNOTE.fullmatch(lines[0].rstrip()):
            yield from _make_paragraph([footnote[1], *lines[1:]])
        return
    name, argument = directive[1].rpartition(":")[2].lower(), directive[2] or ""
    body = list(dropwhile(_OPTION.match, lines[1:]))
    has_body = any(map(str.strip, body))
    if name in _WITHOUT_TEXT:
        return
    if name in _CODE:
        yield SourceBlock("code", _dedent(body), marker=argument)
        return
    if argument and (name in _WITH_TEXT or (has_body and name != "figure")):
        yield from _make_paragraph([argument])
    if has_body:
        inside = _dedent(body).split("\n")
        yield from _parse(inside, {}, depth=depth + 1) if depth < MAX_DEPTH else _make_paragraph(inside)


def _dedent(lines: Sequence[str]) -> str:
    return textwrap.dedent("\n".join(lines)).strip("\n")


def _make_item(lines: Sequence[str]) -> SourceBlock:
    found = _ITEM.fullmatch(lines[0])
    indent, marker, first = found.groups() if found else ("", "-", lines[0])
    text = _to_plain("\n".join([first, *map(str.strip, lines[1:])]))
    number = marker if marker[0].isdigit() else "1." if marker[0] == "#" else ""
    return SourceBlock("list_item", text, level=len(indent) // 2, marker=number)


def _make_paragraph(lines: Sequence[str]) -> Iterator[SourceBlock]:
    """The paragraph of some lines, without the rules of tables."""
    text = "\n".join(line.strip() for line in lines if not _TABLE_RULE.fullmatch(line)).strip()
    text = text.removesuffix("::").rstrip() + ":" * text.endswith("::")
    if any(map(str.isalnum, text)):
        yield SourceBlock("paragraph", _to_plain(text))


def _to_plain(text: str) -> str:
    """The text of inline markup: of a role its text, of a link its text and its address."""
    text = _ROLE.sub(lambda found: found[1].partition(" <")[0].lstrip("~!"), text)
    return _LITERAL.sub(r"`\1`", _LINK.sub(r"\1 (\2)", text))
