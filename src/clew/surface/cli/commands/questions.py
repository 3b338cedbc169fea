"""The commands that search and explain results: search, context, explain, why-not, check."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clew.core.trace import record
from clew.surface.cli import options as o
from clew.surface.cli import render
from clew.surface.cli.errors import CITATIONS_INVALID
from clew.surface.cli.files import load_citations
from clew.surface.cli.option_groups import Seen, report_notes, warn_of_unknown_names
from clew.surface.cli.program import open_engine

if TYPE_CHECKING:
    from clew.core import requests as q
    from clew.surface.cli.option_groups import Asked


def search(ctx: typer.Context, *, asked: "Asked[q.Search]", as_json: o.Json = False) -> None:
    """Find the most relevant chunks.

    The number beside each is its relevance: the chance, from 0 to 1, that it answers.
    """
    from clew.surface.verbs import call_verb

    with asked.open(ctx) as (engine, request):
        with record("search") as trace:
            hits = call_verb(engine, request)
        report_notes(trace)
        reason, languages = "", engine.opened.store.language_counts().keys()
        if hits:
            warn_of_unknown_names(engine, request.where)
        else:
            from clew.surface.verbs import explain_empty_result

            reason = explain_empty_result(engine, request)
    if as_json:
        from clew.surface.to_json import search_to_json

        render.print_json(search_to_json(hits, reason=reason, trace=trace))
    elif hits:
        said: Any = request.query  # messages, where it is a conversation
        text = said if isinstance(said, str) else "\n".join(each.text for each in said)
        render.print_hits(hits, text, languages=languages)
    else:
        render.print_no_results(reason)


def context(ctx: typer.Context, *, asked: "Asked[q.Context]", as_json: o.Json = False) -> None:
    """Print the context for a prompt: cited passages within a token budget."""
    from clew.surface.to_json import context_to_json
    from clew.surface.verbs import call_verb

    with asked.open(ctx) as (engine, request):
        with record("context") as trace:
            found = call_verb(engine, request)
        report_notes(trace)
    if as_json:
        render.print_json(context_to_json(found, trace=trace))
    else:
        render.print_context(found)


AnswerFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Saved output of `ask --json` or `context --json`, one or more objects; - reads standard input.",
    ),
]


def explain(ctx: typer.Context, *, asked: "Asked[q.Explain]", as_json: o.Json = False) -> None:
    """Show the stages of a search with counts and times, and every number of each result."""
    from clew.surface.verbs import call_verb

    with asked.open(ctx, warn=True) as (engine, request):
        explanation = call_verb(engine, request)
    if as_json:
        render.print_json(explanation)
    else:
        render.print_line((str(explanation), ""))


def why_not(ctx: typer.Context, *, asked: "Asked[q.WhyNot]", as_json: o.Json = False) -> None:
    """Show which stage lost a missing result, and the smallest setting change that finds it.

    With --tokens it examines the context of that many tokens, otherwise the search results. With --conversation the
    query may be left out.
    """
    from clew.surface.verbs import call_verb

    with asked.open(ctx) as (engine, request):
        reason = call_verb(engine, request)
    if as_json:
        render.print_json(reason)
    else:
        render.print_text(str(reason))


def check(ctx: typer.Context, *, file: AnswerFile, seen: Seen, as_json: o.Json = False) -> None:
    """List citations that moved, changed or are gone in the collection; exit with 8 if there are any."""
    from clew.surface.to_json import citation_checks_to_json

    answers = load_citations(file)
    with open_engine(ctx) as engine:
        where = seen.build_filter(engine)
        checks = [(question, engine.check(citations, where=where)) for question, citations in answers]
    if as_json:
        render.print_json(citation_checks_to_json(checks))
    else:
        render.print_citation_checks(checks)
    if any(check.standing != "stands" for _, checked in checks for check in checked):
        raise typer.Exit(CITATIONS_INVALID)
