"""The command that answers a question: ask, alone or within a saved chat session."""

from typing import TYPE_CHECKING, Annotated

import typer

from clew.core.errors import DriverFailed, SettingsError
from clew.surface.cli import options as o
from clew.surface.cli.errors import CODE_BY_ERROR
from clew.surface.cli.option_groups import report_notes

if TYPE_CHECKING:
    from clew.core import requests as q
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
    from clew.core.trace import record
    from clew.surface.cli import answer_output, render
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
    report_notes(trace)
    if as_json:
        render.print_json(answer_to_json(answer, trace=trace))
    else:
        answer_output.print_answer_sources(answer, printer)
    if answer.fault:
        raise typer.Exit(CODE_BY_ERROR[DriverFailed])
