"""The commands that measure a collection on judged questions, and choose its settings by them: evaluate, tune."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from clew.core.errors import NotFound, SettingsError
from clew.core.suggest import format_count
from clew.surface.cli import options as o
from clew.surface.cli import progress, render
from clew.surface.cli.option_groups import Seen, expand_option_groups
from clew.surface.cli.program import open_engine

if TYPE_CHECKING:
    from clew.engine import Engine


RUN = "run"  # the part that is meant where none is named


class EvaluateGroup(TyperGroup):
    """The group of `clew evaluate`: what is not the name of a part is the questions of a run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with `run` in front if they name no part."""
        first = args[0] if args else ""
        if args and first not in self.commands and first not in ("--help", "-h"):
            args = [RUN, *args]
        return super().parse_args(ctx, args)


evaluate_app = typer.Typer(
    cls=EvaluateGroup,
    add_completion=False,
    no_args_is_help=True,
    help="Measure strategies and settings on judged questions: `clew evaluate QUESTIONS`, or one of the parts below.",
)
Questions = Annotated[
    Path, typer.Argument(metavar="QUESTIONS", help="Judged questions: a JSON Lines file or a BEIR folder.")
]
Strategies = Annotated[
    list[str] | None, typer.Option("--strategy", metavar="NAME", help="Strategy to measure (repeatable).")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=V,V", help="Also measure with these values of a setting (repeatable: a grid)."),
]
Cut = Annotated[int, typer.Option("-k", metavar="N", help="Documents that the measures look at.", min=1)]
Hits = Annotated[
    int | None, typer.Option("--hits", metavar="N", help="Chunks fetched for each question (default: 2 k).", min=1)
]
Tokens = Annotated[int | None, typer.Option("--tokens", metavar="N", help="Budget of the context; 0: none.", min=0)]
Answers = Annotated[bool, typer.Option("--answers", help="Also answer each question; a model is paid for it.")]
Measures = Annotated[
    list[str] | None, typer.Option("--measure", metavar="NAME", help="Measure to compare (repeatable).")
]
Runs = Annotated[
    Path | None, typer.Option("--runs", metavar="FOLDER", help="Folder of the runs (default: in the collection).")
]
NoKeep = Annotated[bool, typer.Option("--no-keep", help="Keep nothing of the run.")]
Restart = Annotated[bool, typer.Option("--restart", help="Do not continue a run that broke off.")]
Worst = Annotated[
    int, typer.Option("--worst", metavar="N", help="Also show the N questions with the lowest measure.", min=0)
]
QuestionFile = Annotated[
    Path | None,
    typer.Option("--questions", metavar="FILE", help="The questions of the run, for their texts; it keeps none."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, or last.")]
RunIds = Annotated[list[str], typer.Argument(metavar="RUN RUN...", help="Ids of runs.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="Where the questions are written.")]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files are written.")]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="NAME",
        help="headings, titles, replies, feedback or model (repeatable; default: model, else the first three).",
    ),
]
Count = Annotated[int, typer.Option("--count", metavar="N", help="At most so many questions.", min=1)]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of the random choice where there are more.")]


def run(
    ctx: typer.Context,
    *,
    questions: Questions,
    strategy: Strategies = None,
    sets: Sets = None,
    k: Cut = 10,
    hits: Hits = None,
    tokens: Tokens = None,
    answers: Answers = False,
    measure: Measures = None,
    seen: Seen,
    runs: Runs = None,
    no_keep: NoKeep = False,
    restart: Restart = False,
    worst: Worst = 0,
    as_json: o.Json = False,
) -> None:
    """Ask every strategy with every setting all questions, and test the differences; the word run may be left out."""
    from clew.evaluation.evaluating import evaluate
    from clew.evaluation.questions.judged import read_questions
    from clew.surface.cli.evaluation_output import build_setting_grid, print_evaluation, warn_if_not_kept

    asked = read_questions(questions)  # a mistake in the file shows before anything is opened
    with open_engine(ctx) as engine, progress.report_progress() as on_progress:
        made = evaluate(
            engine,
            questions,
            strategies=strategy or (),
            settings=build_setting_grid(engine.settings, sets or ()),
            k=k,
            hits=hits,
            tokens=tokens,
            answers=answers,
            where=seen.build_filter(engine),
            measures=measure or (),
            keep=not no_keep,
            folder=runs,
            resume=not restart,
            on_progress=on_progress,
        )
    print_evaluation(made, worst=worst, measures=measure or (), asked=asked, as_json=as_json)
    warn_if_not_kept(made, wanted=not no_keep)


evaluate_app.command(RUN)(expand_option_groups(run))


def make(
    ctx: typer.Context,
    *,
    file: File,
    source: Sources = None,
    count: Count = 200,
    seed: Seed = 0,
    force: Force = False,
    seen: Seen,
    as_json: o.Json = False,
) -> None:
    """Make questions from the collection itself, with the spans that answer them, and write them to a file."""
    from clew.evaluation.questions.judged import format_question, write_questions
    from clew.evaluation.questions.make import NO_QUESTIONS, QuestionSource, make_questions

    if file.exists() and not force:
        raise SettingsError(f"{file} is there already; --force replaces it")
    with open_engine(ctx) as engine, progress.report_progress() as on_progress:
        made = make_questions(
            engine,
            sources=cast(list[QuestionSource], source or []),
            count=count,
            seed=seed,
            where=seen.build_filter(engine),
            feedback=engine.list_feedback() if "feedback" in (source or ()) else None,
            on_progress=on_progress,
        )
    if not made:
        raise NotFound(NO_QUESTIONS)
    write_questions(file, made)
    if as_json:
        render.print_json({"file": str(file), "questions": [format_question(each) for each in made]})
    else:
        render.print_line((f"{format_count(len(made), 'question')} written to {file}; `clew evaluate {file}`", ""))


evaluate_app.command("make")(expand_option_groups(make))


@evaluate_app.command("list")
def list_(ctx: typer.Context, *, runs: Runs = None, as_json: o.Json = False) -> None:
    """List the runs that are kept, the oldest first."""
    from clew.evaluation.runs import list_runs
    from clew.surface.cli.evaluation_output import print_runs

    with open_engine(ctx) as engine:
        print_runs(list_runs(engine, folder=runs), as_json=as_json)


@evaluate_app.command()
def show(
    ctx: typer.Context,
    *,
    run: RunId = "last",
    measure: Measures = None,
    runs: Runs = None,
    worst: Worst = 0,
    questions: QuestionFile = None,
    as_json: o.Json = False,
) -> None:
    """Show a run that was kept, the last one by default."""
    from clew.evaluation.questions.judged import read_questions
    from clew.evaluation.report import score_run
    from clew.evaluation.runs import read_run
    from clew.surface.cli.evaluation_output import print_evaluation

    asked = read_questions(questions) if questions else []
    with open_engine(ctx) as engine:
        made = score_run(read_run(engine, run, folder=runs), measures=measure or ())
    print_evaluation(made, worst=worst, measures=measure or (), asked=asked, as_json=as_json)


@evaluate_app.command()
def compare(
    ctx: typer.Context,
    *,
    runs: RunIds,
    measure: Measures = None,
    folder: Runs = None,
    as_json: o.Json = False,
) -> None:
    """Compare the systems of several runs on the questions that all of them have; the first is the baseline."""
    from clew.evaluation.report import merge_runs, score_run
    from clew.evaluation.runs import read_run
    from clew.surface.cli.evaluation_output import print_evaluation

    if len(runs) < 2:
        ctx.fail("Name two runs or more; `clew evaluate list` shows them.")
    with open_engine(ctx) as engine:
        merged = merge_runs([read_run(engine, each, folder=folder) for each in runs])
    made = score_run(merged, measures=measure or ())
    print_evaluation(made, as_json=as_json)


@evaluate_app.command()
def export(ctx: typer.Context, *, run: RunId, folder: Folder, runs: Runs = None, as_json: o.Json = False) -> None:
    """Write a run and its judgements in the format of TREC."""
    from clew.evaluation.runs import export_trec, find_grade_factor, read_run

    with open_engine(ctx) as engine:
        found = read_run(engine, run, folder=runs)
    files, factor = export_trec(found, folder), find_grade_factor(found)
    if as_json:
        render.print_json({"files": [str(file) for file in files], "grade_factor": factor})
    else:
        scaled = f"; grades are whole numbers there, so each is {factor} times what it was" if factor > 1 else ""
        render.print_line((f"{', '.join(file.name for file in files)} written to {folder}{scaled}", ""))


Judged = Annotated[
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
ShowKept = Annotated[bool, typer.Option("--show", help="Show what is kept.")]
Budget = Annotated[int | None, typer.Option("--tokens", metavar="N", help="Budget of the context.", min=1)]


def tune(
    ctx: typer.Context,
    *,
    questions: Judged = None,
    measure: Measure = "",
    tries: Tries = None,
    k: Cut = 10,
    tokens: Budget = None,
    dry_run: DryRun = False,
    rollback: Rollback = False,
    show: ShowKept = False,
    as_json: o.Json = False,
) -> None:
    """Choose settings of the search by judged questions; they are kept only if held-out questions agree."""
    from clew.evaluation.questions.judged import read_questions
    from clew.evaluation.tuning import tune
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
    from clew.evaluation.tuning import list_tunings, rollback_tuning
    from clew.surface.cli.evaluation_output import print_kept_settings

    taken_back = rollback_tuning(engine) if rollback else None
    print_kept_settings(list_tunings(engine), taken_back=taken_back, rollback=rollback, as_json=as_json)
