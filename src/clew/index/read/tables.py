"""Tables of the rich formats: rows of cells become pipe tables small enough to be chunks of their own."""

from collections.abc import Iterable, Iterator, Sequence

from clew.index.read.blocks import SourceBlock, collapse_whitespace

MAX_TABLE_CHARS = 700  # about a chunk of the default size

Row = Sequence[str]


def split_large_table(
    rows: Iterable[Row], *, header_rows: int = 1, page: int | None = None, max_chars: int = MAX_TABLE_CHARS
) -> Iterator[SourceBlock]:
    """The table as one block, or a large one as several: split by rows, the header repeated in each.

    A table whose header alone exceeds `max_chars` is first split into groups of columns, each with the first column.
    Time and size grow with the number of filled cells, not with the rectangle around them.
    """
    filled = [_clean_cells(row) for row in rows]
    head = _merge_header_rows(filled[:header_rows])
    body = [row for row in filled[header_rows:] if row]
    width = max(map(len, (head, *body)), default=0)
    if not any(head) and not body:
        return
    head += [""] * (width - len(head))
    if sum(map(len, head)) + 3 * width <= max_chars:
        yield from _split_table_by_rows(head, body, page=page, piece=max_chars)
        return
    for columns, part in _split_table_by_columns(head, body, piece=max_chars // 3):
        yield from _split_table_by_rows(columns, part, page=page, piece=max_chars)


def format_table_row(cells: Iterable[str]) -> str:
    """One row of a pipe table."""
    return "| " + " | ".join(cells) + " |"


def _clean_cells(row: Row) -> list[str]:
    """The cells with collapsed white space and escaped pipes, without empty ones at the end."""
    cells = [collapse_whitespace(cell).replace("|", "\\|") if cell else "" for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _merge_header_rows(rows: Sequence[Row]) -> list[str]:
    """The header rows merged into one: the distinct texts above each column, joined."""
    width = max(map(len, rows), default=0)
    columns = [[row[at] if at < len(row) else "" for row in rows] for at in range(width)]
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]


def _split_table_by_rows(head: Row, body: Sequence[Row], *, page: int | None, piece: int) -> Iterator[SourceBlock]:
    named = max((at for at, cell in enumerate(head, 1) if cell), default=0)
    top = len(format_table_row(head[:named])) + 4 * named
    rows: list[Row] = []
    size = top
    for row in body:
        line = 3 * len(row) + sum(map(len, row)) + 2
        if rows and size + line > piece:
            yield _render_pipe_table(head, named, rows, page)
            rows, size = [], top
        rows.append(row)
        size += line
    yield _render_pipe_table(head, named, rows, page)


def _render_pipe_table(head: Row, named: int, rows: Sequence[Row], page: int | None) -> SourceBlock:
    """One pipe table, as wide as its header has names or its rows have cells."""
    top = head[: max([named, 1, *map(len, rows)])]
    return SourceBlock("table", "\n".join(map(format_table_row, [top, ["-"] * len(top), *rows])), page=page)


def _split_table_by_columns(head: Row, body: Sequence[Row], *, piece: int) -> Iterator[tuple[Row, list[Row]]]:
    """Groups of adjacent columns, each with the first column; rows that are empty in a group are dropped."""
    spans: list[tuple[int, int]] = []
    start = at = 1
    size = 0
    for at, cell in enumerate(head[1:], 1):
        if at > start and size + len(cell) + 3 > piece:
            spans.append((start, at))
            start, size = at, 0
        size += len(cell) + 3
    spans.append((start, at + 1))
    parts: list[list[Row]] = [[] for _ in spans]
    for row in body:
        for (low, high), part in zip(spans, parts, strict=True):
            if low >= max(len(row), 2):
                break
            if any(row[low:high]) or low == 1:
                part.append([row[0], *row[low:high]])
    for (low, high), part in zip(spans, parts, strict=True):
        if part or any(head[low:high]):
            yield [head[0], *head[low:high]], part
