"""The command that answers a question: ask, alone or within a saved chat session."""

from typing import Annotated

import typer

from clew.core.errors import DriverFailed, SettingsError
from clew.surface.cli import options as o
from clew.surface.cli.errors import CODE_BY_ERROR
from clew.surface.cli.option_groups import SearchOptions, read_question, report_notes
from clew.surface.cli.program import open_engine

Question = Annotated[str, typer.Argument(metavar="QUESTION", help="The question; - reads it from standard input.")]
Session = Annotated[
    str | None, typer.Option("--session", metavar="NAME", help="Continue and save the chat session of this name.")
]
Person = Annotated[
    str | None, typer.Option("--as", metavar="PERSON", help="Answer in the style of this message author.")
]
Agent = Annotated[bool, typer.Option("--agent", help="Let the language model choose its own searches.")]


def ask(
    ctx: typer.Context,
    *,
    question: Question,
    tokens: o.Tokens = None,
    session: Session = None,
    person: Person = None,
    agent: Agent = False,
    options: SearchOptions,
    as_json: o.Json = False,
) -> None:
    """Answer a question with verified citations.

    Without a language model the answer is the best passage, verbatim, with the part that answers in bold.
    """
    from clew.core.trace import record
    from clew.surface.cli import answer_output, render
    from clew.surface.to_json import answer_to_json

    question = read_question(question)
    if agent and (options.k is not None or person is not None):
        option = "-k" if options.k is not None else "--as"
        raise SettingsError(f"--agent and {option} cannot be combined; leave out one of them")
    own = {"search.strategy": options.strategy, "context.tokens": tokens} if agent else {}
    overrides = {**options.to_setting_overrides(), **own}
    printer = answer_output.SentencePrinter()
    on_event = None if as_json else printer.handle_event
    with open_engine(ctx, overrides) as engine:
        where = options.build_filter(engine)
        source = engine if session is None else engine.chat(session)
        with record("ask") as trace, printer.searching(quiet=as_json):
            if agent:
                answer = source.agent(question, where=where, on_event=on_event)
            else:
                answer = source.ask(
                    question,
                    tokens=tokens,
                    k=options.k,
                    strategy=options.strategy,
                    where=where,
                    person=person,
                    on_event=on_event,
                )
    report_notes(trace)
    if as_json:
        render.print_json(answer_to_json(answer, trace=trace))
    else:
        answer_output.print_answer_sources(answer, printer)
    if answer.fault:
        raise typer.Exit(CODE_BY_ERROR[DriverFailed])
