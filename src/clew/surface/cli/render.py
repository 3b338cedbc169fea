"""What people read: plain text in a pipe, the same with colour on a terminal."""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.core.cite import CitationCheck
from clew.core.report import Report
from clew.core.text import terms
from clew.core.types import Context, DocumentRecord, Hit
from clew.surface import to_json as shapes
from clew.surface.cli.progress import duration

Span = tuple[str, str]  # words and their style
CONTROL = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_WORD = re.compile(r"\w+(?:[.'’-]\w+)*")
_QUOTE = 80  # characters of a quote that are shown
_WIDTH = 100  # of a line where there is no terminal


def put(*spans: Span, err: bool = False) -> None:
    """One line of styled words; where it is no terminal, the words alone."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        print("".join(words for words, _ in spans), file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    safe = ((words.translate(CONTROL), style) for words, style in spans)
    Console(file=stream).print(Text.assemble(*safe), soft_wrap=True)


def put_json(value: Any) -> None:
    """The value as JSON on stdout: one line in a pipe, indented on a terminal."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    print(shapes.text(value, indent=2 if sys.stdout.isatty() else None, ascii_only=encoding != "utf8"))


def put_report(done: Report) -> None:
    """The summary on stdout, what failed on stderr."""
    put(
        (f"{len(done.added)} added, {len(done.changed)} changed, {done.skipped} skipped, ", ""),
        (f"{len(done.failed)} failed", "bold red" if done.failed else ""),
        (f"; {done.chunks} chunks, {done.embedded} embedded, {done.reused} reused", ""),
        (f"; {done.dropped} dropped" if done.dropped else "", ""),
        (f"; {duration(done.seconds)}" if done.seconds >= 1 else "", "dim"),
        (f"; cost {done.cost:.4f}" if done.cost else "", "dim"),
    )
    if done.stopped:
        put((done.stopped, "yellow"), err=True)
    for note in done.noted:
        put(("noted: ", "yellow"), (note.source, "bold"), (f": {note.reason}", ""), err=True)
    for failure in done.failed:
        put(("failed: ", "red"), (failure.source, "bold"), (f": {failure.reason}", ""), err=True)


def put_text(text: str) -> None:
    """The text as it is, on stdout; on a terminal without what would steer it."""
    text = text.translate(CONTROL) if sys.stdout.isatty() else text
    print(text, end="" if text.endswith("\n") else "\n")


def put_records(records: Iterable[DocumentRecord]) -> None:
    """A table of documents: with a head on a terminal, tab-separated lines elsewhere."""
    rows = [(one.id, one.kind, str(one.chunks), one.title, one.uri) for one in records]
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(re.sub(r"\s+", " ", cell) for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "kind", "chunks", "title", "uri"):
        table.add_column(name, justify="right" if name == "chunks" else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell.translate(CONTROL)) for cell in row))
    Console().print(table)


def put_hits(hits: Sequence[Hit], records: Mapping[str, DocumentRecord], query: str) -> None:
    """Each hit by rank, score and place, with two lines of its text in which the query's words are marked."""
    width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    asked = frozenset(terms(query, asked=True))
    for rank, hit in enumerate(hits, 1):
        record = records.get(hit.chunk.doc_id)
        title, uri = (record.title, record.uri) if record else ("", "")
        named = title or uri or hit.chunk.doc_id
        headings = hit.chunk.headings[1:] if hit.chunk.headings[:1] == (named,) else hit.chunk.headings
        put(
            (f"{rank}. ", "bold"),
            (f"{_number(hit.score)}  ", "green"),
            (" > ".join((named, *headings)), "bold"),
            (f"  {uri}" if uri and uri != named else "", "dim"),
        )
        for line in snippet(hit.chunk.text, asked, width=width - 4):
            put(("   ", ""), *marked(line, asked))


def put_nothing(reason: str) -> None:
    """The line that says that nothing was found, and why."""
    put((f"nothing found: {reason}", "yellow"))


def put_context(context: Context) -> None:
    """The context's text alone on stdout, what it holds and leaves out in a line on stderr."""
    if context.text:
        put_text(context.text)
    passages = f"{len(context.passages)} passage{'s' if len(context.passages) != 1 else ''}"
    said = f"{passages}, {context.tokens} tokens, {len(context.dropped)} dropped"
    put((f"nothing found: {context.reason}" if not context.passages and context.reason else said, "dim"), err=True)


def put_checks(answers: Sequence[tuple[str, Sequence[CitationCheck]]]) -> None:
    """Each answer with the citations that no longer stand; the count in the end."""
    fallen = 0
    for name, checked in answers:
        lost = [one for one in checked if one.standing != "stands"]
        fallen += bool(lost)
        for one in lost:
            place = one.citation.uri or one.citation.title or one.citation.document
            quote = " ".join(one.citation.quote.split())
            short = quote if len(quote) <= _QUOTE else f"{quote[:_QUOTE]}…"
            put((f"{one.standing}: ", "yellow"), (name, "bold"), (f"  {place}  {short!r}", ""))
    put((f"{len(answers) - fallen} of {len(answers)} answers stand", "" if not fallen else "yellow"))


def put_pairs(shape: Mapping[str, Any]) -> None:
    """A line for each name and its value."""
    wide = max(map(len, shape), default=0) + 2
    for name, value in shape.items():
        put((f"{name:<{wide}}", "bold"), (str(value), ""))


def put_config(shape: Mapping[str, Any]) -> None:
    """A line for each setting: its name, its value, where it came from."""
    put((f"# {shape['file'] or 'there is no clew.toml here or in a folder above'}", "dim"))
    for name, entry in shape["settings"].items():
        value = "none" if entry["value"] is None else shapes.text(entry["value"])
        put((name, "bold"), (f" = {value}", ""), (f"  # {entry['from']}", "dim"))


def snippet(text: str, asked: frozenset[str], *, width: int) -> list[str]:
    """Up to two lines of the text, from where most of the words that were asked for stand close together."""
    flat = " ".join(text.split())
    width = max(20, width)
    room = 2 * width - 10
    if len(flat) > room:
        places = [match.start() for match in _WORD.finditer(flat) if _is_asked(match[0], asked)] or [0]
        first = max(places, key=lambda at: (sum(at <= other < at + room - 40 for other in places), -at))
        begin = max(0, min(first - 30, len(flat) - room))
        begin = flat.find(" ", begin) + 1 if begin else 0
        flat = ("… " if begin else "") + flat[begin:]
    return textwrap.wrap(flat, width, max_lines=2, placeholder=" …")


def marked(line: str, asked: frozenset[str]) -> list[Span]:
    """The line in pieces, the words that were asked for in a style of their own."""
    spans: list[Span] = []
    at = 0
    for match in _WORD.finditer(line):
        if _is_asked(match[0], asked):
            spans += [(line[at : match.start()], ""), (match[0], "bold yellow")]
            at = match.end()
    return [*spans, (line[at:], "")]


def _number(score: float) -> str:
    """The score to three places, or to three digits where it has none before the third."""
    return f"{score:.3f}" if abs(score) >= 0.01 or score == 0 else f"{score:.3g}"


def _is_asked(word: str, asked: frozenset[str]) -> bool:
    return not asked.isdisjoint(terms(word))
