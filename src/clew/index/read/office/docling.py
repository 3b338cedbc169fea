"""Office and e-book formats: a DoclingDocument, walked item by item, becomes blocks.

The items are walked rather than Docling's markdown read, because that leaves out speaker notes and the names of sheets.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from clew.core.errors import SourceError
from clew.core.ids import document_id
from clew.core.types import Document, Section
from clew.index.read.blocks import Block, Page, document, one_line
from clew.index.read.guard import check_archive, check_xml
from clew.index.read.office.converter import convert
from clew.index.read.office.sheet import is_vast, sheets
from clew.index.read.outline import title_of
from clew.index.read.source import decode
from clew.index.read.tables import tables

ZIPPED = {
    ".docx": "Word document",
    ".docm": "Word document",
    ".dotx": "Word template",
    ".pptx": "presentation",
    ".pptm": "presentation",
    ".ppsx": "presentation",
    ".xlsx": "workbook",
    ".xlsm": "workbook",
    ".odt": "text document",
    ".odp": "presentation",
    ".ods": "spreadsheet",
    ".epub": "book",
}
PLAIN = {
    ".adoc": "AsciiDoc text",
    ".asciidoc": "AsciiDoc text",
    ".nxml": "JATS article",
    ".doc": "Word document",
    ".ppt": "presentation",
    ".xls": "workbook",
    ".msg": "mail",
    ".rtf": "RTF document",
}
NAMES = {**ZIPPED, **PLAIN}
DEEPEST = 150  # groups inside one another; what is deeper is read as if it stood there
_SHEETS = frozenset({".xlsx", ".xlsm", ".ods", ".xls"})
_SLIDES = frozenset({".pptx", ".pptm", ".ppsx", ".odp", ".ppt"})
_SKIPPED_LAYERS = frozenset({"furniture", "background", "invisible"})
_SKIPPED = frozenset({"page_header", "page_footer", "empty_value"})
_JATS = re.compile(rb"<!DOCTYPE\s+article|<(?:\w+:)?article[\s>]")
_CLOSING = frozenset(".,;:!?)]}’”%")

Item = Mapping[str, Any]


def office(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of an office file, a book or a JATS article."""
    suffix = PurePath(name).suffix.lower()
    what = NAMES.get(suffix, "document")
    if suffix in ZIPPED:
        check_archive(data, uri=uri, what=what)
    if suffix == ".nxml":
        for _ in check_xml([data], uri=uri):
            pass
    if suffix in (".xlsx", ".xlsm") and is_vast(data, uri=uri):
        page = Page(list(sheets(data, uri=uri)), meta={"extraction": "streamed"})
    else:
        page = page_of(convert(data, uri=uri, name=name, what=what), slides=suffix in _SLIDES)
    if suffix in _SHEETS:  # the name of its first sheet says little of a workbook
        page = replace(page, title=title_of(name))
    return document(page, uri=uri, name=name, source_format=suffix.lstrip("."))


def xml(data: bytes, *, uri: str, name: str) -> Document:
    """The Document of a JATS article; of other XML, which does not say what is a heading in it, the source as code."""
    if _JATS.search(data[:4096]):
        return office(data, uri=uri, name=PurePath(name).with_suffix(".nxml").name)
    text = decode(data, uri=uri)
    if not text.strip():
        raise SourceError(uri, "is empty: it holds nothing but white space")
    whole = (Section(0, len(text)),)
    return Document(document_id(uri), text, whole, title=name, uri=uri, meta={"format": "code", "language": "xml"})


def page_of(found: Item, *, slides: bool = False) -> Page:
    """The blocks of a DoclingDocument in reading order, with slide numbers as pages where it has slides."""
    blocks = list(_Walk(found, slides=slides).children(found["body"], depth=0, level=-1))
    title = next((one_line(text["text"]) for text in found.get("texts", ()) if text["label"] == "title"), "")
    pages = len(found.get("pages") or ()) if slides else 0
    return Page(blocks, "" if slides and pages > 1 else title, {"pages": pages} if pages else {})


