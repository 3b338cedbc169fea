"""Plain text and reStructuredText: sections from underlined titles; in reStructuredText also lists and directives."""

import csv
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice, pairwise, takewhile, zip_longest
from typing import NamedTuple

from clew.core.ids import make_document_id
from clew.core.types import Document
from clew.index.read.blocks import (
    Heading,
    ParsedSource,
    SourceBlock,
    build_document,
    build_sections_from_headings,
    make_title_from_file_name,
    split_large_table,
)
from clew.index.read.text.markdown import find_line_starts

_RULE = re.compile(r"""([=\-~^"'#*+`:.])\1{2,}""")
_MAX_TITLE_CHARS = 120
_SHORTEST = 4  # characters: in reStructuredText the rule below a title may be shorter than the title
MAX_DEPTH = 12  # nested directives; deeper ones are read as paragraphs
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|[^|\n]{1,80}\|[ \t]+)?([\w.+:-]{1,60})::(?:[ \t]+(.*))?")
_EXPLICIT = re.compile(r"\.\.(?:[ \t]+|$)")  # a comment or a target
_FOOTNOTE = re.compile(r"\.\.[ \t]+(\[[^\]\n]{1,80}\][ \t]+\S.*)")
_OPTION = re.compile(r"[ \t]+:([\w-]{1,60}):(?:[ \t]+(.*)|$)")
_FIELD = re.compile(r":[\w-]{1,60}:\s*$")
_ITEM = re.compile(r"([ \t]*)([-*+•]|\d{1,9}[.)]|#[.)])[ \t]+(\S.*)")
_TABLE_RULE = re.compile(r"\s*(?:=+(?:[ \t]+=+)+|\+[-=+]+\+)\s*")
_COLUMN = re.compile(r"[=-]+")
_SIMPLE_RULE = re.compile(r"[=-]+(?:[ \t]+[=-]+)*\s*")
_ROLE = re.compile(r":([\w:.+-]{1,60}):`([^`\n]{1,300})`")
_ROLE_BY_DEFAULT = re.compile(r"`([^`<\n]{1,300}?)\s*<[^>:/\s]{1,300}>`(?!_)")  # it names an object, not an address
_LINK = re.compile(r"`([^`<\n]{1,300}?)\s*<([^>\s]{1,300})>`_{0,2}")
_LITERAL = re.compile(r"``([^`\n]{1,300})``")
_CODE = frozenset({"code", "code-block", "sourcecode", "parsed-literal", "doctest", "testcode", "prompt", "math"})
_WITHOUT_TEXT = frozenset({"toctree", "contents", "meta", "index", "raw", "image", "include", "literalinclude"})
# Directives whose argument is text even without a body; others are calls of an extension.
_WITH_TEXT = frozenset(
    (
        *("note", "warning", "tip", "hint", "important", "caution", "attention", "danger", "error", "seealso", "todo"),
        *("admonition", "topic", "rubric", "sidebar", "centered"),
        *("function", "class", "method", "attribute", "data", "exception", "module", "option", "envvar", "describe"),
    )
)
# Options about the layout of a directive, unlike `:default: 5`, which states a fact.
_LAYOUT = frozenset(
    (
        *("align", "alt", "caption", "class", "class-card", "collapsible", "color", "columns", "delim", "depth"),
        *("dedent", "emphasize-lines", "encoding", "escape", "figclass", "figwidth", "file", "force", "gutter"),
        *("header", "hidden", "header-rows", "height", "icon", "language", "linenos", "lineno-start", "link"),
        *("link-type", "loading", "margin", "module", "name", "open", "padding", "quote", "scale", "stub-columns"),
        *("subtitle", "sync", "target", "title", "url", "width", "widths"),
    )
)
_OF_VERSIONS = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
}
_CELL = re.compile(r"([*+-]?[ \t]+)[*+-](?:[ \t]+(.*))?")  # of a list-table; the first cell of a row has two marks


class UnderlinedTitle(NamedTuple):
    """An underlined title: its span with the underline, its level and its text."""

    start: int
    end: int
    level: int
    label: str


def read_plain_text(text: str, *, uri: str, name: str) -> Document:
    """Return the Document of a plain text, with a section for each underlined title."""
    found = () if name.lower().endswith(".log") else find_underlined_titles(text)
    return Document(
        id=make_document_id(uri),
        text=text,
        sections=build_sections_from_headings(
            text, [Heading(title.start, title.level, title.label) for title in found]
        ),
        title=next((title.label for title in found if title.level == 1), "") or make_title_from_file_name(name),
        uri=uri,
        meta={"format": "text"},
    )


