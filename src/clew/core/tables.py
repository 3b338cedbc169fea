"""Tables in Markdown: the header above a row, and a row with the names of its columns."""

from clew.core.patterns import compile_pattern

_ROW = compile_pattern(r"[^\S\n]*\|[^\n]*")
_DELIMITER = compile_pattern(r"[^\S\n]*\|?[\s:|-]*-[\s:|-]*\|?[^\S\n]*")
_CELL = compile_pattern(r"(?<!\\)\|")


def is_table_row(line: str) -> bool:
    """Return whether a line is a row of a table, or its delimiter."""
    return _ROW.fullmatch(line.rstrip("\n")) is not None


def is_delimiter_row(line: str) -> bool:
    """Return whether a line is the delimiter between the header and the rows of a table."""
    return "|" in line and _DELIMITER.fullmatch(line.rstrip("\n")) is not None


def split_cells(row: str) -> list[str]:
    """Split a row into its cells, without white space around them."""
    return [cell.strip() for cell in _CELL.split(row.strip().removeprefix("|").removesuffix("|"))]


def find_table_header(text: str, at: int) -> str:
    """Find the header and delimiter rows above the table row at a position; empty if it is not in a table's body."""
    start = text.rfind("\n", 0, at) + 1
    line_end = text.find("\n", at)
    if not is_table_row(text[start : line_end if line_end >= 0 else len(text)]):
        return ""
    lines: list[str] = []
    while start > 0:
        before = text.rfind("\n", 0, start - 1) + 1
        line = text[before : start - 1]
        if not is_table_row(line):
            break
        lines.append(line)
        start = before
    lines.reverse()
    return "\n".join(lines[:2]) if len(lines) > 1 and is_delimiter_row(lines[1]) else ""


def label_cells(row: str, header: str) -> str:
    """Write a row's nonempty cells as `column: cell; …`; unchanged if the header does not cover its cells."""
    names = split_cells(header.partition("\n")[0]) if header else []
    cells = split_cells(row)
    if not names or len(cells) > len(names):
        return row
    pairs = [(name, cell) for name, cell in zip(names, cells, strict=False) if cell]
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs)


def find_header_in_context(context: str) -> str:
    """Find the table header in the context of a chunk that begins within a table; empty if there is none."""
    return next((line for line in context.split("\n") if is_table_row(line)), "")
