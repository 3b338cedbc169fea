"""The command that checks a collection, and repairs it."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from clew.surface.cli import options as o
from clew.surface.cli.program import open_engine, resolve_invocation

if TYPE_CHECKING:
    from clew.core.doctor import DoctorReport

Repair = Annotated[bool, typer.Option("--repair", help="Repair what can be repaired.")]


Full = Annotated[bool, typer.Option("--full", help="Read every document, not a sample of a large collection.")]


def doctor(ctx: typer.Context, *, repair: Repair = False, full: Full = False, as_json: o.Json = False) -> None:
    """Check what is stored and around it: documents, vectors, indexes, sources, rights; and name what is wrong."""
    from clew.core.errors import DriverFailed
    from clew.surface.cli import render
    from clew.surface.cli.errors import get_exit_code

    report = _examine(ctx, repair=repair, full=full)
    if as_json:
        render.print_json(report)
    else:
        _print_report(report, repair=repair)
    if not report.is_sound:
        raise typer.Exit(get_exit_code(DriverFailed()))


def _examine(ctx: typer.Context, *, repair: bool, full: bool) -> "DoctorReport":
    """The report of a collection, also of one that cannot be opened."""
    from dataclasses import replace

    from clew.core.doctor import Defect, DoctorReport
    from clew.core.errors import CollectionDamaged
    from clew.engine import Engine

    start = resolve_invocation(ctx)
    accepted = DoctorReport()
    try:
        if repair:
            embedder = start.settings.embedder.name
            accepted = Engine.accept_missing_changes(start.path, start.collection, embedder=embedder)
        with open_engine(ctx) as engine:
            report = engine.doctor(repair=repair, full=full)
    except CollectionDamaged as error:
        problem = re.sub(r"; (?:run )?`clew doctor`.*", "", error.message, flags=re.DOTALL)  # this is it
        problem, _, next_step = problem.partition("; ")
        return DoctorReport((*accepted.defects, Defect("truth", problem, next_step=next_step)))
    return replace(report, defects=(*accepted.defects, *report.defects))


def _print_report(report: "DoctorReport", *, repair: bool) -> None:
    """Prints each defect with what becomes of it, and how much was checked."""
    from clew.core.doctor import AREAS, SEVERITIES
    from clew.core.suggest import format_count
    from clew.surface.cli.render import print_line

    colours = {"damage": "bold red", "warning": "yellow", "advice": "cyan"}
    for defect in sorted(report.defects, key=lambda each: (SEVERITIES.index(each.severity), AREAS.index(each.area))):
        done = "repaired: " if defect.is_repaired else "" if repair or not defect.remedy else "with --repair: "
        colour = "green" if defect.is_repaired else colours[defect.severity]
        print_line(
            (f"{defect.severity} · {defect.area}: ", colour), (defect.problem, ""), (f"; {done}{defect.advice}", "dim")
        )
    counts = (format_count(count, name.removesuffix("s")) for name, count in report.checked.items())
    checked = ", ".join(counts) or "nothing could be"
    left = [defect.severity for defect in report.defects if not defect.is_repaired]
    removed = sum(defect.is_repaired and defect.remedy == "remove" for defect in report.defects)
    repaired = len(report.defects) - len(left) - removed
    named = [
        format_count(left.count(severity), noun, plural)
        for severity, noun, plural in (
            ("damage", "defect", ""),
            ("warning", "warning", ""),
            ("advice", "piece of advice", "pieces of advice"),
        )
        if severity in left
    ]
    print_line(
        (f"{checked} checked{', a sample (--full reads all)' if report.is_sample else ''}: ", ""),
        (", ".join(named) if "damage" in left else "sound", "bold red" if "damage" in left else "green"),
        (f", {', '.join(named)}" if named and "damage" not in left else "", ""),
        (f", {repaired} repaired" if repaired else "", ""),
        (f", {format_count(removed, 'document')} removed" if removed else "", "yellow"),
    )
