"""Prints an answer: tokens and sentences as they come, then its numbered sources; the verdicts go to stderr."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.cells import cell_len

from clew.core.attribution import format_attribution
from clew.core.events import SentenceEvent, StepEvent, StepStartEvent, TokenEvent, VerdictEvent
from clew.core.time import format_seconds
from clew.surface.cli import render
from clew.surface.cli.table import clean_for_stream, clean_text, wrap_words

if TYPE_CHECKING:
    from clew.core.answer import Answer, AnswerSentence
    from clew.core.cite import Citation
    from clew.core.events import AnswerEvent
    from clew.core.trace import Trace


_DIM = "\x1b[2m"
_MARKS = re.compile(r"\s*[\[(【]\d+(?:\s*[,;]\s*\d+)*[\])】]")
_BETWEEN = re.compile(rf"(?:{_MARKS.pattern}|[^\w\[(【])*")


class Preview:
    """The unchecked end of a reply, dim, behind what was printed; nothing on a pipe or a terminal that cannot erase.

    Of a text that is higher than the terminal the beginning is shown, since what has
    scrolled away cannot be erased.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._shown = ""
        self._column = 0

    def add(self, text: str, *, column: int) -> None:
        """Show a further piece of the reply."""
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            self._pending += clean_text(text, terminal=True)
            self._draw(column)

    def clear(self) -> None:
        """Erase what is shown; `redraw` shows it again."""
        if self._shown:
            rows = _count_rows(self._shown, self._column, shutil.get_terminal_size().columns)
            up = f"\x1b[{rows - 1}A" if rows > 1 else ""
            right = f"\x1b[{self._column}C" if self._column else ""
            print(f"{up}\r{right}\x1b[J", end="", flush=True)
        self._shown = ""

    def drop(self) -> None:
        """Erase what is shown and forget it."""
        self.clear()
        self._pending = ""

    def skip_sentence(self, sentence: str, *, column: int) -> None:
        """Forget a sentence that was checked, with its citation marks, and show the rest again."""
        if not self._pending:
            return
        self.clear()
        left = sum(map(str.isalnum, sentence))
        at = 0
        while at < len(self._pending) and left > 0:
            if marks := _MARKS.match(self._pending, at):
                at = marks.end()
                continue
            left -= self._pending[at].isalnum()
            at += 1
        between = _BETWEEN.match(self._pending, at)
        self._pending = self._pending[between.end() if between else at :]
        self._draw(column)

    def _draw(self, column: int) -> None:
        size = shutil.get_terminal_size()
        text = wrap_words(self._pending, width=size.columns, column=column)
        if _count_rows(text, column, size.columns) >= size.lines:
            return
        if self._column != column or not text.startswith(self._shown):
            self.clear()
        self._column = column
        if new := text[len(self._shown) :]:
            print(f"{_DIM}{new}{_PLAIN}", end="", flush=True)
        self._shown = text


