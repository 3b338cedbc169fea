"""The verb that adds with many machines: the pipeline of `add`, on a Ray cluster."""

from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.errors import SettingsError
from clew.core.report import OnProgress, Report
from clew.core.settings import Settings
from clew.engine.add import check_sources, make_ingest_context
from clew.engine.opened import check_positive_count
from clew.index.add import ingest
from clew.index.add.sources import is_url

if TYPE_CHECKING:
    from clew.engine import Engine


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
    if not opened.address:
        raise SettingsError(
            "workers on many machines cannot write to this collection: one in a folder or in memory belongs to this "
            "machine; open one on a server (postgresql://…), and `clew export` and `clew restore` move what there is"
        )
    if workers is not None:
        check_positive_count("workers", workers)
    if not gpus >= 0:
        raise SettingsError(f"gpus is {gpus!r}; it must be a number of at least 0")
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
