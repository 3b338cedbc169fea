"""The commands on jobs: list, show, watch, cancel and run them."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from clew.core.jobs import Job
from clew.core.report import OnProgress, Progress
from clew.surface.cli import options as o
from clew.surface.cli import progress, render
from clew.surface.cli.errors import INCOMPLETE
from clew.surface.cli.program import ProgramOptions, open_engine, repeat_options, resolve_invocation
from clew.surface.cli.table import print_table

if TYPE_CHECKING:
    from clew.engine import Engine
    from clew.engine.jobs import OnJob
    from clew.surface.settings.load import Invocation


WATCH_INTERVAL = 0.5  # seconds between two looks at a job

jobs_app = typer.Typer(add_completion=False)
JobId = Annotated[str, typer.Argument(metavar="JOB", help="Job id.")]
JobIds = Annotated[
    list[str] | None, typer.Argument(metavar="[JOB]...", help="Job ids (default: all unfinished, else the last).")
]
Wait = Annotated[bool, typer.Option("--wait", help="Stay and wait for further jobs, until interrupted.")]
Alone = Annotated[bool, typer.Option("--alone", help="Leave at once if another worker is at work.")]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="NAME", help="Also take jobs whose files are on the machine of this name."),
]


@jobs_app.callback(invoke_without_command=True)
def jobs(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List, watch, cancel and run the jobs of the collection."""
    if ctx.invoked_subcommand is None:
        list_(ctx, as_json=as_json)


