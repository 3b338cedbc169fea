"""`python -m studies.formats --data FOLDER`: how much of each format the readers keep, against reference markdown.

The reference of a file is Docling's markdown in `reference/NAME.md` beside it, if there; a PDF is compared with the raw
text of pypdfium2. Words are counted as a multiset without markdown syntax; a heading is kept if a section has its
words, a table cell if a cell (or, for a table of one cell, a line) has them.
"""

import argparse
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.text import tokenize_words
from clew.core.types import Document
from clew.index.read import read_file

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~])")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"[\s|:-]+")
_EMPHASIS = re.compile(r"[*~]{1,3}")
_COLUMNS = ("words", "worst", "heads", "cells")
GOAL = 0.95


@dataclass(frozen=True, slots=True)
class FileResult:
    """One file: the shares of words, headings and cells that were kept, or why it was not read."""

    file: Path
    words: float | None = None
    headings: float | None = None
    cells: float | None = None
    reason: str = ""
    crash: str = ""
    note: str = ""


def measure_file(file: Path, root: Path) -> FileResult:
    """The result of one file; any error other than a SourceError counts as a crash."""
    try:
        document = read_file(file, uri=file.relative_to(root).as_posix())
    except SourceError as error:
        return FileResult(file, reason=error.reason)
    except Exception as error:
        return FileResult(file, crash=f"{type(error).__name__}: {error}")
    note = str(document.meta.get("extraction", ""))
    reference = file.parent / "reference" / f"{file.name}.md"
    if file.suffix.lower() == ".pdf":
        return FileResult(file, compute_recall(_read_raw_pdf(file), document.text), note=note)
    if not reference.exists():
        return FileResult(file, note=note)
    wanted = strip_markdown(reference.read_text(encoding="utf-8"))
    heads, table_cells = _compute_structure(wanted, document)
    return FileResult(file, compute_recall(wanted, strip_markdown(document.text)), heads, table_cells, note=note)


def compute_recall(wanted: str, found: str) -> float:
    """The share of the reference words that are found, as a multiset."""
    there, here = Counter(tokenize_words(wanted)), Counter(tokenize_words(found))
    return (there & here).total() / there.total() if there else 1.0


def strip_markdown(markdown: str) -> str:
    """Markdown without comments, link targets and entities; lines and pipes stay."""
    text = _LINK.sub(r"\1", _COMMENT.sub("", markdown))
    return html.unescape(html.unescape(text))


def list_headings(markdown: str) -> list[str]:
    """The words of each heading outside code."""
    found, fenced = [], False
    for line in markdown.splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (match := _HEADING.fullmatch(line)):
            found.append(_normalise_words(match[1]))
    return [heading for heading in found if heading]


def list_cells(markdown: str) -> set[str]:
    """The words of each distinct cell of the pipe tables (lines with pipes, one of them a rule)."""
    found: set[str] = set()
    lines = markdown.splitlines()
    for has_pipe, run in groupby(lines, key=lambda line: "|" in line or bool(_RULE.fullmatch(line) and line.strip())):
        rows = list(run) if has_pipe else []
        if any(_RULE.fullmatch(row) for row in rows):
            found.update(_normalise_words(cell) for row in rows for cell in _CELL.split(row))
    return found - {""}


def _normalise_words(text: str) -> str:
    return " ".join(tokenize_words(_ESCAPE.sub(r"\1", _EMPHASIS.sub("", text))))


def _compute_structure(wanted: str, document: Document) -> tuple[float | None, float | None]:
    """The shares of headings and of table cells that are kept; None if the reference has none."""
    there = Counter(list_headings(wanted))
    here = Counter(_normalise_words(html.unescape(section.label)) for section in document.sections)
    text = strip_markdown(document.text)
    kept = list_cells(text) | {_normalise_words(line) for line in text.splitlines()}
    table_cells = list_cells(wanted)
    return (
        (there & here).total() / there.total() if there else None,
        len(table_cells & kept) / len(table_cells) if table_cells else None,
    )


def _read_raw_pdf(file: Path) -> str:
    import pypdfium2 as pdfium

    pages = [page.get_textpage().get_text_range() for page in pdfium.PdfDocument(file)]
    return "\n".join(pages).replace("\ufffe", "")


def find_files(root: Path) -> list[Path]:
    """The files of the set, without references, manifest and README."""
    found = sorted(path for path in root.rglob("*") if path.is_file() and "reference" not in path.parts)
    return [path for path in found if path not in (root / "manifest.json", root / "README.md")]


def make_table(outcomes: Sequence[FileResult]) -> Iterator[str]:
    """One line per format, then the files that were not read and those below the goal."""
    yield f"{'format':<10}{'files':>6}{'read':>6}{'refused':>8}{'crash':>6}" + "".join(
        f"{name:>8}" for name in _COLUMNS
    )
    formats = sorted({outcome.file.suffix.lower() for outcome in outcomes})
    for suffix in [*formats, "all"]:
        some = [o for o in outcomes if suffix in (o.file.suffix.lower(), "all")]
        refused, crashed = sum(bool(o.reason) for o in some), sum(bool(o.crash) for o in some)
        shares = [_average(some, name) for name in ("words", "headings", "cells")]
        worst = min((o.words for o in some if o.words is not None), default=None)
        yield (
            f"{suffix:<10}{len(some):>6}{len(some) - refused - crashed:>6}{refused:>8}{crashed:>6}"
            f"{_format_share(shares[0])}{_format_share(worst)}{_format_share(shares[1])}{_format_share(shares[2])}"
        )
    for outcome in outcomes:
        if outcome.crash:
            yield f"CRASH    {outcome.file}: {outcome.crash}"
        elif outcome.reason:
            yield f"refused  {outcome.file.name}: {outcome.reason}"
        elif any(share is not None and share < GOAL for share in (outcome.words, outcome.headings, outcome.cells)):
            shown = "".join(map(_format_share, (outcome.words, outcome.headings, outcome.cells)))
            yield f"below {GOAL:.2f}{shown}  {outcome.file.name}  {outcome.note}"


def _average(outcomes: Sequence[FileResult], name: str) -> float | None:
    shares = [share for outcome in outcomes if (share := getattr(outcome, name)) is not None]
    return sum(shares) / len(shares) if shares else None


def _format_share(share: float | None) -> str:
    return f"{share:>8.3f}" if share is not None else f"{'-':>8}"


def main() -> None:
    """Prints the table for a folder."""
    parser = argparse.ArgumentParser(prog="studies.formats", description="How much of each format the readers keep.")
    parser.add_argument("--data", type=Path, required=True, help="the folder multiformat-docs")
    root = parser.parse_args().data
    for line in make_table([measure_file(file, root) for file in find_files(root)]):
        print(line, flush=True)


if __name__ == "__main__":
    main()
