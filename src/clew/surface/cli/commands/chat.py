"""The commands that answer: ask, and chat, question by question in a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from clew.core.errors import ClewError, DriverFailed, NotFound, SettingsError
from clew.core.filter import Filter
from clew.core.trace import record
from clew.surface.cli import answer_output, render
from clew.surface.cli import options as o
from clew.surface.cli.errors import CODE_BY_ERROR
from clew.surface.cli.option_groups import report_notes
from clew.surface.cli.program import open_engine

if TYPE_CHECKING:
    from clew.core import requests as q
    from clew.engine import Engine
    from clew.engine.sessions import ChatSession
    from clew.surface.cli.option_groups import Asked


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
    """Answer a question with verified citations.

    Without a language model the answer is the best passage, verbatim, with the part that answers in bold.
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
    printer = answer_output.SentencePrinter()
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
        answer_output.print_answer_sources(answer, printer)
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
    """Return chat with the collection; each question is understood in the context of the conversation."""
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

        printer = answer_output.SentencePrinter()
        on_event = None if self.as_json else printer.handle_event
        with record("chat") as trace, printer.searching(quiet=self.as_json):
            if self.agent:
                answer = self.session.agent(question, strategy=self.strategy, on_event=on_event)
            else:
                answer = self.session.ask(question, strategy=self.strategy, on_event=on_event)
        if self.as_json:
            render.print_json(answer_to_json(answer, trace=trace))
        else:
            answer_output.print_answer_sources(answer, printer)
            print(flush=True)

    def choose_strategy(self, name: str) -> None:
        """Search with another strategy from now on; without a name, list them."""
        known = ", ".join(self.engine.strategies)
        if not name:
            render.print_line((f"current: {self.strategy or 'from the settings'}; available: {known}", ""))
            return
        if name not in self.engine.strategies:
            from clew.query.search.strategies import no_strategy_error

            raise no_strategy_error(name, self.engine.strategies)
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
        from clew.query.context.format.messages import format_document_text

        number, *question = words.split(maxsplit=1) or [""]
        if not number.isdecimal():
            raise NotFound("/read needs the number of a document; /sources lists them")
        tools = self.engine.tools(session=self.session.name)
        if question:
            render.print_text(tools.read_document(int(number), question[0]).text)
        else:
            render.print_text(format_document_text(tools.find_document_by_number(int(number))[1])[0])

    def print_help(self, _: str) -> None:
        """Print the commands."""
        render.print_text(HELP)


def read_input_lines() -> Iterator[str]:
    """Yield the lines of stdin that are not empty; on a terminal with a prompt; an interrupt discards the line."""
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
