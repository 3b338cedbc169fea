"""The peers beside one another: every query goes to all of them in turn, so that a busy moment affects all alike."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any, Self

from benchmarks import Setup
from benchmarks.peers import environments
from benchmarks.peers.data import CHANGED, Inputs, load_inputs, make_title_query, prepare_lookup
from benchmarks.peers.environments import FLOOR, PEERS, NotInstalled, Peer
from benchmarks.peers.worker import K
from clew.evaluation.measures import ndcg_at

ROUNDS, WARM_UP = 2, 10
CACHE = environments.ROOT / "bench-out" / "peers"
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
LEGS = ("dense", "words", "hybrid")
TIMED = ("dense", "hybrid")


class WorkerFailed(Exception):
    """A side that stopped, and the end of what it wrote."""


class Worker:
    """A side that runs in its environment."""

    def __init__(self, python: Path, side: str, folder: Path, lookup: Path) -> None:
        folder.mkdir(parents=True)
        self._errors = folder / "errors.txt"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [python, "-m", "benchmarks.peers.worker", side, str(folder), str(lookup)],
                cwd=environments.ROOT,
                env=kept | ONE_THREAD,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            self.import_seconds: float = self._read()["seconds"]
        except WorkerFailed:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, do: str, given: object = None) -> tuple[float, Any]:
        """How long the side took, and what it returned."""
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": do, "with": given}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise WorkerFailed(self._read_errors()) from None
        answer = self._read()
        return answer["seconds"], answer["result"]

    def close(self) -> None:
        """Ends the side."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailed(self._read_errors())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _read_errors(self) -> str:
        return self._errors.read_text(errors="replace").strip()[-300:] or "it ended without a word"


@dataclass(slots=True)
class Result:
    """What was measured of one peer; `failed` says why it was not."""

    peer: Peer
    version: str = ""
    megabytes: float = 0.0
    lines: int = 0
    failed: str = ""
    imports: list[float] = field(default_factory=list)
    builds: list[float] = field(default_factory=list)
    memory: float = 0.0
    times: dict[str, list[float]] = field(default_factory=lambda: {leg: [] for leg in TIMED})
    gains: dict[str, list[float]] = field(default_factory=lambda: {leg: [] for leg in TIMED})
    still_found: dict[str, int] = field(default_factory=dict)  # deleted documents, by leg
    late_found: dict[str, int] = field(default_factory=dict)


def measure_peers(setup: Setup) -> Iterator[str]:
    """The lines of a table, and of the peers that could not be measured."""
    inputs = load_inputs(setup)
    lookup = prepare_lookup(inputs, CACHE, setup.work)
    results, pythons = [], {}
    for peer in PEERS:
        results.append(result := Result(peer, lines=environments.count_lines(peer.side)))
        try:
            folder = environments.make_environment(peer)
        except NotInstalled as reason:
            result.failed = f"cannot be installed: {reason}"
            continue
        result.version = environments.find_version(folder, peer.distribution)
        result.megabytes = environments.measure_size(folder)
        pythons[peer.name] = folder / "bin/python"
    measure_sides(results, inputs, lookup, setup.work, pythons)
    return iter([*format_table(results), *format_failures(results)])


def measure_sides(
    results: Sequence[Result], inputs: Inputs, lookup: Path, work: Path, pythons: dict[str, Path]
) -> None:
    """Fills the results: some rounds of imports and builds, all queries, deletions and additions."""
    live: dict[str, Worker] = {}
    running = [each for each in results if not each.failed]

    def start(result: Result, name: str) -> Worker:
        return Worker(pythons[result.peer.name], result.peer.side, work / f"{result.peer.side}-{name}", lookup)

    try:
        for round_ in range(ROUNDS):
            for result in [each for each in running if not each.failed]:
                try:
                    if result.peer.name in live:
                        live[result.peer.name].close()
                    live[result.peer.name] = worker = start(result, str(round_))
                    result.imports.append(worker.import_seconds)
                    result.builds.append(worker.ask("build", inputs.documents)[0])
                except WorkerFailed as reason:
                    result.failed = str(reason)
        running = [each for each in running if not each.failed]
        _measure_queries(running, live, inputs)
        for result in running:
            live[result.peer.name].close()
            try:
                with start(result, "changed") as worker:
                    _measure_changes(result, worker, inputs)
            except WorkerFailed as reason:
                result.failed = str(reason)
    finally:
        for worker in live.values():
            worker.close()


