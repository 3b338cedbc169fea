"""The command that converses: questions line by line, answers as they come, sources that keep their numbers."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from clew.core.errors import ClewError, NotFound
from clew.surface.cli import options as o
from clew.surface.cli.commands.answers import Agent, Session
from clew.surface.cli.program import called, opened

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.surface.cli.sessions import Talk

HELP = """Ask in words. A line that begins with / is a command:
  /strategy NAME     how to search from now on; without a name, which there are
  /sources           the documents that were shown, by number
  /read N            the whole document of a number
  /read N QUESTION   what it says on a question, word for word
  /help              this
  /quit              end; so does the end of the input"""


def chat(
    ctx: typer.Context,
    *,
    session: Session = None,
    agent: Agent = False,
    strategy: o.Strategy = None,
    as_json: o.Json = False,
) -> None:
    """Converse with the collection: each question is understood by what was said before it."""
    from clew.surface.cli import render
    from clew.surface.cli import sessions as kept

    with opened(ctx) as engine, kept.talk(engine, called(ctx), session) as talk:
        here = Chat(engine, talk, agent=agent, as_json=as_json)
        if strategy is not None:
            here.choose(strategy)
        if sys.stdin.isatty():
            render.put(("Ask, or /help.", "dim"), err=True)
        for line in lines():
            if line.split()[0] == "/quit":
                return
            try:
                here.turn(line)
            except KeyboardInterrupt:
                render.put(("\ninterrupted", "yellow"), err=True)
            except ClewError as error:
                render.put((f"clew: {error}", "red"), err=True)
            except BrokenPipeError:
                raise
            except Exception as error:  # the conversation is worth more than the question
                render.put((f"clew: unexpected {type(error).__name__}: {error}", "red"), err=True)


@dataclass(slots=True)
class Chat:
    """A conversation with an engine, turn by turn."""

    engine: "Engine"
    talk: "Talk"
    agent: bool = False
    as_json: bool = False
    strategy: str | None = None

    def turn(self, line: str) -> None:
        """Does what a line asks for."""
        if not line.startswith("/"):
            self.answer(line)
            return
        word, *rest = line.split(maxsplit=1)
        commands: dict[str, Callable[[str], None]] = {
            "/strategy": self.choose,
            "/sources": self.sources,
            "/read": self.read,
            "/help": self.help,
        }
        if word not in commands:
            raise NotFound(f"there is no command {word}; /help lists those there are")
        commands[word](" ".join(rest))

    def answer(self, question: str) -> None:
        """Answers, and keeps what was said; an answer that fails or is interrupted leaves no trace."""
        from clew.core.trace import record
        from clew.surface.cli import answer_output as said
        from clew.surface.cli import render

        voice = said.Voice()
        hear = None if self.as_json else voice.hear
        session, history = self.talk.session, self.talk.turns
        with record("chat") as trace:
            if self.agent:
                found = self.engine.agent(
                    question,
                    history=history,
                    session=session,
                    strategy=self.strategy,
                    hear=hear,
                    watch=hear and said.put_step,
                )
            else:
                found = self.engine.ask(question, history=history, session=session, strategy=self.strategy, hear=hear)
        self.talk.said(question, found.text)
        if self.as_json:
            render.put_json(said.shape(found, traced=trace))
        else:
            said.put_answer(found, voice)
            print(flush=True)

    def choose(self, name: str) -> None:
        """Searches by another strategy from now on; without a name, tells which there are."""
        from clew.surface.cli import render

        known = self.engine.strategies
        if not name:
            render.put((f"{self.strategy or 'as the settings say'}; there are {', '.join(known)}", ""))
            return
        if name not in known:
            raise NotFound(f"there is no strategy {name!r}; there are {', '.join(known)}")
        self.strategy = name
        render.put((f"searching by {name}", "dim"), err=True)

    def sources(self, _: str) -> None:
        """Lists the documents that have a number."""
        from clew.core.types import Filter
        from clew.surface.cli import render

        numbers = self.engine.sessions.numbers(self.talk.session)
        records = {each.id: each for each in self.engine.list(Filter(documents=frozenset(numbers)))} if numbers else {}
        for doc_id, number in numbers.items():
            each = records.get(doc_id)
            title, uri = (each.title, each.uri) if each else ("(no longer there)", "")
            render.put((f"[{number}] ", "bold"), (title or uri or doc_id, ""), (f"  {uri}" if title else "", "dim"))
        if not numbers:
            render.put(("no document was shown yet", "dim"))

    def read(self, words: str) -> None:
        """Prints a document by its number, or what it says on a question."""
        from clew.surface.cli import render

        number, *question = words.split(maxsplit=1) or [""]
        if not number.isdecimal():
            raise NotFound("/read needs the number of a document; /sources lists them")
        tools = self.engine.tools(session=self.talk.session)
        if question:
            render.put_text(tools.read_document(int(number), question[0]).text)
        else:
            render.put_text(tools.document(int(number))[1].text)

    def help(self, _: str) -> None:
        """Prints what can be typed."""
        from clew.surface.cli import render

        render.put_text(HELP)


def lines() -> Iterator[str]:
    """What is typed, line by line, until the input ends; an interrupt at the prompt begins a new line."""
    if not sys.stdin.isatty():
        yield from (line.strip() for line in sys.stdin if line.strip())
        return
    with suppress(ImportError):
        import readline  # noqa: F401 (gives the prompt a memory)
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print("\n/quit ends", file=sys.stderr)
            continue
        if line:
            yield line
