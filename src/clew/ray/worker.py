"""The worker: a process on some machine with a model and a connection pool that adds shares of sources.

All workers share a cost limit: an actor keeps the budget, and every priced call is first reserved with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from clew.core.errors import ClewError, CostLimit
from clew.core.filter import Filter
from clew.core.report import Report
from clew.core.types import DocumentRecord
from clew.core.usage import CostBudget, Price
from clew.index.add.context import IngestContext
from clew.index.add.pipeline import make_metered_recipe, run_pipeline_on_budget
from clew.index.add.prepare import Given, Prepared, PrepareResult, Unchanged, prepare_sources
from clew.index.walk.sources import Source
from clew.index.walk.sync import MovedFiles
from clew.ray.cluster import explain_start_error, name_node
from clew.ray.shares import COLUMN, Outcome, Share, WorkerSpec, dump, load


class BudgetKeeper:
    """The budget of all workers, an actor beside the driver.

    The reservation of a dead worker stays: its call may have been made.
    """

    def __init__(self, limit: float | None) -> None:
        self._budget = CostBudget({}, limit)
        self._stopped = ""

    def reserve(self, max_cost: float, model: str) -> str:
        """Reserve an amount; return an explanation if it would exceed the limit, else an empty text."""
        try:
            self._budget.reserve_cost(max_cost, model)
        except CostLimit as limit:
            return str(limit)
        return ""

    def settle(self, reserved: float, cost: float) -> None:
        """Release a reserved amount and add the actual cost of the call."""
        self._budget.settle_cost(reserved, cost)

    def get_spent(self) -> float:
        """Return the cost of all workers."""
        return self._budget.spent

    def stop(self, reason: str) -> None:
        """Let no worker begin another share."""
        self._stopped = self._stopped or reason

    def get_stopped(self) -> str:
        """Return why no further share should begin; empty if the work goes on."""
        return self._stopped


@dataclass(slots=True)
class SharedBudget(CostBudget):
    """The budget of a worker: amounts are reserved with the keeper, `spent` is this worker's part."""

    keeper: Any = None

    def reserve_cost(self, max_cost: float, model: str) -> None:
        """Reserve an amount with the keeper, or raise CostLimit."""
        if refusal := ray.get(self.keeper.reserve.remote(max_cost, model)):
            raise CostLimit(refusal)

    def settle_cost(self, reserved: float, cost: float) -> None:
        """Settle with the keeper."""
        ray.get(self.keeper.settle.remote(reserved, cost))
        with self._lock:
            self.spent += cost


