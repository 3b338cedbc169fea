"""A pool of workers on a Ray cluster: each makes one thing, such as a model or an engine, and does tasks with it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError

from clew.core.errors import ClewError, DriverFailed
from clew.ray.cluster import OnNode, check_nodes, count_workers, explain_start_error, join_cluster, name_node
from clew.ray.spec import dump, load

Work = Callable[[Any], Any]  # a task in, its result out


class TaskWorker:
    """A process on some machine that does tasks; an error travels back as a value, with its own type."""

    def __init__(self, make: bytes) -> None:
        self._work: Work | None = None
        self._error: ClewError | None = None
        try:
            self._work = load(make)()
        except ClewError as error:
            self._error = name_node(error)
        except Exception as error:  # unpickling imports the modules of the user's own parts
            self._error = explain_start_error(error)

    def run(self, task: Any) -> Any:
        """The result of a task, or what is wrong."""
        if self._work is None:
            return self._error
        try:
            return self._work(task)
        except ClewError as error:
            return name_node(error)


class WorkerPool:
    """Workers that are running; one that is lost is started again and does its task anew."""

    def __init__(self, workers: Iterable[Any]) -> None:
        self._workers = list(workers)

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """The number and the result of each task as they are done; a worker gets the next one when it is ready."""
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
    """Workers that each call `make` and do their tasks with what it returns, until the block ends."""
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