@lru_cache(maxsize=4)  # the chunker parses the same text right after the reader
def find_underlined_titles(text: str, *, shortest: int = _MAX_TITLE_CHARS) -> tuple[UnderlinedTitle, ...]:
    """Find the underlined titles in order; the first style of underline is level 1, the next new one level 2.

    A title is at the margin after a blank line. The rule below it must be as long as the title or `shortest`; a rule
    above must equal the one below.
    """
    starts = find_line_starts(text)
    lines = [text[start:stop].rstrip() for start, stop in pairwise(starts)]
    styles: list[tuple[str, bool]] = []
    found: list[UnderlinedTitle] = []
    for number, under in enumerate(lines[1:], 1):
        if len(under) < 3 or not _RULE.fullmatch(under):
            continue
        label = lines[number - 1].strip()
        over = number > 1 and lines[number - 2] == under
        first = number - 2 if over else number - 1
        if not 0 < len(label) <= _MAX_TITLE_CHARS or not any(map(str.isalnum, label)):
            continue
        if len(under) < min(len(label), shortest):
            continue
        if (first and lines[first - 1]) or (not over and lines[number - 1][0].isspace()):
            continue
        style = (under[0], over)
        if style not in styles:
            styles.append(style)
        found.append(UnderlinedTitle(starts[first], starts[number] + len(under), styles.index(style) + 1, label))
    return tuple(found)


def read_rst(text: str, *, uri: str, name: str) -> Document:
    """Return the Document of a reStructuredText page, with a section for each underlined title.

    A page with only directives that show no text, such as `include`, is read as plain text.
    """
    lines = text.expandtabs(8).splitlines()
    blocks = list(_parse(lines, _find_titles("\n".join(lines)), depth=0))
    if not any(block.text.strip() for block in blocks):
        return read_plain_text(text, uri=uri, name=name)
    return build_document(ParsedSource(blocks), uri=uri, name=name, source_format="rst")


def _find_titles(text: str) -> Mapping[int, tuple[int, UnderlinedTitle]]:
    """Find the underlined titles by the number of their first line, each with its count of lines."""
    found: dict[int, tuple[int, UnderlinedTitle]] = {}
    line = at = 0
    for title in find_underlined_titles(text, shortest=_SHORTEST):
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
        elif _TABLE_RULE.fullmatch(line) and (end := _find_end_of_table(lines, at)):
            yield from split_large_table(list(_read_table(lines[at:end])))
            at = end
        else:
            end = _find_end_of_paragraph(lines, at + 1, titles)
            yield from _make_paragraph(lines[at:end])
            at = end
            if lines[end - 1].rstrip().endswith("::"):
                at = _find_end_of_body(lines, end)
                yield SourceBlock("code", _dedent(lines[end:at]))


def _find_end_of_body(lines: Sequence[str], at: int) -> int:
    """Find the first line that is neither blank nor indented."""
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
    """Yield the content of a directive, and its argument if that is text; nothing for a comment or a target."""
    directive = _DIRECTIVE.fullmatch(lines[0].rstrip())
    if directive is None:
        if footnote := _FOOTNOTE.fullmatch(lines[0].rstrip()):
            yield from _make_paragraph([footnote[1], *lines[1:]])
        return
    name, argument = directive[1].rpartition(":")[2].lower(), directive[2] or ""
    options = [each for each in map(_OPTION.match, takewhile(_OPTION.match, lines[1:])) if each]
    body = lines[1 + len(options) :]
    has_body = any(map(str.strip, body))
    if name in _WITHOUT_TEXT:
        return
    if name in _CODE:
        yield SourceBlock("code", _dedent(body), marker=argument)
        return
    if name in _OF_VERSIONS:
        version, _, text = argument.partition(" ")
        mark = ": " if text or has_body else ""
        body, argument, has_body = [f"{_OF_VERSIONS[name]} {version}{mark}{text}", _dedent(body)], "", True
    if argument and (name in _WITH_TEXT or (has_body and name != "figure")):
        yield from _make_paragraph([argument])
    yield from _make_paragraph(
        [f"{key}: {value}" for key, value in map(_get_pair, options) if key not in _LAYOUT and value]
    )
    rows = list[list[str]]()
    if name == "list-table":
        rows = list(_read_list_table(_dedent(body).split("\n")))
    elif name == "csv-table":
        head = [value for key, value in map(_get_pair, options) if key == "header"]
        rows = _read_csv_table([*head, *body])
    if rows:
        yield from split_large_table(rows)
    elif has_body:
        inside = _dedent(body).split("\n")
        yield from _parse(inside, {}, depth=depth + 1) if depth < MAX_DEPTH else _make_paragraph(inside)


