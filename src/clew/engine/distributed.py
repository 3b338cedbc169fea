"""Work on many machines: the pipeline of `add` on a Ray cluster, and an embedder whose models are there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.errors import SettingsError
from clew.core.protocols import Embedder
from clew.core.report import OnProgress, Progress, Report
from clew.core.settings import EmbedderConfig, Settings
from clew.engine.add import check_sources, make_ingest_context
from clew.engine.opened import Opened, check_positive_count
from clew.index.add import ingest
from clew.index.walk.sources import is_url

if TYPE_CHECKING:
    from clew.engine import Engine


@dataclass(frozen=True, slots=True)
class RayOptions:
    """The cluster that does the work, if one does: its address, and the workers and the GPUs of each."""

    address: str | None
    workers: int | None = None
    gpus: float = 0.0

    def check(self) -> None:
        """Raises SettingsError for what cannot be, and for workers without a cluster."""
        if self.address is None and (self.workers is not None or self.gpus):
            raise SettingsError("workers and gpus are those of a Ray cluster; give its address too")
        if self.workers is not None:
            check_positive_count("workers", self.workers)
        if not self.gpus >= 0:
            raise SettingsError(f"gpus is {self.gpus!r}; it must be a number of at least 0")


@contextmanager
def open_embedder(
    inner: Embedder, given: EmbedderConfig | Embedder, options: RayOptions, on_progress: OnProgress | None
) -> Iterator[Embedder]:
    """The embedder itself, or with a cluster one whose workers each make theirs of `given`."""
    options.check()
    if options.address is None:
        yield inner
        return
    from clew.ray import open_cluster_embedder

    on_node = partial(report_nodes, on_progress)
    with open_cluster_embedder(
        inner, given, options.address, workers=options.workers, gpus=options.gpus, on_node=on_node
    ) as embedder:
        yield embedder


def report_nodes(on_progress: OnProgress | None, done: int, total: int) -> None:
    """Tells how many nodes of the cluster have answered."""
    if on_progress:
        on_progress(Progress("starting", done, total, "nodes"))


def check_reachable(opened: Opened) -> None:
    """Raises SettingsError if the workers of other machines cannot open the collection."""
    if not opened.address:
        raise SettingsError(
            "workers on many machines cannot open this collection: one in a folder or in memory belongs to this "
            "machine; keep it on a server (postgresql://…) or in object storage (s3://…): `clew export FILE`, then "
            "`clew --path ADDRESS restore FILE` there"
        )


def add_distributed(
    engine: "Engine",
    *sources: str | Path,
    address: str = "auto",
    workers: int | None = None,
    gpus: float = 0.0,
    sync: bool = False,
    allow_mass_drop: bool = False,
    max_cost: float | None = None,
    settings: Settings | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Adds sources with the workers of a Ray cluster; the collection is then what `add` makes of it.

    `address` is the cluster's, "auto" for the one of this machine, "local" for one that is started here for this run.
    Each of the `workers`, by default one for each core of the cluster, holds a model; with `gpus` for each of them,
    further ones read and chunk for them. All must be able to read the sources by the same paths, and to reach the
    store: a folder, which one process has open, is refused. A worker that is lost is replaced, and what is interrupted
    goes on with the next call.
    """
    opened = engine.opened
    check_sources(sources)
    opened.check_unbounded()
    check_reachable(opened)
    RayOptions(address, workers, gpus).check()
    from clew.ray import DistributedPipeline, WorkerSpec

    context, given = make_ingest_context(opened, settings), opened.extensions
    spec = WorkerSpec(
        opened.address,
        opened.collection,
        opened.embedder_config or opened.embedder,
        opened.llm_config or opened.llm,
        context.settings,
        context.root,
        chunker=given.chunker,
        enrichers=given.enrichers,
        readers=given.readers,
    )
    return ingest.add_sources(
        context,
        [source if is_url(source) else Path(source).absolute() for source in sources],
        sync=sync,
        allow_mass_drop=allow_mass_drop,
        max_cost=max_cost,
        on_progress=on_progress,
        run=DistributedPipeline(spec, address, workers=workers, gpus=gpus),
    )
