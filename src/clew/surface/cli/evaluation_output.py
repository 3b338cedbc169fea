"""What evaluate and tune print, and the settings that their options name."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from typing import TYPE_CHECKING, Any

from clew.core.errors import SettingsError
from clew.core.settings import Settings
from clew.core.settings.override import mask_setting, override_settings
from clew.core.settings.types import InvalidValue, check_value_type, describe_type, parse_text_as_type
from clew.surface.cli import render
from clew.surface.cli.table import print_table
from clew.surface.settings.load import list_setting_keys, suggest_setting
from clew.surface.to_json import evaluation_to_json, run_to_json

if TYPE_CHECKING:
    from clew.drivers.tuned import TunedSettings
    from clew.evaluation.questions.judged import JudgedQuestion
    from clew.evaluation.tuning import Tuning
    from clew.evaluation.types import Evaluation, EvaluationRun


def parse_setting_values(text: str, *, option: str = "--set") -> tuple[str, list[Any]]:
    """Parse `search.depth=25,100` to name and values; SettingsError for what is not a setting or not its type."""
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
    """Build the settings in use, and every combination of the values in the texts; None without texts."""
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
    """Say on stderr that a run is lost that was to be kept."""
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
    """Print what was tried, what was best, and what became of it."""
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
    """Print the tuned settings in use, and those that were taken back."""
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
