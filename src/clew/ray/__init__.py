"""Work on a Ray cluster: the workers of many machines read, chunk, embed and store into one shared store.

The driver finds the sources and distributes them in small shares; each worker adds its share with the functions of
`add`, so the collection is the same. If a worker is lost, its share is done again: documents already stored count as
unchanged, so nothing is lost or duplicated.
"""

from clew.core.errors import DriverMissing

try:
    import ray.data  # noqa: F401
except ImportError as error:
    raise DriverMissing(
        f'work on a Ray cluster needs ray ({error}); install it with: pip install "clew[ray]"'
    ) from error

from clew.ray.pipeline import DistributedPipeline
from clew.ray.pool import Work, open_cluster_embedder, open_pool
from clew.ray.shares import WorkerSpec

__all__ = ["DistributedPipeline", "Work", "WorkerSpec", "open_cluster_embedder", "open_pool"]