def start_keeper(limit: float | None) -> Any:
    """Start the actor that keeps the budget, on the driver's node, so that it is lost only together with the driver."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(BudgetKeeper).remote(limit)


def make_worker_budget(prices: Mapping[str, Price], keeper: Any) -> CostBudget:
    """Make the budget of a worker; without a keeper nothing has a price."""
    return CostBudget(prices) if keeper is None else SharedBudget(prices, keeper=keeper)


Stage = Literal["add", "prepare", "store"]


class Worker:
    """A worker that adds shares, or does the first ("prepare") or second half ("store", with the embedder) of that.

    A failure of the whole process, such as opening the store, is the outcome of each of its shares.
    """

    def __init__(self, spec: bytes, gone: Mapping[int, Sequence[str]], keeper: Any, stage: Stage) -> None:
        self._gone, self._keeper, self._stage = gone, keeper, stage
        self._context: IngestContext | None = None
        self._error: Exception | None = None
        try:
            opened: WorkerSpec = load(spec)
            self._context = opened.open()
        except ClewError as error:
            self._error = name_node(error)
        except Exception as error:  # unpickling imports the modules of the user's extensions
            self._error = explain_start_error(error)

    def __call__(self, row: dict[str, bytes]) -> dict[str, bytes]:
        """Process a share; return its outcome, or the prepared share, as a row."""
        share: Share = load(row[COLUMN])
        try:
            result = self._prepare(share) if self._stage == "prepare" else self._add(share)
        except ClewError as error:
            result = Outcome(error=error if share.error or self._error else name_node(error))
        if isinstance(result, Outcome) and result.error is not None and self._stage == "prepare":
            result = replace(share, sources=(), error=result.error)
        return {COLUMN: dump(result)}

    def _open(self) -> tuple[IngestContext, CostBudget, MovedFiles]:
        if self._context is None:
            assert self._error is not None
            raise self._error
        context = self._context
        budget = make_worker_budget(context.make_budget().prices, self._keeper)
        return context, budget, MovedFiles(context.store, context.root, self._gone)

    def _get_stopped(self) -> str:
        if self._keeper is None:
            return ""
        return str(ray.get(self._keeper.get_stopped.remote()))

    def _prepare(self, share: Share) -> Share:
        """Read, chunk and enrich the sources of a share."""
        context, budget, moved = self._open()
        if stopped := self._get_stopped():
            return replace(share, sources=(), stopped=stopped)
        notes: list[Any] = []
        recipe = make_metered_recipe(context, budget, on_warning=notes.append, moved=moved)
        prepared: list[PrepareResult] = []
        try:
            prepared.extend(prepare_sources(share.sources, store=context.store, recipe=recipe))
        except CostLimit as limit:
            stopped = str(limit)
        return replace(share, sources=tuple(prepared), notes=tuple(notes), moved=moved.get_found(), stopped=stopped)

    def _add(self, share: Share) -> Outcome:
        """Store the documents of a share and return the outcome."""
        if share.error is not None:
            raise share.error
        context, budget, moved = self._open()
        moved.include(share.moved)
        if self._stage == "add" and (stopped := self._get_stopped()):
            return Outcome(Report(stopped=stopped))
        before = _read_records(context, share)
        waiting = [_skip_stored(each, before) for each in share.sources]
        own = {doc_id for doc_id, _ in map(_identify, share.sources) if doc_id}
        report = run_pipeline_on_budget(context, waiting, budget=budget, moved=moved, documents=own)
        report = _count_lost_attempt(report, share, before)
        report = replace(
            report, noted=(*share.notes, *report.noted), stopped=share.stopped or report.stopped, cost=budget.spent
        )
        return Outcome(report, moved.get_found())


def _identify(given: Given) -> tuple[str, str]:
    """Return the id and uri of a source or a prepared document; empty for other results."""
    if isinstance(given, Source):
        return given.id, given.uri
    return (given.document.id, given.uri_or_id) if isinstance(given, Prepared) else ("", "")


def _read_records(context: IngestContext, share: Share) -> dict[str, DocumentRecord]:
    """Read the records of the stored documents of a share."""
    ids = frozenset(doc_id for doc_id, _ in map(_identify, share.sources) if doc_id)
    return {record.id: record for record in context.store.documents(Filter(documents=ids))} if ids else {}


def _skip_stored(given: Given, stored: Mapping[str, DocumentRecord]) -> Given:
    """Skip a prepared document that a lost worker has already stored."""
    if not isinstance(given, Prepared) or given.incomplete:
        return given
    record = stored.get(given.document.id)
    return Unchanged(given.uri_or_id) if record is not None and record.hash == given.document.hash else given


def _count_lost_attempt(report: Report, share: Share, before: Mapping[str, DocumentRecord]) -> Report:
    """Count documents stored by a lost worker as added or changed instead of skipped."""
    named = {*report.added, *report.changed, *(failure.source for failure in report.failed)}
    added: list[str] = []
    changed: list[str] = []
    chunks = 0
    for doc_id, uri in map(_identify, share.sources):
        record = before.get(doc_id)
        if record is None or uri in named or record.hash == share.hashes.get(doc_id):
            continue
        (changed if doc_id in share.hashes else added).append(uri)
        chunks += record.chunks
    return replace(
        report,
        added=(*added, *report.added),
        changed=(*changed, *report.changed),
        skipped=report.skipped - len(added) - len(changed),
        chunks=report.chunks + chunks,
        embedded=report.embedded + chunks,
    )
