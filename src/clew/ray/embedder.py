"""An embedder whose texts are embedded by the workers of a Ray cluster, each of which holds one model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError

from clew import drivers
from clew.core.errors import ClewError, DriverFailed
from clew.core.protocols import Embedder, Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.ray.cluster import OnNode, check_nodes, count_workers, explain_start_error, join_cluster
from clew.ray.spec import dump, load

SLICE = 16  # texts that one worker embeds at a time: all have work, and little is done again if one is lost


class EmbedWorker:
    """A process on some machine that holds the model; an error travels back as a value, with its own type."""

    def __init__(self, given: bytes) -> None:
        self._embedder: Embedder | None = None
        self._error: ClewError | None = None
        try:
            opened: EmbedderConfig | Embedder = load(given)
            self._embedder = drivers.make_embedder(opened) if isinstance(opened, EmbedderConfig) else opened
        except ClewError as error:
            self._error = error
        except Exception as error:  # unpickling imports the module of the user's own embedder
            self._error = explain_start_error(error)

    def embed(self, texts: Sequence[str], role: Role) -> Matrix | ClewError:
        """The vectors of the texts, or what is wrong."""
        if self._embedder is None:
            assert self._error is not None
            return self._error
        try:
            return self._embedder.embed(texts, role=role)
        except ClewError as error:
            return error


class ClusterEmbedder:
    """The embedder of the driver, with the vectors of texts made by the workers; a lost one is started again."""

    def __init__(self, inner: Embedder, workers: Sequence[Any]) -> None:
        self._inner, self._workers = inner, workers
        self.name, self.dim, self.max_tokens = inner.name, inner.dim, inner.max_tokens
        self.min_similarity = inner.min_similarity

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order; each worker gets the next slice when it has done one."""
        slices = [texts[start : start + SLICE] for start in range(0, len(texts), SLICE)]
        waiting = dict(enumerate(slices))
        running: dict[Any, tuple[int, Any]] = {}
        made: dict[int, Matrix] = {}
        idle = list(self._workers)
        while waiting or running:
            while waiting and idle:
                number, worker = min(waiting), idle.pop()
                running[worker.embed.remote(waiting.pop(number), role)] = (number, worker)
            (done,), _ = ray.wait(list(running), num_returns=1)
            number, worker = running.pop(done)
            idle.append(worker)
            made[number] = _read_vectors(done)
        return np.concatenate([made[number] for number in sorted(made)]) if made else self._inner.embed([], role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, counted here."""
        return self._inner.count(texts)


def _read_vectors(done: Any) -> Matrix:
    try:
        found = ray.get(done)
    except RayError as error:
        raise DriverFailed(f"the work on the Ray cluster ended: {error}; what was stored stays, try again") from error
    if isinstance(found, ClewError):
        raise found
    vectors: Matrix = found
    return vectors


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
    """The embedder over workers that make it of `given`, until the block ends."""
    spec = dump(given)
    with join_cluster(address):
        check_nodes(on_node)
        start = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)(EmbedWorker).remote
        started = [start(spec) for _ in range(workers or count_workers(1.0, gpus))]
        try:
            yield ClusterEmbedder(inner, started)
        finally:
            for each in started:
                ray.kill(each)
