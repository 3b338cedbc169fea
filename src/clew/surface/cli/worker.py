"""Starts a worker in a process of its own, which outlives the command and its terminal; says where one is missing."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clew.surface.cli.program import ProgramOptions, repeat_options

if TYPE_CHECKING:
    from clew.core.jobs import Job
    from clew.surface.settings.load import Invocation


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
    worker.returncode = 0  # nobody waits for it, and Python is not to warn about that
    return worker.pid


def hint_at_waiting_jobs(jobs: "Sequence[Job]", options: ProgramOptions | None) -> bool:
    """Say on stderr what to do if jobs wait and no worker is at work; return whether it did."""
    from clew.engine.jobs import has_worker
    from clew.surface.cli import render

    waiting = sum(not job.is_finished for job in jobs)
    if not waiting or any(map(has_worker, jobs)):
        return False
    hint = f"{waiting} waiting, and no worker is at work: `clew jobs work` runs them"
    render.print_line((repeat_options(hint, options), "yellow"), err=True)
    return True


def make_environment(start: "Invocation", environ: Mapping[str, str]) -> dict[str, str]:
    """Make the environment of the worker: the collection and models of this command, whose options it does not get.

    Not as arguments: an address may hold a password, and arguments can be read by everybody on the machine.
    """
    path = start.path if "://" in start.path else str(Path(start.path).absolute())
    models = {"CLEW_EMBEDDER__NAME": start.settings.embedder.name, "CLEW_LLM__NAME": start.settings.llm.name}
    own = {"CLEW_PATH": path, "CLEW_COLLECTION": start.collection, **models}
    kept = {name: value for name, value in environ.items() if name != "CLEW_STORE"}
    return {**kept, **own}


_WINDOWS_FLAGS = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(subprocess, "DETACHED_PROCESS", 0)
