"""The driver: split sources into shares, distribute them with Ray Data, and join the outcomes into one report.

Ray Data applies backpressure, restarts lost workers, and gives their shares to others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic
from typing import Any

import ray
from ray.data import ActorPoolStrategy
from ray.exceptions import RayError

from clew.core.errors import DriverFailed, SourceError
from clew.core.report import OnProgress, Progress, Report, measure_progress
from clew.core.usage import CostBudget
from clew.index.add.context import IngestContext, ignore_warning
from clew.index.walk.sources import Source
from clew.index.walk.sync import MovedFiles
from clew.ray.cluster import check_nodes, count_workers, join_cluster
from clew.ray.shares import COLUMN, Outcome, Share, Skipped, WorkerSpec, dump, load, make_shares
from clew.ray.worker import Stage, Worker, start_keeper

MAX_WAVE_SHARES = 8192  # given to Ray Data at a time …
MAX_WAVE_BYTES = 256 << 20  # … and their bytes, so that the driver's memory does not grow with the corpus


@dataclass(slots=True)
class _Run:
    """The counts of a run."""

    total: int | None
    on_progress: OnProgress | None
    started: float = field(default_factory=monotonic)
    parts: list[Report] = field(default_factory=list)
    done: int = 0
    failed: int = 0
    embedded: int = 0
    stopped: str = ""

    def include(self, part: Report) -> None:
        """Add the report of a share."""
        self.parts.append(part)
        self.done += len(part.added) + len(part.changed) + part.skipped + len(part.failed)
        self.failed += len(part.failed)
        self.embedded += part.embedded
        self.stopped = self.stopped or part.stopped
        self.report_progress()

    def report_progress(self) -> None:
        """Call `on_progress` with the counts so far."""
        if self.on_progress is None:
            return
        spent, counts = monotonic() - self.started, {"failed": self.failed, "chunks": self.embedded}
        self.on_progress(measure_progress("adding", self.done, self.total, "documents", spent, **counts))

    def make_report(self) -> Report:
        """Make the report of the whole run."""
        return Report(
            added=tuple(chain.from_iterable(part.added for part in self.parts)),
            changed=tuple(chain.from_iterable(part.changed for part in self.parts)),
            skipped=sum(part.skipped for part in self.parts),
            failed=tuple(chain.from_iterable(part.failed for part in self.parts)),
            chunks=sum(part.chunks for part in self.parts),
            embedded=self.embedded,
            reused=sum(part.reused for part in self.parts),
            noted=tuple(chain.from_iterable(part.noted for part in self.parts)),
            stopped=self.stopped,
            incomplete=tuple(chain.from_iterable(part.incomplete for part in self.parts)),
            seconds=monotonic() - self.started,
        )


@dataclass(frozen=True, slots=True)
class DistributedPipeline:
    """A pipeline on a cluster: `workers` processes of `cpus` cores (default: as many as fit).

    With `gpus` for each worker, these embed and store, and further workers read and chunk.
    """

    spec: WorkerSpec
    address: str
    workers: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def __call__(
        self,
        context: IngestContext,
        sources: Iterable[Source | SourceError],
        *,
        budget: CostBudget,
        total: int | None = None,
        total_bytes: int = 0,  # noqa: ARG002
        on_progress: OnProgress | None = None,
        moved: MovedFiles | None = None,
    ) -> Report:
        """Run the pipeline, charging its cost to the budget, and return the report."""
        run, moved = _Run(total, on_progress), moved or MovedFiles(context.store, context.root)
        recipe = context.make_recipe(embedder=context.embedder, llm=context.llm, on_warning=ignore_warning)
        waves = _take_waves(make_shares(sources, store=context.store, recipe=recipe), run)
        wave = next(waves, None)
        if wave is None:  # all sources are stored: no cluster needed
            return run.make_report()
        spec, gone = dump(self.spec), moved.list_gone()
        with context.store.at_work(), join_cluster(self.address):
            check_nodes(lambda done, nodes: _report_nodes(on_progress, done, nodes))
            keeper = None if all(map(budget.is_free, budget.prices)) else start_keeper(budget.limit)
            try:
                while wave is not None and not run.stopped:
                    self._run_wave(wave, run, moved, (spec, gone, keeper))
                    wave = next(waves, None)
            finally:
                if keeper is not None:
                    budget.settle_cost(0.0, ray.get(keeper.get_spent.remote()))
                    ray.kill(keeper)
        return run.make_report()

    def _run_wave(self, wave: list[bytes], run: _Run, moved: MovedFiles, given: tuple[Any, ...]) -> None:
        """Let the workers add the shares; raise the error that ends a worker's share."""
        rows = ray.data.from_items([{COLUMN: share} for share in wave], override_num_blocks=len(wave))
        workers, keeper = self.workers or count_workers(self.cpus, self.gpus), given[-1]
        if self.gpus:
            readers = max(1, count_workers(self.cpus, 0) - workers)
            rows = self._map(rows, "prepare", size=readers, gpus=0, given=given)
        rows = self._map(rows, "store" if self.gpus else "add", size=workers, gpus=self.gpus, given=given)
        try:
            for row in rows.iter_rows():
                outcome: Outcome = load(row[COLUMN])
                if outcome.error is not None:
                    raise outcome.error
                moved.include(outcome.moved)
                if outcome.report.stopped and keeper is not None:
                    ray.get(keeper.stop.remote(outcome.report.stopped))
                run.include(outcome.report)
        except RayError as error:
            raise DriverFailed(
                f"the work on the Ray cluster ended: {error}; what was stored stays, add again to go on"
            ) from error

    def _map(self, rows: Any, stage: Stage, *, size: int, gpus: float, given: tuple[Any, ...]) -> Any:
        """Map the rows through a stage with `size` workers."""
        return rows.map(
            Worker,
            fn_constructor_args=(*given, stage),
            compute=ActorPoolStrategy(size=size),
            num_cpus=self.cpus,
            num_gpus=gpus,
        )


def _take_waves(shares: Iterable[Share | Skipped], run: _Run) -> Iterator[list[bytes]]:
    """Yield the shares as bytes in groups, counting skipped sources at once."""
    wave: list[bytes] = []
    size = 0
    for share in shares:
        if isinstance(share, Skipped):
            run.include(Report(skipped=share.unchanged, failed=share.failed))
            continue
        wave.append(dump(share))
        size += len(wave[-1])
        if len(wave) >= MAX_WAVE_SHARES or size >= MAX_WAVE_BYTES:
            yield wave
            wave, size = [], 0
    if wave:
        yield wave


def _report_nodes(on_progress: OnProgress | None, done: int, total: int) -> None:
    if on_progress:
        on_progress(Progress("starting", done, total, "nodes"))
