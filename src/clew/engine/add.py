"""The verbs that change a collection: add (here or on a Ray cluster), plan, backfill, calibrate and drop."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.calibration import Calibration
from clew.core.errors import SettingsError
from clew.core.protocols import Embedder
from clew.core.report import OnProgress, Plan, Progress, Report
from clew.core.settings import EmbedderConfig, Settings
from clew.core.types import Document, Message
from clew.engine.languages import note_foreign_languages
from clew.engine.names import resolve_documents
from clew.engine.opened import Opened, check_positive_count
from clew.index.add import ingest
from clew.index.add.context import IngestContext
from clew.index.add.embed import measure_calibration
from clew.index.walk.sources import is_url

if TYPE_CHECKING:
    from clew.engine import Engine


def add(
    engine: "Engine",
    *sources: str | Path,
    sync: bool = False,
    allow_mass_drop: bool = False,
    max_cost: float | None = None,
    settings: Settings | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Add files, folders, chat exports and web pages; unchanged ones are skipped.

    sync: Also drop documents whose files have disappeared from the given folders.
    allow_mass_drop: Let `sync` drop more than half of a folder; refused otherwise, as the share may not be mounted.
    max_cost: Stop before the work costs more than this.
    settings: `settings.ingestion` (include, exclude, ignore) chooses the files; the report lists skipped ones.

    Documents are stored first and found by their words at once; then the vectors are made, newest first. If that is
    interrupted, the next `add` or `backfill` continues; `status` counts pending vectors. If there are at most 64 new
    texts, they are embedded first and stored with their vectors.
    """
    check_sources(sources)
    context = make_ingest_context(engine.opened, settings)
    report = ingest.add_sources(
        context, sources, sync=sync, allow_mass_drop=allow_mass_drop, max_cost=max_cost, on_progress=on_progress
    )
    return note_foreign_languages(engine.opened, report)