def _get_pair(option: re.Match[str]) -> tuple[str, str]:
    return option[1], (option[2] or "").strip()


def _read_list_table(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of a table written as a list of lists."""
    row, width = list[str](), 0
    for line in lines:
        cell = _CELL.fullmatch(line)
        if cell and not cell[1].isspace():
            if row:
                yield row
            row, width = [], len(cell[1])
        if cell and len(cell[1]) == width:
            row.append(_to_plain(cell[2] or ""))
        elif row:
            row[-1] = f"{row[-1]} {_to_plain(line.strip())}".strip()
    if row:
        yield row


def _read_csv_table(lines: Sequence[str]) -> list[list[str]]:
    """Read the rows of comma-separated lines; empty if they are not CSV."""
    with suppress(csv.Error):
        return [[*map(_to_plain, row)] for row in csv.reader(map(str.strip, lines), skipinitialspace=True) if row]
    return []


def _find_end_of_table(lines: Sequence[str], at: int) -> int:
    """Find the line after a table that begins with a rule; 0 if no rule ends it."""
    if lines[at].startswith("+"):
        end = next((n for n in range(at, len(lines)) if not lines[n].startswith(("+", "|"))), len(lines))
        return end if end > at + 1 and _TABLE_RULE.fullmatch(lines[end - 1]) else 0
    rules = (number for number in range(at + 1, len(lines)) if _TABLE_RULE.fullmatch(lines[number]))
    last = islice(rules, 2)  # below the header and at the end, or at the end alone
    return next((number + 1 for number in last if not "".join(lines[number + 1 : number + 2]).strip()), 0)


def _read_table(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of a grid table (rules around each cell) or a simple table (rules only above and below)."""
    is_grid = lines[0].startswith("+")
    rule = _TABLE_RULE if is_grid else _SIMPLE_RULE
    starts = [run.start() for run in _COLUMN.finditer(lines[0])]
    ends = [start - 1 for start in starts[1:]] + [-1 if is_grid else None]
    row: list[str] = []
    for line in lines:
        cells = list[str]()
        for start, end in zip(starts, ends, strict=True):
            if line[start - 1 : start] not in ("+|" if is_grid else " "):  # a cell that spans two columns
                cells[-1] += line[start - 1 : end]
                cells.append("")
            else:
                cells.append(line[start:end])
        is_rule = rule.fullmatch(line)
        if any(row) and (is_rule or (not is_grid and cells[0].strip())):
            yield [_to_plain(cell) for cell in row]
            row = []
        if not is_rule:
            row = [f"{above} {cell.strip()}".strip() for above, cell in zip_longest(row, cells, fillvalue="")]
    if any(row):
        yield [_to_plain(cell) for cell in row]


def _dedent(lines: Sequence[str]) -> str:
    return textwrap.dedent("\n".join(lines)).strip("\n")


def _make_item(lines: Sequence[str]) -> SourceBlock:
    found = _ITEM.fullmatch(lines[0])
    indent, marker, first = found.groups() if found else ("", "-", lines[0])
    text = _to_plain("\n".join([first, *map(str.strip, lines[1:])]))
    number = marker if marker[0].isdigit() else "1." if marker[0] == "#" else ""
    return SourceBlock("list_item", text, level=len(indent) // 2, marker=number)


def _make_paragraph(lines: Sequence[str]) -> Iterator[SourceBlock]:
    """Yield some lines as a paragraph, without the rules of tables."""
    text = "\n".join(line.strip() for line in lines if not _TABLE_RULE.fullmatch(line)).strip()
    text = text.removesuffix("::").rstrip() + ":" * text.endswith("::")
    if any(map(str.isalnum, text)):
        yield SourceBlock("paragraph", _to_plain(text))


def _to_plain(text: str) -> str:
    """Convert inline markup to plain text: a role to its text, a link to its text and address."""
    text = _ROLE_BY_DEFAULT.sub(r"\1", _ROLE.sub(_name_role, text))
    return _LITERAL.sub(r"`\1`", _LINK.sub(r"\1 (\2)", text))


def _name_role(found: re.Match[str]) -> str:
    text = found[2].partition(" <")[0].lstrip("~!")
    return f"{found[1].upper()} {text}" if found[1].lower() in ("pep", "rfc", "cve", "cwe") else text
