"""The tables of every rich format: rows of cells become pipe tables that are small enough to be found one by one."""

from collections.abc import Iterable, Iterator, Sequence

from clew.index.read.blocks import Block, one_line

PIECE = 700  # characters, about what a chunk of the default size holds

Row = Sequence[str]


def tables(rows: Iterable[Row], *, header: int = 1, page: int | None = None, piece: int = PIECE) -> Iterator[Block]:
    """The table as one block, or where it is large as several: by rows, each with the header above it.

    A table whose header alone is larger than a piece is first cut into groups of columns, each with the first column
    beside it. Time and size grow with the cells that are filled, not with the rectangle around them.
    """
    filled = [_trimmed(row) for row in rows]
    head = _head(filled[:header])
    body = [row for row in filled[header:] if row]
    width = max(map(len, (head, *body)), default=0)
    if not any(head) and not body:
        return
    head += [""] * (width - len(head))
    if sum(map(len, head)) + 3 * width <= piece:
        yield from _pieces(head, body, page=page, piece=piece)
        return
    for columns, part in _groups(head, body, piece=piece // 3):
        yield from _pieces(columns, part, page=page, piece=piece)


def pipe(cells: Iterable[str]) -> str:
    """One row of a pipe table."""
    return "| " + " | ".join(cells) + " |"


def _trimmed(row: Row) -> list[str]:
    """The cells on one line each, without the empty ones at the end."""
    cells = [one_line(cell).replace("|", "\\|") if cell else "" for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _head(rows: Sequence[Row]) -> list[str]:
    """The header rows as one: what stands above a column, each different word of it once."""
    width = max(map(len, rows), default=0)
    columns = [[row[at] if at < len(row) else "" for row in rows] for at in range(width)]
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]


def _pieces(head: Row, body: Sequence[Row], *, page: int | None, piece: int) -> Iterator[Block]:
    named = max((at for at, cell in enumerate(head, 1) if cell), default=0)
    top = len(pipe(head[:named])) + 4 * named
    rows: list[Row] = []
    size = top
    for row in body:
        line = 3 * len(row) + sum(map(len, row)) + 2
        if rows and size + line > piece:
            yield _piece(head, named, rows, page)
            rows, size = [], top
        rows.append(row)
        size += line
    yield _piece(head, named, rows, page)


def _piece(head: Row, named: int, rows: Sequence[Row], page: int | None) -> Block:
    """One pipe table: the header as wide as it has names or the rows have cells."""
    top = head[: max([named, 1, *map(len, rows)])]
    return Block("table", "\n".join(map(pipe, [top, ["-"] * len(top), *rows])), page=page)


def _groups(head: Row, body: Sequence[Row], *, piece: int) -> Iterator[tuple[Row, list[Row]]]:
    """Groups of neighbouring columns, the first column in each of them; rows with nothing in a group are left out."""
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
