"""`python -m benchmarks.peers.worker SIDE FOLDER INPUTS`: runs one side; commands come in as lines of JSON.

Each command is answered by one line: what came back and how long it took, measured here, so that the time in the pipe
is not counted. What a framework prints goes to standard error.
"""

import importlib
import json
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from benchmarks.peers.lookup import Lookup

K = 10  # documents that each search returns
Text = tuple[str, str]  # id and text


class Side(Protocol):
    """A framework with documents in it. Searches return ids of documents, best first; what is built once is kept."""

    def __init__(self, folder: Path, lookup: "Lookup") -> None: ...
    def build(self, documents: Sequence[Text]) -> None:
        """Adds the first documents and makes the three searches ready."""

    def search_dense(self, query: str) -> list[str]:
        """The nearest by vector."""

    def search_words(self, query: str) -> list[str]:
        """The best by words."""

    def search_hybrid(self, query: str) -> list[str]:
        """Both, fused."""

    def drop(self, ids: Sequence[str]) -> None:
        """Deletes documents."""

    def add(self, documents: Sequence[Text]) -> None:
        """Adds documents late."""


def run_command(side: Side, command: dict[str, Any]) -> object:
    """What the side returns for a command: `{"do": name, "with": argument}`."""
    if command["do"] == "memory":
        return read_peak_memory()
    return getattr(side, command["do"])(command["with"])


def read_peak_memory() -> float:
    """The most memory that this process held so far, in MB."""
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(each for each in status.read_text().splitlines() if each.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / (1024 if sys.platform == "darwin" else 1)


def main() -> None:
    """Answers commands until standard input ends; the first line says how long the import took."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    name, folder, inputs = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    started = perf_counter()
    module = importlib.import_module(f"benchmarks.peers.sides.{name}")
    print(json.dumps({"seconds": perf_counter() - started}), file=answers, flush=True)
    lookup_module = importlib.import_module("benchmarks.peers.lookup")  # numpy counts as part of the import above
    side: Side = module.Side(folder, lookup_module.Lookup(inputs))
    for line in sys.stdin:
        command = json.loads(line)
        started = perf_counter()
        result = run_command(side, command)
        print(json.dumps({"seconds": perf_counter() - started, "result": result}), file=answers, flush=True)


if __name__ == "__main__":
    main()
