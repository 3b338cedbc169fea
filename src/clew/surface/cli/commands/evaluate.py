"""The commands that measure a collection on judged questions, and choose its settings by them: evaluate, tune."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from clew.core.errors import NotFound, SettingsError
from clew.core.settings import Settings
from clew.core.settings.override import mask_setting, override_settings
from clew.core.settings.types import InvalidValue, check_value_type, describe_type, parse_text_as_type
from clew.core.suggest import format_count
from clew.surface.cli import options as o
from clew.surface.cli import progress, render
from clew.surface.cli.option_groups import Seen, expand_option_groups
from clew.surface.cli.program import open_engine
from clew.surface.cli.table import print_table
from clew.surface.settings.load import list_setting_keys, suggest_setting
from clew.surface.to_json import evaluation_to_json, run_to_json

if TYPE_CHECKING:
    from clew.drivers.tuned import TunedSettings
    from clew.engine import Engine
    from clew.evaluation.questions.judged import JudgedQuestion
    from clew.evaluation.tuning import Tuning
    from clew.evaluation.types import Evaluation, EvaluationRun


RUN = "run"  # the default subcommand


class EvaluateGroup(TyperGroup):
    """The group of `clew evaluate`: an argument that is no subcommand names the questions of a run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with `run` in front if they name no subcommand."""
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
Cut = Annotated[int, typer.Option("-k", metavar="N", help="Cutoff: the measures look at the first N documents.", min=1)]
Tokens = Annotated[
    int | None, typer.Option("--tokens", metavar="N", help="Token budget of the context; 0: none.", min=0)
]
Answers = Annotated[bool, typer.Option("--answers", help="Also answer each question; this calls the language model.")]
Measures = Annotated[
    list[str] | None, typer.Option("--measure", metavar="NAME", help="Measure to compare (repeatable).")
]
Runs = Annotated[
    Path | None, typer.Option("--runs", metavar="FOLDER", help="Folder of the runs (default: in the collection).")
]
NoKeep = Annotated[bool, typer.Option("--no-keep", help="Do not store the run.")]
Worst = Annotated[
    int, typer.Option("--worst", metavar="N", help="Also show the N questions with the lowest measure.", min=0)
]
QuestionFile = Annotated[
    Path | None,
    typer.Option("--questions", metavar="FILE", help="The questions of the run, for their texts; it keeps none."),
]
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
Count = Annotated[int, typer.Option("--count", metavar="N", help="Maximum number of questions.", min=1)]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of the random choice if there are more questions than --count.")
]


def run(
    ctx: typer.Context,
    *,
    questions: Questions,
    strategy: Strategies = None,
    sets: Sets = None,
    k: Cut = 10,
    tokens: Tokens = None,
    answers: Answers = False,
    measure: Measures = None,
    seen: Seen,
    runs: Runs = None,
    no_keep: NoKeep = False,
    worst: Worst = 0,
    as_json: o.Json = False,
) -> None:
    """Measure every strategy with every setting on all questions, and test the differences; `run` may be left out."""
    from clew.evaluation.evaluating import evaluate
    from clew.evaluation.questions.judged import read_questions

    asked = read_questions(questions)  # a mistake in the file shows before anything is opened
    with open_engine(ctx) as engine, progress.report_progress() as on_progress:
        made = evaluate(
            engine,
            questions,
            strategies=strategy or (),
            settings=build_setting_grid(engine.settings, sets or ()),
            k=k,
            tokens=tokens,
            answers=answers,
            where=seen.build_filter(engine),
            measures=measure or (),
            keep=not no_keep,
            folder=runs,
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
    force: o.Force = False,
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
    told = f"{format_count(len(made), 'question')} written to {file}; `clew evaluate {file}`"
    questions = [format_question(each) for each in made]
    render.print_outcome(told, {"file": str(file), "questions": questions}, as_json=as_json)


evaluate_app.command("make")(expand_option_groups(make))


@evaluate_app.command("list")
def list_(ctx: typer.Context, *, runs: Runs = None, as_json: o.Json = False) -> None:
    """List the runs that are kept, the oldest first."""
    from clew.evaluation.runs import list_runs

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
    scaled = f"; grades are whole numbers there, so each is {factor} times what it was" if factor > 1 else ""
    told = f"{', '.join(file.name for file in files)} written to {folder}{scaled}"
    shown = {"files": [str(file) for file in files], "grade_factor": factor}
    render.print_outcome(told, shown, as_json=as_json)


Judged = Annotated[
    Path | None, typer.Argument(metavar="QUESTIONS", help="Judged questions: a JSON Lines file or a BEIR folder.")
]
Measure = Annotated[
    str, typer.Option("--measure", metavar="NAME", help="Measure to improve: nDCG@10, recall@10, context …")
]
Tries = Annotated[
    list[str] | None,
    typer.Option(
        "--try", metavar="NAME=V,V", help="Values to try for a setting, in place of the built-in choice (repeatable)."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Store no settings; only show what would be chosen.")]
Rollback = Annotated[bool, typer.Option("--rollback", help="Undo the last tuning.")]
ShowKept = Annotated[bool, typer.Option("--show", help="Show the settings that tuning stored.")]
Budget = Annotated[int | None, typer.Option("--tokens", metavar="N", help="Token budget of the context.", min=1)]


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
    """Tune search settings on judged questions; store them only if they also do better on held-out questions."""
    from clew.evaluation.questions.judged import read_questions
    from clew.evaluation.tuning import tune

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

    taken_back = rollback_tuning(engine) if rollback else None
    print_kept_settings(list_tunings(engine), taken_back=taken_back, rollback=rollback, as_json=as_json)


def parse_setting_values(text: str, *, option: str = "--set") -> tuple[str, list[Any]]:
    """Parse `search.depth=25,100` to name and values; SettingsError for an unknown setting or a wrong type."""
    name, equals, given = text.partition("=")
    keys = list_setting_keys()
    if not equals:
        raise SettingsError(f"{option} is {text!r}; it must be NAME=VALUE,VALUE, as in search.depth=25,100")
    if name not in keys or "." not in name:
        raise SettingsError(f"{option} {name} is not a setting; {suggest_setting(name, list(keys))}")
    values = []
    for part in given.split(","):
        kind = keys[name].value_type
        try:
            values.append(check_value_type(parse_text_as_type(part.strip(), kind), kind))
        except InvalidValue:
            raise SettingsError(f"{option} {name} is {part.strip()!r}; it must be {describe_type(kind)}") from None
    return name, values


def build_setting_grid(base: Settings, texts: Sequence[str]) -> dict[str, Settings] | None:
    """Build the current settings and every combination of the values in the texts; None without texts."""
    if not texts:
        return None
    parsed = [parse_setting_values(text) for text in texts]
    found = {"": base}
    for values in product(*(values for _, values in parsed)):
        changes = {name: value for (name, _), value in zip(parsed, values, strict=True)}
        label = " ".join(f"{name}={mask_setting(name, value)}" for name, value in changes.items())
        tree = override_settings(base, changes)
        if found.get(label, tree) != tree:  # they differ in what is masked
            label = f"{label} ({len(found)})"
        found[label] = tree
    return found


def print_evaluation(
    evaluation: "Evaluation",
    *,
    worst: int = 0,
    measures: Sequence[str] = (),
    asked: "Sequence[JudgedQuestion]" = (),
    as_json: bool,
) -> None:
    """Print the table of the scores, the differences, the `worst` questions and the notes; or all of it as JSON.

    The questions that were `asked` are shown by their texts, others by their ids.
    """
    from clew.evaluation.report import list_worst
    from clew.evaluation.types import describe_counts, format_comparison, format_mean, format_number

    texts = {each.id: each.question for each in asked}
    lowest = list_worst(evaluation, worst, measure=next(iter(measures), "")) if worst else []
    if as_json:
        shown = [{"question": id_, "text": texts.get(id_, ""), "values": values} for id_, values in lowest]
        render.print_json({**evaluation_to_json(evaluation), **({"worst": shown} if worst else {})})
        return
    names = list(dict.fromkeys(name for score in evaluation.scores for name in score.means))
    columns = ("system", *names, "p50 ms", "p95 ms", "tokens")
    rows = [
        (
            score.system.name,
            *(format_mean(score.means.get(name)) for name in names),
            *(format_number(score.latency.get(name), 1) for name in ("p50", "p95")),
            format_number(score.tokens),
        )
        for score in evaluation.scores
    ]
    optional = [name for name in ("MAP", "MRR", "tokens", "p95 ms") if name in columns]
    precision = [name for name in names if name.startswith("precision@")]
    print_table(columns, rows, optional=[*precision, *optional], texts={"system": 12})
    render.print_line((describe_counts(evaluation), "dim"))
    for comparison in evaluation.comparisons:
        render.print_line((format_comparison(comparison), "bold" if comparison.is_significant else ""))
    if lowest:
        systems = [system.name for system in evaluation.run.systems]
        lines = [(*(format_mean(each.get(name)) for name in systems), texts.get(id_, id_)) for id_, each in lowest]
        print_table((*systems, "lowest first"), lines, texts={"lowest first": 30})
    for note in evaluation.notes:
        said = re.sub(r"[^\s,;]+", lambda word: f"“{texts[word[0]]}”" if word[0] in texts else word[0], note)
        render.print_line((f"note: {said}", "yellow"), err=True)


def warn_if_not_kept(evaluation: "Evaluation", *, wanted: bool) -> None:
    """Warn on stderr if a run that was to be kept is not."""
    if wanted and not evaluation.run.is_kept:
        render.print_line(
            ("note: the run is not kept, since a part of the collection is seen; --runs names a folder", ""), err=True
        )


def print_runs(runs: "Sequence[EvaluationRun]", *, as_json: bool) -> None:
    """Print a line for each run."""
    rows = [run_to_json(run) for run in runs]
    if as_json:
        render.print_json({"runs": rows})
        return
    print_table(
        ("id", "when", "source", "questions", "done", "total", "systems"),
        [
            (
                row["id"],
                f"{row['created']:%Y-%m-%d %H:%M}",
                row["source"],
                *(str(row[name]) for name in ("questions", "done", "total")),
                ", ".join(row["systems"]),
            )
            for row in rows
        ],
        optional=["done", "total"],
        texts={"systems": 20, "source": 12},
    )


def print_tuning(tuning: "Tuning", *, as_json: bool) -> None:
    """Print the values tried, the best of them, and whether they are kept."""
    if as_json:
        render.print_json({**asdict(tuning), "is_promoted": tuning.is_promoted})
        return
    rows = [
        (each.setting, str(each.value), f"{100 * each.mean:.1f}", "best" if each.is_best else "")
        for each in tuning.tried
    ]
    print_table(("setting", "value", tuning.measure, "of these"), rows)
    if tuning.settings:
        promotion = tuning.promotion
        render.print_line(
            (f"on {promotion.questions} held-out questions: {promotion.difference}, p = {promotion.p:.3g}", "")
        )
    for name, value in tuning.settings.items():
        render.print_line((f"  {name} = {value}", "bold"))
    if tuning.is_kept:
        render.print_line(("kept with the collection; `clew tune --rollback` takes it back", "green"))
    else:
        render.print_line((f"not kept: {tuning.reason}", "yellow"))
    for note in tuning.notes:
        render.print_line((f"note: {note}", "yellow"), err=True)


def print_kept_settings(
    kept: "Sequence[TunedSettings]", *, taken_back: "TunedSettings | None", rollback: bool, as_json: bool
) -> None:
    """Print the tuned settings in use, and the settings taken back."""
    if as_json:
        shown = {"tuned": [asdict(each) for each in kept]}
        render.print_json({**shown, "taken_back": asdict(taken_back) if taken_back else None} if rollback else shown)
        return
    if rollback:
        render.print_line(
            (f"taken back: {_format_settings(taken_back)}" if taken_back else "there was nothing to take back", "")
        )
    in_use = f"in use: {_format_settings(kept[-1])}" if kept else "no tuned settings are in use"
    render.print_line((in_use, ""))


def _format_settings(tuned: "TunedSettings") -> str:
    values = ", ".join(f"{name} = {value}" for name, value in tuned.settings.items())
    return f"{values} ({tuned.measure} {100 * tuned.difference:+.1f} on {tuned.questions} questions, {tuned.at})"
