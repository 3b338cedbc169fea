"""The commands that answer: ask, and chat in a terminal; tokens and sentences are printed as they come."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len

from clew.core.attribution import format_attribution
from clew.core.errors import ClewError, DriverFailed, NotFound, SettingsError
from clew.core.events import SentenceEvent, StepEvent, StepStartEvent, TokenEvent, VerdictEvent
from clew.core.filter import Filter
from clew.core.suggest import unknown_name_error
from clew.core.time import format_seconds
from clew.core.trace import record
from clew.surface.cli import options as o
from clew.surface.cli import render
from clew.surface.cli.errors import CODE_BY_ERROR
from clew.surface.cli.option_groups import report_notes
from clew.surface.cli.program import open_engine
from clew.surface.cli.table import clean_for_stream, clean_text, wrap_words

if TYPE_CHECKING:
    from clew.core import requests as q
    from clew.core.answer import Answer, AnswerSentence
    from clew.core.cite import Citation
    from clew.core.events import AnswerEvent
    from clew.core.trace import Trace
    from clew.engine import Engine
    from clew.engine.sessions import ChatSession
    from clew.surface.cli.option_groups import Asked


_DIM = "\x1b[2m"
_MARKS = re.compile(r"\s*[\[(【]\d+(?:\s*[,;]\s*\d+)*[\])】]")
_BETWEEN = re.compile(rf"(?:{_MARKS.pattern}|[^\w\[(【])*")


class Preview:
    """The unchecked end of a reply, dim, after the printed text; nothing in a pipe or on a terminal that cannot erase.

    Once the text is as high as the terminal, no more of it is drawn, since what has scrolled away cannot be erased.
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
        """Erase the shown text; `_draw` shows it again."""
        if self._shown:
            rows = _count_rows(self._shown, self._column, shutil.get_terminal_size().columns)
            up = f"\x1b[{rows - 1}A" if rows > 1 else ""
            right = f"\x1b[{self._column}C" if self._column else ""
            print(f"{up}\r{right}\x1b[J", end="", flush=True)
        self._shown = ""

    def drop(self) -> None:
        """Erase the shown text and forget it."""
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
    """Prints sentences as soon as they are checked, wrapped between words on a terminal.

    Before the first sentence a terminal shows that it is searching, and then what the model writes, dim until checked.
    """

    def __init__(self) -> None:
        self._last = ""
        self._column = 0
        self._is_searching = False
        self._preview = Preview()

    def handle_event(self, event: "AnswerEvent") -> None:
        """Print an event as it happens."""
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
        """Show on a terminal that an answer is being searched for until the block ends; not if `quiet`."""
        if not quiet:
            self.show_searching()
        try:
            yield
        finally:
            self.clear_searching()
            self._preview.drop()

    def show_searching(self) -> None:
        """Show on stderr, if that is a terminal, that an answer is being searched for."""
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


Session = Annotated[
    str | None, typer.Option("--session", metavar="NAME", help="Continue and save the chat session of this name.")
]
Agent = Annotated[bool, typer.Option("--agent", help="Let the language model choose its own searches.")]


def ask(
    ctx: typer.Context,
    *,
    asked: "Asked[q.Ask]",
    session: Session = None,
    agent: Agent = False,
    as_json: o.Json = False,
) -> None:
    """Answer a question with checked citations.

    Without a language model it quotes up to three passages, with the part that answers in bold.
    """
    from clew.core import requests as q
    from clew.surface.to_json import answer_to_json
    from clew.surface.verbs import call_verb, list_arguments

    own = {}
    if agent:
        k, person, strategy, tokens = (asked.values[name] for name in ("k", "person", "strategy", "tokens"))
        if k is not None or person is not None:
            raise SettingsError(f"--agent and {'-k' if k is not None else '--as'} cannot be combined; leave out one")
        own = {"search.strategy": strategy, "context.tokens": tokens}
    printer = SentencePrinter()
    on_event = None if as_json else printer.handle_event
    with asked.open(ctx, own, warn=False) as (engine, request):
        kept = None if session is None else engine.chat(session)
        with record("ask") as trace, printer.searching(quiet=as_json):
            if agent:
                answer = (kept or engine).agent(request.question, where=request.where, on_event=on_event)
            elif kept is not None:
                answer = kept.ask(**list_arguments(request, q.Chat), on_event=on_event)
            else:
                answer = call_verb(engine, request, on_event=on_event)
    if as_json:
        render.print_json(answer_to_json(answer, trace=trace))
    else:
        print_answer_sources(answer, printer)
    report_notes(trace)
    if answer.fault:
        raise typer.Exit(CODE_BY_ERROR[DriverFailed])


HELP = """Type a question. A line that starts with / is a command:
  /strategy NAME     search with this strategy from now on; without a name, list them
  /sources           list the documents shown so far, by number
  /read N            print the whole document with this number
  /read N QUESTION   print the parts of it that answer a question, verbatim
  /help              print this help
  /quit              quit; so does the end of the input"""


