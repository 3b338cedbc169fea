"""Names of the processes that are at work on a collection, and whether one of this machine is gone."""

import os
import platform
import sys
import uuid
from pathlib import Path


def make_worker_name() -> str:
    """A name for one claim: the machine, its space of process ids, the process, and a number of its own."""
    return f"{_get_machine()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def _get_machine() -> str:
    try:
        space = str(Path("/proc/self/ns/pid").readlink())  # containers on one machine may share its name
    except OSError:
        space = sys.platform
    return f"{platform.node()}/{space}"


def is_dead_worker(worker: str) -> bool:
    """Whether a process of this machine is gone; of others only the time of their claim can tell."""
    machine, _, rest = worker.rpartition("/")[0].rpartition("/")
    if sys.platform == "win32" or machine != _get_machine() or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False
