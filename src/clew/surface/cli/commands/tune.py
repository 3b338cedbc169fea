"""The command that chooses settings by judged questions, keeps them, and takes them back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.program import open_engine

if TYPE_CHECKING:
    from clew.engine import Engine

Questions = Annotated[
    Path | None, typer.Argument(metavar="QUESTIONS", help="Judged questions: a JSON Lines file or a BEIR folder.")
]
Measure = Annotated[
    str, typer.Option("--measure", metavar="NAME", help="What is to grow: nDCG@10, recall@10, context, …")
]
Tries = Annotated[
    list[str] | None,
    typer.Option("--try", metavar="NAME=V,V", help="Values of a setting to try, in place of the usual (repeatable)."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Keep nothing.")]
Rollback = Annotated[bool, typer.Option("--rollback", help="Take back what was kept last.")]
Show = Annotated[bool, typer.Option("--show", help="Show what is kept.")]
Cut = Annotated[int, typer.Option("-k", metavar="N", help="Documents that the measures look at.", min=1)]
Tokens = Annotated[int | None, typer.Option("--tokens", metavar="N", help="Budget of the context.", min=1)]


def tune(
    ctx: typer.Context,
    *,
    questions: Questions = None,
    measure: Measure = "",
    tries: Tries = None,
    k: Cut = 10,
    tokens: Tokens = None,
    dry_run: DryRun = False,
    rollback: Rollback = False,
    show: Show = False,
    as_json: o.Json = False,
) -> None:
    """Choose settings of the search by judged questions; they are kept only if held-out questions agree."""
    from clew.evaluation.questions.judged import read_questions
    from clew.evaluation.tune import tune
    from clew.surface.cli import progress
    from clew.surface.cli.evaluation_output import parse_setting_values, print_tuning

    if rollback or show:
        with open_engine(ctx) as engine:
            _show_kept(engine, rollback=rollback, as_json=as_json)
        return
    if questions is None:
        ctx.fail("Missing argument 'QUESTIONS', or --rollback, or --show.")
    asked = read_questions(questions)
    candidates = dict(parse_setting_values(each, option="--try") for each in tries or ())
    with open_engine(ctx) as engine, progress.report_progress() as on_progress:
        made = tune(
            engine,
            asked,
            measure=measure,
            candidates=candidates or None,
            k=k,
            tokens=tokens,
            dry_run=dry_run,
            on_progress=on_progress,
        )
    print_tuning(made, as_json=as_json)


def _show_kept(engine: "Engine", *, rollback: bool, as_json: bool) -> None:
    from clew.evaluation.tune import list_tunings, rollback_tuning
    from clew.surface.cli.evaluation_output import print_kept_settings

    taken_back = rollback_tuning(engine) if rollback else None
    print_kept_settings(list_tunings(engine), taken_back=taken_back, rollback=rollback, as_json=as_json)
