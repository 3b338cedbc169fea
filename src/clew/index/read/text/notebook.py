"""Jupyter notebooks: all cells as one markdown text, code and its output in fences; headings open sections."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.core.errors import SourceError
from clew.core.ids import make_document_id
from clew.core.types import Document
from clew.index.read.blocks import Heading, build_sections_from_headings, make_title_from_file_name
from clew.index.read.text.markdown import parse_markdown_blocks

MAX_OUTPUT_CHARS = 1000  # per cell: the rest is seldom worth finding
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_OBJECT = re.compile(r"<[^\n]*>\s*\Z")  # the repr of a figure or another object without text
_FENCE = re.compile(r"`{3,}")


def read_notebook(text: str, *, uri: str, name: str) -> Document:
    """Return the Document of a notebook; `meta` has the language of its code and the number of cells."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(uri, "is not a readable notebook: it is not valid JSON") from error
    cells = _list_cells(notebook)
    if cells is None:
        raise SourceError(uri, "is not a readable notebook: it has no list of cells")
    meta = _get_object(notebook, "metadata")
    language = _find_language(meta)
    parts = [part for cell in cells for part in _render_cell(cell, language)]
    if not parts:
        raise SourceError(uri, "has no text that can be read: its cells are empty")
    body = "\n\n".join(parts) + "\n"
    headings = [Heading(p.start, p.level, p.label) for p in parse_markdown_blocks(body) if p.kind == "heading"]
    given = meta.get("title")
    first = next((heading.label for heading in headings if heading.level == 1 and heading.label), "")
    return Document(
        id=make_document_id(uri),
        text=body,
        sections=build_sections_from_headings(body, headings),
        title=(given.strip() if isinstance(given, str) else "") or first or make_title_from_file_name(name),
        uri=uri,
        meta={"format": "markdown", "source_format": "ipynb", "language": language, "cells": len(cells)},
    )


def _list_cells(notebook: Any) -> list[Mapping[str, Any]] | None:
    """List the cells (in older notebooks those of all worksheets); None if it is not a notebook."""
    if not isinstance(notebook, dict):
        return None
    sheets = notebook.get("worksheets")
    holders = sheets if isinstance(sheets, list) else [notebook]
    lists = [
        holder["cells"] for holder in holders if isinstance(holder, dict) and isinstance(holder.get("cells"), list)
    ]
    return [cell for cells in lists for cell in cells if isinstance(cell, dict)] if lists else None


def _find_language(meta: Mapping[str, Any]) -> str:
    for holder, key in (("language_info", "name"), ("kernelspec", "language")):
        language = _get_object(meta, holder).get(key)
        if isinstance(language, str) and language.strip():
            return "".join(language.split()).lower()
    return "python"


def _render_cell(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    """Yield the parts of a cell as markdown: its source, and the text of its output."""
    source = _join_lines(cell.get("source", cell.get("input"))).strip("\n")
    if cell.get("cell_type") == "heading":  # of older notebooks
        level = cell.get("level")
        yield f"{'#' * (level if isinstance(level, int) and 1 <= level <= 6 else 1)} {' '.join(source.split())}"
    elif cell.get("cell_type") != "code":
        if source.strip():
            yield _close_fence(source)
    elif source.strip():
        yield _render_fence(source, language)
        if output := _collect_output(cell.get("outputs")):
            yield _render_fence(output, "output")


def _collect_output(outputs: Any) -> str:
    """Collect the printed and returned text of a cell, without pictures, cut to MAX_OUTPUT_CHARS."""
    parts: list[str] = []
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        if "ename" in output:
            parts.append(f"{output.get('ename')}: {output.get('evalue')}")
            continue
        shown = _join_lines(output.get("text") or _get_object(output, "data").get("text/plain"))
        parts.append("" if _OBJECT.match(shown) else shown)
    text = _TERMINAL_CODES.sub("", "\n".join(part.strip("\n") for part in parts if part.strip()))
    return text if len(text) <= MAX_OUTPUT_CHARS else f"{text[:MAX_OUTPUT_CHARS]}…"


def _render_fence(text: str, info: str) -> str:
    longest = max((len(found) for found in _FENCE.findall(text)), default=2)
    return f"{'`' * (longest + 1)}{info}\n{text}\n{'`' * (longest + 1)}"


def _close_fence(text: str) -> str:
    """Close the last fence of a markdown cell, so that it does not reach into the next cell."""
    mark = "clewendofcell"
    last = parse_markdown_blocks(f"{text}\n\n{mark}")[-1:]
    if last and last[0].kind == "code" and (opening := _FENCE.match(text[last[0].start :].lstrip())):
        return f"{text}\n{opening[0]}"
    return text


def _join_lines(value: Any) -> str:
    """Join a text that is a string or a list of lines, replacing lone surrogates."""
    lines: Sequence[Any] = value if isinstance(value, list) else [value]
    text = "".join(line for line in lines if isinstance(line, str))
    return text.replace("\r\n", "\n").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _get_object(holder: Any, key: str) -> Mapping[str, Any]:
    found = holder.get(key) if isinstance(holder, dict) else None
    return found if isinstance(found, dict) else {}