def _measure_queries(results: Sequence[Result], live: dict[str, Worker], inputs: Inputs) -> None:
    for number, question in enumerate((*inputs.questions[:WARM_UP], *inputs.questions)):
        for leg in TIMED:
            for result in results:
                seconds, found = live[result.peer.name].ask(f"search_{leg}", question.text)
                if number >= WARM_UP:
                    result.times[leg].append(seconds)
                    ranking = list(dict.fromkeys(found))
                    result.gains[leg].append(ndcg_at(K, ranking, question.grades))
    for result in results:
        result.memory = live[result.peer.name].ask("memory")[1]


def _measure_changes(result: Result, worker: Worker, inputs: Inputs) -> None:
    """With searches that were made ready before: what a service that runs on would find."""
    late = {id_ for id_, _ in inputs.late}
    worker.ask("build", [each for each in inputs.documents if each[0] not in late])
    for leg in LEGS:  # each has been used
        worker.ask(f"search_{leg}", inputs.questions[0].text)
    worker.ask("drop", [id_ for id_, _ in inputs.deleted])
    worker.ask("add", inputs.late)
    for leg in LEGS:
        for changed, counts in ((inputs.deleted, result.still_found), (inputs.late, result.late_found)):
            found = (id_ in worker.ask(f"search_{leg}", make_title_query(text))[1] for id_, text in changed)
            counts[leg] = sum(found)


def format_table(results: Sequence[Result]) -> list[str]:
    """A markdown table; times and memory stand beside their ratio to the floor."""
    floor = next((each for each in results if each.peer is FLOOR and not each.failed), None)
    lines = [
        "| | installed MB | import s | lines | build s | dense p50 / p95 ms | hybrid p50 / p95 ms | peak MB |"
        " nDCG@10 dense / hybrid | deleted, still found | late, found |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in results:
        if each.failed:
            continue
        build = median(each.builds)
        cells = [
            f"{each.peer.name} {each.version}",
            f"{each.megabytes:.0f}",
            f"{median(each.imports):.2f}",
            str(each.lines),
            f"{build:.1f}{_format_ratio(build, median(floor.builds) if floor else 0)}",
            *(
                f"{_format_times(each.times[leg])}"
                f"{_format_ratio(median(each.times[leg]), median(floor.times[leg]) if floor else 0)}"
                for leg in TIMED
            ),
            f"{each.memory:.0f}{_format_ratio(each.memory, floor.memory if floor else 0)}",
            " / ".join(f"{fmean(each.gains[leg]):.3f}" for leg in TIMED),
            " / ".join(str(each.still_found[leg]) for leg in LEGS),
            " / ".join(str(each.late_found[leg]) for leg in LEGS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append(
        f"In brackets: over the floor. {ROUNDS} builds and {len(results[0].times['dense'])} queries each, interleaved;"
        f" of {CHANGED} deleted and {CHANGED} late documents, how many their titles find by vectors / words / both."
    )
    return lines


def format_failures(results: Sequence[Result]) -> list[str]:
    """A line for each peer that was not measured."""
    return [f"{each.peer.name}: not measured, {each.failed}" for each in results if each.failed]


def _format_times(times: Sequence[float]) -> str:
    ordered = sorted(times)
    return f"{median(ordered) * 1000:.2f} / {ordered[int(0.95 * (len(ordered) - 1))] * 1000:.2f}"


def _format_ratio(value: float, floor: float) -> str:
    return f" ({value / floor:.1f}×)" if floor else ""
