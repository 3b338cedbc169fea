"""Office and e-book formats: Docling converts the file to a DoclingDocument, whose items become blocks.

Docling's markdown export is not used, because it leaves out speaker notes and sheet names. The extension of docling-rs
is loaded without its Python package, which would import docling-core and pandas for two to three seconds. If the user
has installed Docling itself, that is used instead for some formats.
"""

import importlib.util
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from clew.core.errors import DriverMissing, SourceError
from clew.core.ids import make_document_id
from clew.core.types import Document, Section
from clew.index.read.blocks import (
    ParsedSource,
    SourceBlock,
    build_document,
    collapse_whitespace,
    make_title_from_file_name,
    split_large_table,
)
from clew.index.read.guard import PASSWORD_PROTECTED, check_archive_safety, check_xml_safety, wrap_library_errors
from clew.index.read.load import decode_text, decode_with_fallbacks
from clew.index.read.office.sheets import is_large_workbook, stream_visible_sheets

ZIPPED_FORMATS = {
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
OTHER_FORMATS = {
    ".adoc": "AsciiDoc text",
    ".asciidoc": "AsciiDoc text",
    ".nxml": "JATS article",
    ".doc": "Word document",
    ".ppt": "presentation",
    ".xls": "workbook",
    ".msg": "mail",
    ".rtf": "RTF document",
}
FORMAT_NAMES = {**ZIPPED_FORMATS, **OTHER_FORMATS}
MAX_GROUP_DEPTH = 150  # nested groups; deeper ones are skipped
_SHEET_SUFFIXES = frozenset({".xlsx", ".xlsm", ".ods", ".xls"})
_SLIDE_SUFFIXES = frozenset({".pptx", ".pptm", ".ppsx", ".odp", ".ppt"})
_TEXT_SUFFIXES = frozenset({".adoc", ".asciidoc", ".nxml"})
_XML_ENCODING = re.compile(r"""\A(\s{0,9}<\?xml[^>]{0,99}?)\s+encoding\s*=\s*["'][^"'>]{0,99}["']""")
_SKIPPED_LAYERS = frozenset({"furniture", "background", "invisible"})
_SKIPPED_LABELS = frozenset({"page_header", "page_footer", "empty_value"})
_JATS_ROOT = re.compile(rb"<!DOCTYPE\s+article|<(?:\w+:)?article[\s>]")
_CLOSING_PUNCTUATION = frozenset(".,;:!?)]}’”%")

Item = Mapping[str, Any]
DOCLING_SUFFIXES = frozenset(
    {".docx", ".pptx", ".xlsx", ".adoc", ".asciidoc"}
)  # converted by Docling itself if it is installed
_EXTENSION_MODULE = "docling_rs._native"


def read_office(data: bytes, *, uri: str, name: str) -> Document:
    """Return the Document of an office file, an e-book or a JATS article."""
    suffix = PurePath(name).suffix.lower()
    format_name = FORMAT_NAMES.get(suffix, "document")
    if suffix in ZIPPED_FORMATS:
        check_archive_safety(data, uri=uri, format_name=format_name)
    if suffix == ".nxml":
        for _ in check_xml_safety([data], uri=uri):
            pass
    if suffix in _TEXT_SUFFIXES:  # Docling prints a warning about any encoding but UTF-8
        data = _XML_ENCODING.sub(r"\1", decode_with_fallbacks(data), count=1).encode()
    if suffix in (".xlsx", ".xlsm") and is_large_workbook(data, uri=uri):
        page = ParsedSource(list(stream_visible_sheets(data, uri=uri)), meta={"extraction": "streamed"})
    else:
        page = parse_docling_document(
            convert_to_docling(data, uri=uri, name=name, format_name=format_name), slides=suffix in _SLIDE_SUFFIXES
        )
    if suffix in _SHEET_SUFFIXES:  # the name of the first sheet is not the title of a workbook
        page = replace(page, title=make_title_from_file_name(name))
    return build_document(page, uri=uri, name=name, source_format=suffix.lstrip("."))


def read_xml(data: bytes, *, uri: str, name: str) -> Document:
    """Return the Document of a JATS article; other XML, whose headings are unknown, is read as code."""
    if _JATS_ROOT.search(data[:4096]):
        return read_office(data, uri=uri, name=PurePath(name).with_suffix(".nxml").name)
    text = decode_text(data, uri=uri)
    if not text.strip():
        raise SourceError(uri, "is empty: it holds nothing but white space")
    whole = (Section(0, len(text)),)
    return Document(make_document_id(uri), text, whole, title=name, uri=uri, meta={"format": "code", "language": "xml"})


def parse_docling_document(document: Item, *, slides: bool = False) -> ParsedSource:
    """Parse the blocks of a DoclingDocument in reading order; slide numbers are pages."""
    blocks = list(_DoclingWalker(document, slides=slides).visit_children(document["body"], depth=0, level=-1))
    title = next(
        (collapse_whitespace(text["text"]) for text in document.get("texts", ()) if text["label"] == "title"), ""
    )
    pages = len(document.get("pages") or ()) if slides else 0
    return ParsedSource(blocks, "" if slides and pages > 1 else title, {"pages": pages} if pages else {})


class _DoclingWalker:
    """A walk over the items of a DoclingDocument; each is read once, though captions are referenced twice."""

    def __init__(self, document: Item, *, slides: bool) -> None:
        self._document = document
        self._slides = slides
        self._seen: set[str] = set()
        self._page: int | None = None

    def visit_children(self, item: Item, *, depth: int, level: int) -> Iterator[SourceBlock]:
        for reference in item.get("children") or ():
            yield from self._visit_reference(reference, depth=depth + 1, level=level)

    def _visit_reference(self, reference: Item, *, depth: int, level: int) -> Iterator[SourceBlock]:
        item = self._resolve_unread_item(reference)
        if item is not None and depth <= MAX_GROUP_DEPTH:
            yield from self._visit_item(item, depth=depth, level=level)

    def _resolve_unread_item(self, reference: Item) -> Item | None:
        """Resolve a reference and mark its item as read; None if it was read before or is not content."""
        path = reference["$ref"]
        if path in self._seen:
            return None
        self._seen.add(path)
        _, kind, position = path.split("/")
        item: Item = self._document[kind][int(position)]
        return None if item.get("content_layer") in _SKIPPED_LAYERS or item["label"] in _SKIPPED_LABELS else item

    def _visit_item(self, item: Item, *, depth: int, level: int) -> Iterator[SourceBlock]:
        kind = item["self_ref"].split("/")[1]
        if self._slides and item.get("prov"):
            self._page = item["prov"][0]["page_no"]
        if kind == "texts":
            yield from self._visit_text(item, depth=depth, level=level)
        elif kind == "tables":
            yield from self._visit_references(item.get("captions"), depth=depth)
            yield from self._visit_table(item["data"])
            yield from self._visit_references(item.get("footnotes"), depth=depth)
            yield from self.visit_children(item, depth=depth, level=level)
        elif kind == "pictures":
            yield from self._visit_references(item.get("captions"), depth=depth)
            yield from self._visit_picture(item)
            yield from self.visit_children(item, depth=depth, level=level)
        elif item["label"] == "inline":
            yield self._make_block("paragraph", self._join_runs(item))
        elif item["label"] in ("field_item", "key_value_area"):
            yield self._make_block("paragraph", ": ".join(self._collect_texts(item)))
        else:
            yield from self._visit_group(item, depth=depth, level=level)

    def _visit_references(self, references: Sequence[Item] | None, *, depth: int) -> Iterator[SourceBlock]:
        for reference in references or ():
            yield from self._visit_reference(reference, depth=depth, level=-1)

    def _visit_group(self, item: Item, *, depth: int, level: int) -> Iterator[SourceBlock]:
        label, name = item["label"], item.get("name") or ""
        if label == "sheet" or name.startswith("sheet: "):
            yield self._make_block("heading", name.removeprefix("sheet: "), level=1)
        elif label == "chapter" and name.startswith("slide-") and not self._has_heading(item):
            self._page = int(name.removeprefix("slide-")) + 1
            yield self._make_block("heading", f"Slide {self._page}", level=1)
        yield from self.visit_children(item, depth=depth, level=level + (label in ("list", "ordered_list")))

    def _has_heading(self, item: Item) -> bool:
        for reference in item.get("children") or ():
            _, kind, position = reference["$ref"].split("/")
            child = self._document[kind][int(position)]
            if child["label"] in ("title", "section_header") and child["text"].strip():
                return True
        return False

    def _visit_text(self, item: Item, *, depth: int, level: int) -> Iterator[SourceBlock]:
        label, text = item["label"], item.get("text") or ""
        if label in ("list_item", "title", "section_header") and not text.strip():
            inline = [child for child in self._iter_unread_children(item) if child["label"] == "inline"]
            text = " ".join(map(self._join_runs, inline))
            self._seen.update(child["self_ref"] for child in inline)
        if item.get("content_layer") == "notes":
            is_speaker_note = self._slides and not text.startswith("[author")  # else it is a comment
            yield self._make_block("note", f"Notes: {text}" if is_speaker_note else text)
        elif label == "title":
            yield self._make_block("heading", text, level=1)
        elif label == "section_header":
            yield self._make_block("heading", text, level=(item.get("level") or 1) + 1)
        elif label == "list_item":
            marker = item.get("marker") or "" if item.get("enumerated") else ""
            yield self._make_block("list_item", text, level=max(level, 0), marker=marker)
        elif label == "code":
            language = item.get("code_language") or ""
            yield self._make_block("code", text, marker="" if language == "unknown" else language.lower())
        elif label == "formula":
            yield self._make_block("formula", text or item.get("orig") or "")
        elif label == "caption":
            yield self._make_block("caption", text)
        elif text.strip():
            yield self._make_block("paragraph", _format_text_run(label, text))
        yield from self.visit_children(item, depth=depth, level=level)

    def _visit_table(self, data: Item) -> Iterator[SourceBlock]:
        grid: Sequence[Sequence[Item]] = data.get("grid") or ()
        rich = {
            _get_cell_position(cell): self._join_cell_text(cell)
            for cell in data.get("table_cells") or ()
            if cell.get("ref")
        }
        rows = [[rich.get(_get_cell_position(cell), cell.get("text") or "") for cell in row] for row in grid]
        filled = [cell for row in rows for cell in row if cell.strip()]
        if len(filled) == 1 and len(rows) == 1:  # a title alone in its sheet
            yield self._make_block("paragraph", filled[0])
            return
        header = 0
        while header < len(grid) and grid[header] and all(cell.get("column_header") for cell in grid[header]):
            header += 1
        yield from split_large_table(rows, header_rows=max(header, 1) if header < len(grid) else 1, page=self._page)

    def _join_cell_text(self, cell: Item) -> str:
        """Return the text of a cell with lists, pictures or a table inside."""
        _, kind, position = cell["ref"]["$ref"].split("/")
        self._seen.add(cell["ref"]["$ref"])
        return " ".join(self._collect_texts(self._document[kind][int(position)])) or cell.get("text") or ""

    def _visit_picture(self, item: Item) -> Iterator[SourceBlock]:
        """Yield the description of a picture, and the data of a chart."""
        meta = item.get("meta") or {}
        if text := (meta.get("description") or {}).get("text"):
            yield self._make_block("caption", text)
        guesses = (meta.get("classification") or {}).get("predictions") or ()
        if guesses and "chart" in (kind := guesses[0].get("class_name") or ""):
            yield self._make_block("caption", kind.replace("_", " ").capitalize())
        if chart := (meta.get("tabular_chart") or {}).get("chart_data"):
            yield from self._visit_table(chart)

    def _collect_texts(self, item: Item, depth: int = 0) -> Iterator[str]:
        """Yield every text below an item, to be joined on one line."""
        for child in self._iter_unread_children(item) if depth <= MAX_GROUP_DEPTH else ():
            self._seen.add(child["self_ref"])
            if child["label"] == "inline":
                yield self._join_runs(child)
                continue
            if "data" in child:
                yield from (cell.get("text") or "" for row in child["data"].get("grid") or () for cell in row)
            elif text := _format_text_run(child["label"], child.get("text") or "").strip():
                yield f"{child['marker']} {text}" if child.get("enumerated") else text
            yield from self._collect_texts(child, depth + 1)

    def _iter_unread_children(self, item: Item) -> Iterator[Item]:
        for reference in item.get("children") or ():
            _, kind, position = reference["$ref"].split("/")
            if reference["$ref"] not in self._seen:
                yield self._document[kind][int(position)]

    def _join_runs(self, item: Item) -> str:
        """Join the runs of a line, by a space unless there is one or closing punctuation or a raised run follows."""
        joined = ""
        for run in self._iter_unread_children(item):
            self._seen.add(run["self_ref"])
            text = _format_text_run(run["label"], run.get("text") or "")
            raised = (run.get("formatting") or {}).get("script", "baseline") != "baseline"
            glued = (
                not joined or joined[-1].isspace() or text[:1].isspace() or text[:1] in _CLOSING_PUNCTUATION or raised
            )
            joined += text if glued else f" {text}"
        return joined

    def _make_block(self, kind: Any, text: str, *, level: int = 0, marker: str = "") -> SourceBlock:
        return SourceBlock(kind, text, level=level, page=self._page, marker=marker)


def _get_cell_position(cell: Item) -> tuple[int, int]:
    return cell.get("start_row_offset_idx", 0), cell.get("start_col_offset_idx", 0)


def _format_text_run(label: str, text: str) -> str:
    """Format a run of text by its label: code, a formula or a checkbox."""
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


def convert_to_docling(data: bytes, *, uri: str, name: str, format_name: str) -> dict[str, Any]:
    """Convert a file to a DoclingDocument, by the suffix of its name."""
    suffix = PurePath(name).suffix.lower()
    with wrap_library_errors(uri, format_name=format_name):
        if suffix in DOCLING_SUFFIXES and (converted := _convert_with_docling(data, name)) is not None:
            return converted
        document: dict[str, Any] = json.loads(_convert_with_extension(_find_extension(), data, name, uri=uri))
        return document


def _convert_with_extension(extension: Path, data: bytes, name: str, *, uri: str) -> str:
    native = _load_extension(extension)
    try:
        text: str = native.DocumentConverter().convert_bytes(name, data).document_json
    except native.EncryptionError as error:
        raise SourceError(uri, PASSWORD_PROTECTED) from error
    return text


def _load_extension(extension: Path) -> ModuleType:
    """Load the extension module once per process, and put it into sys.modules for a later import of its package."""
    if (loaded := sys.modules.get(_EXTENSION_MODULE)) is not None:
        return loaded
    spec = importlib.util.spec_from_file_location(_EXTENSION_MODULE, extension)
    if spec is None or spec.loader is None:
        raise DriverMissing(
            f"docling-rs cannot be loaded from {extension}; install it again: pip install 'clew[documents]'"
        )
    native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(native)
    sys.modules[_EXTENSION_MODULE] = native
    return native


def _find_extension() -> Path:
    """Find the path of the docling-rs extension without importing its package."""
    package = importlib.util.find_spec("docling_rs")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for file in sorted(Path(folder).glob("_native*")):
            if file.suffix in (".so", ".pyd"):
                return file
    raise DriverMissing("reading office documents needs docling-rs: pip install 'clew[documents]'")


def _convert_with_docling(data: bytes, name: str) -> dict[str, Any] | None:
    """Convert a file with the user's own Docling; None if it is not installed or cannot be imported."""
    if importlib.util.find_spec("docling") is None:
        return None
    try:
        from docling.datamodel.base_models import DocumentStream
        from docling.document_converter import DocumentConverter
    except ImportError:  # some modules of Docling need extras that may not be installed
        return None
    stream = DocumentStream(name=name, stream=io.BytesIO(data))
    document: dict[str, Any] = DocumentConverter().convert(stream).document.export_to_dict()
    return document