def chat(
    ctx: typer.Context,
    *,
    session: Session = None,
    agent: Agent = False,
    strategy: o.Strategy = None,
    as_json: o.Json = False,
) -> None:
    """Chat with the collection; each question is understood in the context of the conversation."""
    with open_engine(ctx) as engine:
        console = ChatConsole(engine, engine.chat(session), agent=agent, as_json=as_json)
        if strategy is not None:
            console.choose_strategy(strategy)
        if sys.stdin.isatty():
            render.print_line(("Type a question, or /help.", "dim"), err=True)
        for line in read_input_lines():
            if line.split()[0] == "/quit":
                return
            try:
                console.handle_line(line)
            except KeyboardInterrupt:
                render.print_line(("\ninterrupted", "yellow"), err=True)
            except ClewError as error:
                render.print_line((f"clew: {error.message}", "red"), err=True)
            except BrokenPipeError:
                raise
            except Exception as error:  # one failed question must not end the conversation
                render.print_line((f"clew: unexpected {type(error).__name__}: {error}", "red"), err=True)


@dataclass(slots=True)
class ChatConsole:
    """Handles the lines typed in a chat: questions and commands."""

    engine: "Engine"
    session: "ChatSession"
    agent: bool = False
    as_json: bool = False
    strategy: str | None = None

    def handle_line(self, line: str) -> None:
        """Answer a question or run a command."""
        if not line.startswith("/"):
            self.answer_question(line)
            return
        word, *rest = line.split(maxsplit=1)
        commands: dict[str, Callable[[str], None]] = {
            "/strategy": self.choose_strategy,
            "/sources": self.print_sources,
            "/read": self.print_document,
            "/help": self.print_help,
        }
        if word not in commands:
            raise NotFound(f"there is no command {word}; /help lists them")
        commands[word](" ".join(rest))

    def answer_question(self, question: str) -> None:
        """Print the answer to a question; a failed or interrupted one is not added to the conversation."""
        from clew.surface.to_json import answer_to_json

        printer = SentencePrinter()
        on_event = None if self.as_json else printer.handle_event
        with record("chat") as trace, printer.searching(quiet=self.as_json):
            if self.agent:
                answer = self.session.agent(question, strategy=self.strategy, on_event=on_event)
            else:
                answer = self.session.ask(question, strategy=self.strategy, on_event=on_event)
        if self.as_json:
            render.print_json(answer_to_json(answer, trace=trace))
        else:
            print_answer_sources(answer, printer)
            print(flush=True)

    def choose_strategy(self, name: str) -> None:
        """Search with another strategy from now on; without a name, list them."""
        known = ", ".join(self.engine.strategies)
        if not name:
            render.print_line((f"current: {self.strategy or 'from the settings'}; available: {known}", ""))
            return
        if name not in self.engine.strategies:
            raise unknown_name_error("strategy", name, self.engine.strategies)
        self.strategy = name
        render.print_line((f"strategy: {name}", "dim"), err=True)

    def print_sources(self, _: str) -> None:
        """List the numbered documents."""
        numbers = self.session.numbers
        found = self.engine.list(Filter(documents=frozenset(numbers))) if numbers else ()
        records = {record.id: record for record in found}
        for doc_id, number in numbers.items():
            record = records.get(doc_id)
            title, uri = (record.title, record.uri) if record else ("(deleted)", "")
            name = title or uri or doc_id
            render.print_line((f"[{number}] ", "bold"), (name, ""), (f"  {uri}" if title else "", "dim"))
        if not numbers:
            render.print_line(("no documents shown yet", "dim"))

    def print_document(self, words: str) -> None:
        """Print a document by its number, or the parts of it that answer a question."""
        from clew.query.agent.reader import remove_quote_tags
        from clew.query.context.format.messages import format_document_text

        number, *question = words.split(maxsplit=1) or [""]
        if not number.isdecimal():
            raise NotFound("/read needs the number of a document; /sources lists them")
        tools = self.engine.tools(session=self.session.name)
        if question:
            render.print_text(remove_quote_tags(tools.read_document(int(number), question[0]).text))
        else:
            render.print_text(format_document_text(tools.find_document_by_number(int(number))[1])[0])

    def print_help(self, _: str) -> None:
        """Print the commands."""
        render.print_text(HELP)


def read_input_lines() -> Iterator[str]:
    """Yield the non-empty lines of stdin; on a terminal with a prompt, where an interrupt discards the line."""
    if not sys.stdin.isatty():
        yield from (line.strip() for line in sys.stdin if line.strip())
        return
    with suppress(ImportError):
        import readline  # noqa: F401 (gives the prompt a history)
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print("\n/quit to quit", file=sys.stderr)
            continue
        if line:
            yield line
