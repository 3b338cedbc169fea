"""An embedder whose texts are embedded by the workers of a Ray cluster, each of which holds one model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from clew import drivers
from clew.core.protocols import Embedder, Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.ray.cluster import OnNode
from clew.ray.pool import Work, WorkerPool, open_pool

SLICE = 16  # texts that one worker embeds at a time: all have work, and little is done again if one is lost


def make_embed(given: EmbedderConfig | Embedder) -> Work:
    """What a worker does: texts and their role become vectors."""
    embedder = drivers.make_embedder(given) if isinstance(given, EmbedderConfig) else given

    def embed(task: tuple[Sequence[str], Role]) -> Matrix:
        texts, role = task
        return embedder.embed(texts, role=role)

    return embed


class ClusterEmbedder:
    """The embedder of the driver, with the vectors of texts made by the workers."""

    def __init__(self, inner: Embedder, pool: WorkerPool) -> None:
        self._inner, self._pool = inner, pool
        self.name, self.dim, self.max_tokens = inner.name, inner.dim, inner.max_tokens
        self.min_similarity = inner.min_similarity

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order."""
        slices = ((texts[start : start + SLICE], role) for start in range(0, len(texts), SLICE))
        made: dict[int, Matrix] = dict(self._pool.run(slices))
        return np.concatenate([made[number] for number in sorted(made)]) if made else self._inner.embed([], role=role)

    def count(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, counted here."""
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
    """The embedder over workers that make it of `given`, until the block ends."""
    with open_pool(partial(make_embed, given), address, workers=workers, gpus=gpus, on_node=on_node) as pool:
        yield ClusterEmbedder(inner, pool)
