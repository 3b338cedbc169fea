"""The command that answers a question, by itself or in a conversation that is kept."""

from typing import Annotated

import typer

from clew.core.errors import DriverFailed, SettingsError
from clew.surface.cli import options as o
from clew.surface.cli.errors import CODES
from clew.surface.cli.program import called, opened
from clew.surface.cli.search_options import Wanted, searching

Asked = Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask, in words.")]
Session = Annotated[
    str | None,
    typer.Option("--session", metavar="NAME", help="Go on with a conversation of that name, and keep it."),
]
Person = Annotated[
    str | None, typer.Option("--as", metavar="PERSON", help="Answer in the manner of someone who writes messages.")
]
Agent = Annotated[bool, typer.Option("--agent", help="Let the language model choose and chain its own searches.")]


@searching
def ask(
    ctx: typer.Context,
    *,
    question: Asked,
    tokens: o.Tokens = None,
    session: Session = None,
    person: Person = None,
    agent: Agent = False,
    wanted: Wanted,
    as_json: o.Json = False,
) -> None:
    """Answer a question with citations that were checked; without a language model, by the best sentences."""
    from clew.core.trace import record
    from clew.surface.cli import answer_output as said
    from clew.surface.cli import render
    from clew.surface.cli import sessions as kept

    if agent and (wanted.k is not None or person is not None):
        option = "-k" if wanted.k is not None else "--as"
        raise SettingsError(f"--agent and {option} do not go together; leave out one of them")
    own = {"search.strategy": wanted.strategy, "context.tokens": tokens} if agent else {}
    given = {**wanted.flags(), **own}
    voice = said.Voice()
    hear = None if as_json else voice.hear
    with opened(ctx, given) as engine, kept.talk(engine, called(ctx, given), session) as talk:
        where = wanted.where(engine)
        name = talk.session if session else None
        with record("ask") as trace:
            if agent:
                answer = engine.agent(
                    question, where=where, history=talk.turns, session=name, hear=hear, watch=hear and said.put_step
                )
            else:
                answer = engine.ask(
                    question,
                    tokens=tokens,
                    k=wanted.k,
                    strategy=wanted.strategy,
                    where=where,
                    history=talk.turns,
                    session=name,
                    person=person,
                    hear=hear,
                )
        talk.said(question, answer.text)
    if as_json:
        render.put_json(said.shape(answer, traced=trace))
    else:
        said.put_answer(answer, voice)
    if answer.fault:
        raise typer.Exit(CODES[DriverFailed])