class _Walk:
    """One walk over the items of a DoclingDocument: each is read once, though captions are referred to twice."""

    def __init__(self, found: Item, *, slides: bool) -> None:
        self._found = found
        self._slides = slides
        self._seen: set[str] = set()
        self._page: int | None = None

    def children(self, item: Item, *, depth: int, level: int) -> Iterator[Block]:
        for reference in item.get("children") or ():
            yield from self._referred(reference, depth=depth + 1, level=level)

    def _referred(self, reference: Item, *, depth: int, level: int) -> Iterator[Block]:
        item = self._taken(reference)
        if item is not None and depth <= DEEPEST:
            yield from self._blocks(item, depth=depth, level=level)

    def _taken(self, reference: Item) -> Item | None:
        """The item referred to, unless it has been read or is not part of what the document says."""
        path = reference["$ref"]
        if path in self._seen:
            return None
        self._seen.add(path)
        _, kind, position = path.split("/")
        item: Item = self._found[kind][int(position)]
        return None if item.get("content_layer") in _SKIPPED_LAYERS or item["label"] in _SKIPPED else item

    def _blocks(self, item: Item, *, depth: int, level: int) -> Iterator[Block]:
        kind = item["self_ref"].split("/")[1]
        if self._slides and item.get("prov"):
            self._page = item["prov"][0]["page_no"]
        if kind == "texts":
            yield from self._text(item, depth=depth, level=level)
        elif kind == "tables":
            yield from self._all(item.get("captions"), depth=depth)
            yield from self._table(item["data"])
            yield from self._all(item.get("footnotes"), depth=depth)
            yield from self.children(item, depth=depth, level=level)
        elif kind == "pictures":
            yield from self._all(item.get("captions"), depth=depth)
            yield from self._picture(item)
            yield from self.children(item, depth=depth, level=level)
        elif item["label"] == "inline":
            yield self._block("paragraph", self._inline(item))
        elif item["label"] in ("field_item", "key_value_area"):
            yield self._block("paragraph", ": ".join(self._words(item)))
        else:
            yield from self._group(item, depth=depth, level=level)

    def _all(self, references: Sequence[Item] | None, *, depth: int) -> Iterator[Block]:
        for reference in references or ():
            yield from self._referred(reference, depth=depth, level=-1)

    def _group(self, item: Item, *, depth: int, level: int) -> Iterator[Block]:
        label, name = item["label"], item.get("name") or ""
        if label == "sheet" or name.startswith("sheet: "):
            yield self._block("heading", name.removeprefix("sheet: "), level=1)
        elif label == "chapter" and name.startswith("slide-") and not self._has_heading(item):
            self._page = int(name.removeprefix("slide-")) + 1
            yield self._block("heading", f"Slide {self._page}", level=1)
        yield from self.children(item, depth=depth, level=level + (label in ("list", "ordered_list")))

    def _has_heading(self, item: Item) -> bool:
        for reference in item.get("children") or ():
            _, kind, position = reference["$ref"].split("/")
            child = self._found[kind][int(position)]
            if child["label"] in ("title", "section_header") and child["text"].strip():
                return True
        return False

    def _text(self, item: Item, *, depth: int, level: int) -> Iterator[Block]:
        label, text = item["label"], item.get("text") or ""
        if label in ("list_item", "title", "section_header") and not text.strip():
            inline = [child for child in self._peeked(item) if child["label"] == "inline"]
            text = " ".join(map(self._inline, inline))
            self._seen.update(child["self_ref"] for child in inline)
        if item.get("content_layer") == "notes":
            is_spoken = self._slides and not text.startswith("[author")  # else it is a comment
            yield self._block("note", f"Notes: {text}" if is_spoken else text)
        elif label == "title":
            yield self._block("heading", text, level=1)
        elif label == "section_header":
            yield self._block("heading", text, level=(item.get("level") or 1) + 1)
        elif label == "list_item":
            mark = item.get("marker") or "" if item.get("enumerated") else ""
            yield self._block("list_item", text, level=max(level, 0), mark=mark)
        elif label == "code":
            language = item.get("code_language") or ""
            yield self._block("code", text, mark="" if language == "unknown" else language.lower())
        elif label == "formula":
            yield self._block("formula", text or item.get("orig") or "")
        elif label == "caption":
            yield self._block("caption", text)
        elif text.strip():
            yield self._block("paragraph", _ticked(label, text))
        yield from self.children(item, depth=depth, level=level)

    def _table(self, data: Item) -> Iterator[Block]:
        grid: Sequence[Sequence[Item]] = data.get("grid") or ()
        rich = {_place(cell): self._cell(cell) for cell in data.get("table_cells") or () if cell.get("ref")}
        rows = [[rich.get(_place(cell), cell.get("text") or "") for cell in row] for row in grid]
        filled = [cell for row in rows for cell in row if cell.strip()]
        if len(filled) == 1 and len(rows) == 1:  # a title that stands alone in its sheet
            yield self._block("paragraph", filled[0])
            return
        header = 0
        while header < len(grid) and grid[header] and all(cell.get("column_header") for cell in grid[header]):
            header += 1
        yield from tables(rows, header=max(header, 1) if header < len(grid) else 1, page=self._page)

    def _cell(self, cell: Item) -> str:
        """The words of a cell that holds more than words: lists, pictures, a table."""
        _, kind, position = cell["ref"]["$ref"].split("/")
        self._seen.add(cell["ref"]["$ref"])
        return " ".join(self._words(self._found[kind][int(position)])) or cell.get("text") or ""

    def _picture(self, item: Item) -> Iterator[Block]:
        """What is known of a picture: a description, and of a chart its numbers."""
        meta = item.get("meta") or {}
        if text := (meta.get("description") or {}).get("text"):
            yield self._block("caption", text)
        guesses = (meta.get("classification") or {}).get("predictions") or ()
        if guesses and "chart" in (kind := guesses[0].get("class_name") or ""):
            yield self._block("caption", kind.replace("_", " ").capitalize())
        if chart := (meta.get("tabular_chart") or {}).get("chart_data"):
            yield from self._table(chart)

    def _words(self, item: Item, depth: int = 0) -> Iterator[str]:
        """Every text below an item, for where there is room for one line only."""
        for child in self._peeked(item) if depth <= DEEPEST else ():
            self._seen.add(child["self_ref"])
            if child["label"] == "inline":
                yield self._inline(child)
                continue
            if "data" in child:
                yield from (cell.get("text") or "" for row in child["data"].get("grid") or () for cell in row)
            elif text := _ticked(child["label"], child.get("text") or "").strip():
                yield f"{child['marker']} {text}" if child.get("enumerated") else text
            yield from self._words(child, depth + 1)

    def _peeked(self, item: Item) -> Iterator[Item]:
        for reference in item.get("children") or ():
            _, kind, position = reference["$ref"].split("/")
            if reference["$ref"] not in self._seen:
                yield self._found[kind][int(position)]

    def _inline(self, item: Item) -> str:
        """The runs of one line joined: with a space, unless one is there or a mark closes what stands before."""
        joined = ""
        for run in self._peeked(item):
            self._seen.add(run["self_ref"])
            text = _ticked(run["label"], run.get("text") or "")
            raised = (run.get("formatting") or {}).get("script", "baseline") != "baseline"
            glued = not joined or joined[-1].isspace() or text[:1].isspace() or text[:1] in _CLOSING or raised
            joined += text if glued else f" {text}"
        return joined

    def _block(self, kind: Any, text: str, *, level: int = 0, mark: str = "") -> Block:
        return Block(kind, text, level=level, page=self._page, mark=mark)


def _place(cell: Item) -> tuple[int, int]:
    return cell.get("start_row_offset_idx", 0), cell.get("start_col_offset_idx", 0)


def _ticked(label: str, text: str) -> str:
    """A run of text with what its label says in one line: code, a formula, a box that is ticked or not."""
    if not text.strip():
        return text
    match label:
        case "code":
            return f"`{text}`" if "`" not in text else text
        case "formula":
            return f"${text}$"
        case "checkbox_selected":
            return f"[x] {text}"
        case "checkbox_unselected":
            return f"[ ] {text}"
        case _:
            return text
