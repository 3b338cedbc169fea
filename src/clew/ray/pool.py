"""A pool of workers on a Ray cluster: each loads an object, such as a model, and runs tasks with it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError

from clew import drivers
from clew.core.errors import ClewError, DriverFailed
from clew.core.protocols import Embedder, Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.ray.cluster import OnNode, check_nodes, count_workers, explain_start_error, join_cluster, name_node
from clew.ray.shares import dump, load

Work = Callable[[Any], Any]  # from a task to its result
SLICE = 16  # texts that a worker embeds at a time: keeps all workers busy, and little is repeated if one is lost


class TaskWorker:
    """A process on some machine that runs tasks; errors are returned as values, to keep their type."""

    def __init__(self, make: bytes) -> None:
        self._work: Work | None = None
        self._error: ClewError | None = None
        try:
            self._work = load(make)()
        except ClewError as error:
            self._error = name_node(error)
        except Exception as error:  # unpickling imports the modules of the user's extensions
            self._error = explain_start_error(error)

    def run(self, task: Any) -> Any:
        """Run a task; return its result or its error."""
        if self._work is None:
            return self._error
        try:
            return self._work(task)
        except ClewError as error:
            return name_node(error)


class WorkerPool:
    """Running workers; Ray restarts a lost worker and retries its task."""

    def __init__(self, workers: Iterable[Any]) -> None:
        self._workers = list(workers)

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the number and result of each task when it is done."""
        waiting = enumerate(tasks)
        running: dict[Any, tuple[int, Any]] = {}
        idle = list(self._workers)
        while True:
            while idle and (given := next(waiting, None)) is not None:
                (number, task), worker = given, idle.pop()
                running[worker.run.remote(task)] = (number, worker)
            if not running:
                return
            (done,), _ = ray.wait(list(running), num_returns=1)
            number, worker = running.pop(done)
            idle.append(worker)
            yield number, _read_result(done)


def _read_result(done: Any) -> Any:
    try:
        found = ray.get(done)
    except RayError as error:
        raise DriverFailed(f"the work on the Ray cluster ended: {error}; what was stored stays, try again") from error
    if isinstance(found, ClewError):
        raise found
    return found


@contextmanager
def open_pool(
    make: Callable[[], Work], address: str, *, workers: int | None, gpus: float, on_node: OnNode
) -> Iterator[WorkerPool]:
    """Open workers that each call `make` once and run tasks with its result, until the block ends."""
    given = dump(make)
    with join_cluster(address):
        check_nodes(on_node)
        start = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)(TaskWorker).remote
        started = [start(given) for _ in range(workers or count_workers(1.0, gpus))]
        try:
            yield WorkerPool(started)
        finally:
            for each in started:
                ray.kill(each)


def make_embed(given: EmbedderConfig | Embedder) -> Work:
    """Make the function by which a worker embeds texts in a role."""
    embedder = drivers.make_embedder(given) if isinstance(given, EmbedderConfig) else given

    def embed(task: tuple[Sequence[str], Role]) -> Matrix:
        texts, role = task
        return embedder.embed(texts, role=role)

    return embed


class ClusterEmbedder:
    """An embedder for the driver that lets the workers of a pool make the vectors."""

    def __init__(self, inner: Embedder, pool: WorkerPool) -> None:
        self._inner, self._pool = inner, pool
        self.name, self.dim, self.max_tokens = inner.name, inner.dim, inner.max_tokens
        self.min_similarity = inner.min_similarity

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """Embed texts on the workers: a unit vector for each, in order."""
        slices = ((texts[start : start + SLICE], role) for start in range(0, len(texts), SLICE))
        made: dict[int, Matrix] = dict(self._pool.run(slices))
        return np.concatenate([made[number] for number in sorted(made)]) if made else self._inner.embed([], role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, in this process."""
        return self._inner.count(texts)


@contextmanager
def open_cluster_embedder(
    inner: Embedder,
    given: EmbedderConfig | Embedder,
    address: str,
    *,
    workers: int | None,
    gpus: float,
    on_node: OnNode,
) -> Iterator[Embedder]:
    """Open an embedder over workers that each make their own from `given`, until the block ends."""
    with open_pool(partial(make_embed, given), address, workers=workers, gpus=gpus, on_node=on_node) as pool:
        yield ClusterEmbedder(inner, pool)
