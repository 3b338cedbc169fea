"""Tables of markdown without their cells: only its lines are needed, and a large one has millions of cells."""

import re

from markdown_it.rules_block.state_block import StateBlock
from markdown_it.rules_block.table import MAX_AUTOCOMPLETED_CELLS, getLine, table

_PIPE = re.compile(r"(?<!\\)\|")


def parse_table_without_cells(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:  # noqa: N803
    """Whether a table begins here; it ends where that of the parser ends, and has no tokens but its first and last."""
    if not table(state, startLine, endLine, True):
        return False
    if silent:
        return True
    parent, state.parentType = state.parentType, "table"
    opened = state.push("table_open", "table", 1)
    end = _find_end(state, startLine, endLine)
    opened.map = [startLine, end]
    state.push("table_close", "table", -1)
    state.parentType, state.line = parent, end
    return True


def _find_end(state: StateBlock, start: int, last: int) -> int:
    """The line after the last row."""
    rules = state.md.block.ruler.getRules("blockquote")
    columns = _count_cells(getLine(state, start).strip())
    missing = 0
    for line in range(start + 2, last):
        if state.sCount[line] < state.blkIndent or any(rule(state, line, last, True) for rule in rules):
            return line
        row = getLine(state, line).strip()
        if not row or state.is_code_block(line):
            return line
        missing += columns - _count_cells(row)
        if missing > MAX_AUTOCOMPLETED_CELLS:
            return line
    return last


def _count_cells(row: str) -> int:
    pipes = [match.start() for match in _PIPE.finditer(row)]
    outer = bool(pipes) and pipes[0] == 0, bool(pipes) and pipes[-1] == len(row) - 1
    return len(pipes) + 1 - sum(outer)