@jobs_app.command("list")
def list_(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """List the jobs, the oldest first."""
    with open_engine(ctx) as engine:
        found = engine.jobs()
    if as_json:
        render.print_json({"jobs": found})
    else:
        _print_jobs(found)
        hint_at_waiting_jobs(found, ctx.obj)


@jobs_app.command()
def show(ctx: typer.Context, *, job: JobId, as_json: o.Json = False) -> None:
    """Show a job: its request, progress and result."""
    from clew.surface.to_json import to_json

    with open_engine(ctx) as engine:
        found = engine.job(job)
    if as_json:
        render.print_json(found)
    else:
        render.print_pairs(to_json(found))


@jobs_app.command()
def watch(ctx: typer.Context, *, jobs: JobIds = None, as_json: o.Json = False) -> None:
    """Follow jobs until they are finished; the exit code is 4 if one failed or left something out."""
    with open_engine(ctx) as engine:
        known = [] if jobs else engine.jobs()
        named = [engine.job(each) for each in jobs or ()]
        ids = [job.id for job in named or [job for job in known if not job.is_finished] or known[-1:]]
        with progress.report_progress() as on_progress:
            try:
                _follow_jobs(ctx, engine, ids, _make_job_reporter(on_progress))
            except KeyboardInterrupt:
                raise KeyboardInterrupt("watching ended; the jobs go on (`clew jobs` lists them)") from None
        ended = [engine.job(each) for each in ids]
    if as_json:
        render.print_json({"jobs": ended})
    else:
        _print_jobs(ended)
    if any(map(_is_incomplete, ended)):
        raise typer.Exit(INCOMPLETE)


@jobs_app.command()
def cancel(ctx: typer.Context, *, job: JobId, as_json: o.Json = False) -> None:
    """Cancel a job; a running one stops between two documents, and what it has added stays."""
    with open_engine(ctx) as engine:
        was_finished = engine.job(job).is_finished
        cancelled = engine.cancel_job(job)
    finished = "has finished already: " if was_finished else ""
    render.print_outcome(f"{cancelled.id} {finished}{cancelled.state}", cancelled, as_json=as_json)


@jobs_app.command()
def maintain(ctx: typer.Context, *, as_json: o.Json = False) -> None:
    """Queue the upkeep of the collection, and start a worker: compaction, old versions, vacuum, indexes."""
    with open_engine(ctx) as engine:
        job = engine.enqueue_maintenance()
    start_worker(resolve_invocation(ctx))
    print_queued(ctx, job, as_json=as_json)


def print_queued(ctx: typer.Context, job: Job, *, as_json: bool) -> None:
    """Print the id of a job that was queued, and how to follow it."""
    render.print_outcome(job.id, job, as_json=as_json)
    if not as_json:
        render.print_line((repeat_options(f"queued; `clew jobs watch {job.id}` follows it", ctx.obj), "dim"), err=True)


@jobs_app.command()
def work(
    ctx: typer.Context, *, wait: Wait = False, alone: Alone = False, host: Host = None, as_json: o.Json = False
) -> None:
    """Run the jobs that are queued, and those whose workers are gone."""
    with open_engine(ctx) as engine, progress.report_progress() as on_progress:
        reporter = _make_job_reporter(on_progress)
        import clew.evaluation.evaluating  # noqa: F401 - it runs evaluations that were queued

        ended = engine.run_jobs(wait=wait, alone=alone, host=host or "", on_job=reporter)
    if as_json:
        render.print_json({"jobs": ended})
    else:
        _print_jobs(ended)
    if any(map(_is_incomplete, ended)):
        raise typer.Exit(INCOMPLETE)


def _make_job_reporter(on_progress: "OnProgress") -> "OnJob":
    """Make a callback that shows how far each job is."""

    def report(job: "Job") -> None:
        if job.state != "queued":
            on_progress(Progress(f"job {job.id}, {job.stage or 'starting'}", job.done, job.total, ""))

    return report


def _follow_jobs(ctx: typer.Context, engine: "Engine", ids: Sequence[str], on_job: "OnJob") -> None:
    """Follow the jobs; return when they are finished."""
    hinted = False
    while True:
        now = [engine.job(each) for each in ids]
        for job in now:
            on_job(job)
        if all(job.is_finished for job in now):
            return
        if not hinted:
            hinted = hint_at_waiting_jobs(now, ctx.obj)
        sleep(WATCH_INTERVAL)


def _print_jobs(jobs: "Sequence[Job]") -> None:
    columns = ("id", "kind", "state", "done", "total", "updated", "sources", "outcome")
    rows = [_to_row(job) for job in jobs]
    print_table(columns, rows, optional=("kind", "updated"), texts={"sources": 20, "outcome": 24})


def _to_row(job: "Job") -> tuple[str, ...]:
    total = "" if job.total is None else str(job.total)
    counts = (job.id, job.kind, job.state, str(job.done), total, render.format_time(job.updated))
    return (*counts, " ".join(job.request.get("sources", ())), _describe_outcome(job))


def _describe_outcome(job: "Job") -> str:
    """Describe why a job failed, or the counts of its report, the id of its run, or what was done."""
    report = job.result
    if job.error or not report:
        return job.error
    if "added" not in report:
        return job.message or str(report.get("run", ""))
    counts = f"{len(report['added'])} added, {len(report['changed'])} changed, {report['skipped']} skipped"
    failed = f", {len(report['failed'])} failed" if report["failed"] else ""
    held = f", {len(report['held_back'])} not dropped" if report.get("held_back") else ""
    return f"{counts}{failed}{held}{'; ' + report['stopped'] if report['stopped'] else ''}"


def _is_incomplete(job: "Job") -> bool:
    return job.state == "failed" or any(job.result.get(part) for part in ("failed", "stopped", "held_back"))


def start_worker(start: "Invocation") -> int:
    """Start a worker that runs the jobs of a collection and ends when there are no more; return its process id."""
    command = [sys.executable, "-m", "clew", "jobs", "work", "--alone"]
    if start.file:
        command += ["--config", str(start.file.absolute())]
    own_session = {"creationflags": _WINDOWS_FLAGS} if sys.platform == "win32" else {"start_new_session": True}
    worker = subprocess.Popen(
        command,
        env=make_environment(start, os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **own_session,
    )
    worker.returncode = 0  # nobody waits for it, and Python must not warn about that
    return worker.pid


def hint_at_waiting_jobs(jobs: "Sequence[Job]", options: ProgramOptions | None) -> bool:
    """Print a hint on stderr if jobs wait and no worker is at work; return whether it did."""
    from clew.engine.jobs import has_worker
    from clew.surface.cli import render

    waiting = sum(not job.is_finished for job in jobs)
    if not waiting or any(map(has_worker, jobs)):
        return False
    hint = f"{waiting} waiting, and no worker is at work: `clew jobs work` runs them"
    render.print_line((repeat_options(hint, options), "yellow"), err=True)
    return True


def make_environment(start: "Invocation", environ: Mapping[str, str]) -> dict[str, str]:
    """Make the environment of the worker: the collection and models of this command.

    They are not passed as arguments: an address may hold a password, and everybody on the machine can read arguments.
    """
    path = start.path if "://" in start.path else str(Path(start.path).absolute())
    models = {"CLEW_EMBEDDER__NAME": start.settings.embedder.name, "CLEW_LLM__NAME": start.settings.llm.name}
    own = {"CLEW_PATH": path, "CLEW_COLLECTION": start.collection, **models}
    return {**environ, **own}


_WINDOWS_FLAGS = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(subprocess, "DETACHED_PROCESS", 0)