def add_documents(
    engine: "Engine",
    documents: Iterable[Document],
    *,
    max_cost: float | None = None,
    settings: Settings | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Add documents made by a program. A document without sections is parsed as Markdown."""
    if isinstance(documents, Document):
        raise SettingsError("documents is one Document; give a list of them")
    context = make_ingest_context(engine.opened, settings)
    report = ingest.add_documents(context, _check_documents(documents), max_cost=max_cost, on_progress=on_progress)
    return note_foreign_languages(engine.opened, report)


def add_messages(engine: "Engine", messages: Iterable[Message], *, settings: Settings | None = None) -> Report:
    """Add messages as they are sent: each joins its thread and costs one embedding.

    A message already stored is skipped; an edited one replaces the stored one. The report lists messages by id.
    """
    if isinstance(messages, Message):
        raise SettingsError("messages is one Message; give a list of them")
    with engine.opened.message_lock:
        return ingest.add_messages(make_ingest_context(engine.opened, settings), messages)


def plan(
    engine: "Engine",
    *sources: str | Path,
    sync: bool = False,
    settings: Settings | None = None,
    on_progress: OnProgress | None = None,
) -> Plan:
    """Estimate the work of `add` (documents, embeddings, model calls, drops), its duration and its cost.

    Nothing is stored and no service is called. An embedder that runs on this machine is timed on a few chunks.
    """
    engine.opened.check_unbounded()
    context = make_ingest_context(engine.opened, settings)
    return ingest.plan_add_sources(context, sources, sync=sync, on_progress=on_progress)


def backfill(
    engine: "Engine",
    *,
    refresh: bool = False,
    max_cost: float | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Make missing data: pending vectors, summaries, and contexts that a language model failed to write.

    `refresh` also rewrites summaries that were extracted or written by another model; summaries given by a caller stay.
    `ingestion.max_concurrent` calls run at a time. Several runs at once share the work.
    """
    context = make_ingest_context(engine.opened, None)
    return ingest.backfill(context, refresh=refresh, max_cost=max_cost, on_progress=on_progress)


def calibrate(engine: "Engine") -> Calibration:
    """Measure again what the embedder's cosines mean in this collection, and store it for `Hit.relevance`.

    The `add` that reaches a hundred chunks measures it once, so that relevance does not drift. Measure again when the
    content has changed a lot, as by a new language. This embeds about a hundred sentences.
    """
    opened = engine.opened
    measured = measure_calibration(opened.store, opened.embedder)
    opened.store.set_calibration(measured.to_json())
    return measured


def drop(engine: "Engine", *documents: str) -> int:
    """Remove documents by id, address, folder or pattern (`notes/*.md`); return how many.

    A source added in sections is removed with all sections. If one name matches nothing, nothing is removed.
    """
    _check_names("drop", documents)
    opened = engine.opened
    return opened.store.drop([doc_id for name in documents for doc_id in resolve_documents(opened, str(name))])


def drop_messages(engine: "Engine", *ids: str, settings: Settings | None = None) -> int:
    """Remove messages by id; return how many. If one is missing, raise NotFound and remove none.

    Replies to a removed message become replies to its parent. The few messages embedded together with it are embedded
    again. An empty thread is dropped.
    """
    _check_names("drop_messages", ids)
    with engine.opened.message_lock:
        return ingest.drop_messages(make_ingest_context(engine.opened, settings), ids)


def _check_documents(documents: Iterable[object]) -> Iterator[Document]:
    """Yield the documents; raise SettingsError for anything else: callers without a type checker pass texts."""
    for each in documents:
        if not isinstance(each, Document):
            kind = type(each).__name__
            raise SettingsError(f"documents must be Document objects; got a {kind}, so give Document(id, text)")
        yield each


def check_sources(sources: tuple[object, ...]) -> None:
    """Raise SettingsError if a source is not a path or an address: callers without a type checker pass anything."""
    for source in sources:
        if not isinstance(source, str | Path):
            kind = type(source).__name__
            raise SettingsError(f"a source has the type {kind}; give each path as an argument of its own: add(*paths)")


def _check_names(verb: str, names: tuple[object, ...]) -> None:
    """Raise SettingsError if a list is given instead of names: callers without a type checker pass anything."""
    if not all(isinstance(name, str | Path) for name in names):
        raise SettingsError(f"give each name as an argument of its own: {verb}(*names), not {verb}(names)")


def make_ingest_context(opened: Opened, settings: Settings | None) -> IngestContext:
    """Make the context of the write path, with the settings of the call."""
    given = opened.extensions
    return IngestContext(
        opened.store,
        opened.embedder,
        opened.llm,
        opened.resolve_settings(settings),
        opened.root,
        is_upload=opened.is_upload,
        chunker=given.chunker,
        enrichers=given.enrichers,
        readers=given.readers,
    )


@dataclass(frozen=True, slots=True)
class RayOptions:
    """The Ray cluster to use (none if the address is None), its workers, and the GPUs of each worker."""

    address: str | None
    workers: int | None = None
    gpus: float = 0.0

    def check(self) -> None:
        """Raise SettingsError for impossible numbers, and for workers without a cluster."""
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
    """Open the embedder itself, or with a cluster, one whose workers each make their own from `given`."""
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
    """Report how many nodes of the cluster have answered."""
    if on_progress:
        on_progress(Progress("starting", done, total, "nodes"))


def check_reachable(opened: Opened) -> None:
    """Raise SettingsError if the workers of other machines cannot open the collection."""
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
    """Add sources with the workers of a Ray cluster, with the same result as `add`.

    address: The cluster; "auto" is the one of this machine, "local" starts one here for this run.
    workers: Processes that each load the embedder (default: one for each core, or as many as fit the GPUs).
    gpus: GPUs for each worker; further workers then read and chunk for them.

    All workers must reach the sources by the same paths, and the store. A collection in a folder is refused: only one
    process can open it. A lost worker is replaced; the next call continues interrupted work.
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