def _count_rows(text: str, column: int, width: int) -> int:
    """Count the rows of a terminal that a text takes if it begins at a column."""
    lines = text.split("\n")
    cells = [cell_len(line) + (column if at == 0 else 0) for at, line in enumerate(lines)]
    return sum(max(1, -(-each // width)) for each in cells)


SEARCHING = "Searching …"
_CLEAR_LINE = "\r\x1b[K"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class SentencePrinter:
    """Prints sentences as soon as they are checked; on a terminal no word is broken at the end of a line.

    Until the first of them a terminal shows that it is searching, and then what the model writes, dim until it is
    checked.
    """

    def __init__(self) -> None:
        self._last = ""
        self._column = 0
        self._is_searching = False
        self._preview = Preview()

    def handle_event(self, event: "AnswerEvent") -> None:
        """Print what an event tells, as it happens."""
        if isinstance(event, TokenEvent):
            self.clear_searching()
            self._preview.add(event.text, column=self._column)
        elif isinstance(event, StepStartEvent):
            self._preview.drop()  # what the model wrote before a step is no answer
            self.show_searching()
        elif isinstance(event, StepEvent):
            self.print_step(event.step)
        elif isinstance(event, SentenceEvent):
            self.print_sentence(event.text, event.highlight)
        elif isinstance(event, VerdictEvent):
            self._preview.skip_sentence(event.sentence.text, column=self._column)

    @contextmanager
    def searching(self, *, quiet: bool = False) -> Iterator[None]:
        """Show that the answer is being looked for until it comes, or an error; not if `quiet`."""
        if not quiet:
            self.show_searching()
        try:
            yield
        finally:
            self.clear_searching()
            self._preview.drop()

    def show_searching(self) -> None:
        """Show on stderr, if that is a terminal, that the answer is being looked for."""
        if sys.stderr.isatty() and not self._last and not self._is_searching:
            print(SEARCHING, end="", file=sys.stderr, flush=True)
            self._is_searching = True

    def clear_searching(self) -> None:
        """Remove what `show_searching` has shown."""
        if self._is_searching:
            print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)
        self._is_searching = False

    def print_step(self, step: "Trace") -> None:
        """Print a tool call of an agent on stderr."""
        self.clear_searching()
        print_agent_step(step)
        self.show_searching()

    def print_sentence(self, sentence: str, highlight: tuple[int, int] = (0, 0)) -> None:
        """Print a sentence at once; on a terminal the highlighted span is bold."""
        self.clear_searching()
        self._preview.clear()
        self._last = sentence
        start, end = highlight
        for text, is_bold in ((sentence[:start], False), (sentence[start:end], True), (sentence[end:], False)):
            self._print_piece(clean_for_stream(text, sys.stdout), is_bold=is_bold)

    def _print_piece(self, text: str, *, is_bold: bool) -> None:
        if text and sys.stdout.isatty():
            text = wrap_words(text, width=shutil.get_terminal_size().columns, column=self._column)
            self._column = len(text) - text.rindex("\n") - 1 if "\n" in text else self._column + len(text)
            text = f"{_BOLD}{text}{_PLAIN}" if is_bold and "NO_COLOR" not in os.environ else text
        print(text, end="", flush=True)

    def finish_answer(self, answer: "Answer") -> None:
        """End the last line; if no sentence was printed, print the whole answer."""
        self.clear_searching()
        self._preview.drop()
        if not self._last:
            render.print_text(answer.text)
        elif not self._last.endswith("\n"):
            print()


def print_answer_sources(answer: "Answer", printer: SentencePrinter) -> None:
    """End the printed sentences and print the sources, then the verdicts, fault and reason."""
    printer.finish_answer(answer)
    numbered = ((answer.citation_number(place), citation) for place, citation in enumerate(answer.citations))
    lines = dict.fromkeys(f"[{number}] {format_source(citation)}" for number, citation in numbered)
    if lines:
        print()
    for line in lines:
        render.print_line((line, "dim"))
    if answer.searched:
        render.print_line((f"searched for: {answer.searched}", "dim"), err=True)
    for removed in answer.removed:
        label = "citation corrected" if removed.kept else "removed"
        text = " ".join(removed.text.split())
        render.print_line((f"{label}: ", "yellow"), (f"{text} ({removed.reason})", ""), err=True)
    for sentence in answer.sentences:
        if sentence.shown and (sentence.verdict != "supported" or not sentence.is_read):
            print_verdict(sentence)
    if answer.fault:
        render.print_line((f"clew: the answer is incomplete: {answer.fault}", "red"), err=True)
    if answer.reason and not answer.text.startswith(answer.reason):
        label = "" if answer.found else "No clear answer: " if answer.citations else "No answer found: "
        render.print_line((f"{label}{answer.reason}", "yellow"), err=True)


def print_verdict(sentence: "AnswerSentence") -> None:
    """Print on stderr why a sentence is not supported or not checked, and what the passage says instead."""
    labels = {"unsupported": "not supported", "unsure": "not sure", "supported": "not checked"}
    label = labels[sentence.verdict]
    text = " ".join(sentence.text.split())
    render.print_line((f"{label}: ", "yellow"), (f"{text} ({sentence.reason})", ""), err=True)
    for label, citations in (("the passage says", sentence.contradicted_by), ("nearest", sentence.nearest)):
        for cited in citations:
            said = " ".join(cited.quote.split())
            render.print_line((f"  {label}: ", "dim"), (f"{said}  ({format_source(cited)})", ""), err=True)


def print_agent_step(step: "Trace") -> None:
    """Print a tool call of an agent on stderr."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in step.notes.items() if name != "error")
    result = f"error: {step.notes['error']}" if "error" in step.notes else f"{step.out} found"
    render.print_line((f"{step.name}({arguments}): {result}, {step.ms:.0f} ms", "dim"), err=True)


def format_source(citation: "Citation") -> str:
    """Format the source of a citation: title, section, URI, page, line or second; of a message its author and time."""
    name = citation.title or citation.uri or citation.document
    path = render.join_headings(name, citation.section)
    page = f"page {citation.page}" if citation.page is not None else ""
    line = f"line {citation.line}" if citation.line is not None else ""
    time = format_seconds(citation.second) if citation.second is not None else ""
    said_by = format_attribution(citation.author, citation.at) if citation.message else ""
    uri = citation.uri if citation.uri != name else ""
    return "  ".join(filter(None, (" ".join(path.split()), uri, page, line, time, said_by)))
