"""The verbs that move a collection: export to a file, restore from one, re-embed with another model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from clew import drivers
from clew.core.errors import CostLimit, DriverFailed, NotFound, SettingsError, StoreMismatch
from clew.core.filter import Filter
from clew.core.metered import MeteredEmbedder
from clew.core.protocols import Embedder
from clew.core.report import OnProgress, Report, SourceFailure, flush_after, measure_progress
from clew.core.settings import StoreConfig
from clew.core.usage import CostBudget, Price
from clew.drivers.embed.wrapped import round_to_half
from clew.drivers.store.store import Store
from clew.engine.add import RayOptions, open_embedder
from clew.engine.opened import check_embedder
from clew.index.add.embed import calibrate_once

if TYPE_CHECKING:
    from clew.core.stored import Manifest, StoredDocument
    from clew.engine import Engine

MAX_FAILURES = 3  # consecutive documents that the store may refuse before the restore fails

MIN_FREE = 0.1  # free share of a folder's database from which `discard` compacts it even without staged vectors


def export(engine: "Engine", path: str | Path, *, on_progress: OnProgress | None = None) -> "Manifest":
    """Write the whole collection to one file, which appears when complete; return its manifest.

    A document that changes during the export is written in its state at that moment.
    """
    from clew.drivers.store import bundle

    opened = engine.opened
    stats = opened.store.counts()
    return bundle.write_bundle(
        Path(path),
        opened.store.stored_documents(),
        embedder=stats.embedder,
        dim=stats.dim,
        language=opened.settings.ingestion.language,
        calibration=opened.store.calibration(),
        on_progress=_make_progress_counter("exporting", stats.documents, "documents", on_progress),
    )


def restore(engine: "Engine", path: str | Path, *, on_progress: OnProgress | None = None) -> Report:
    """Upsert the documents of an exported file, with their vectors.

    The file is checked before anything is written. Documents stored bit for bit the same are skipped, so a repeated
    restore continues an interrupted one. Documents that are not in the file stay.
    """
    from clew.drivers.store import bundle

    opened, file = engine.opened, Path(path)
    manifest = bundle.read_manifest(file)
    stats = opened.store.counts()
    if (manifest.embedder, manifest.dim) != (stats.embedder, stats.dim):
        raise StoreMismatch(
            f"{file} has vectors of {manifest.embedder} ({manifest.dim} dimensions), this collection has vectors of "
            f"{stats.embedder} ({stats.dim}); restore into a new collection, or re-embed one of the two, with the Clew "
            "that wrote it"
        )
    bundle.verify_bundle(file, _make_progress_counter("checking", len(manifest.parts), "parts", on_progress))
    work = _Restore(opened.store, manifest)
    report_done = _make_progress_counter("restoring", manifest.documents, "documents", on_progress)
    with flush_after(opened.store.flush, on_progress):
        for batch in bundle.read_bundle(file, manifest):
            work.store_batch([_round_stored(each, opened.settings.store) for each in batch])
            if report_done:
                report_done(work.documents_done)
        if manifest.calibration and not opened.store.calibration():
            opened.store.set_calibration(manifest.calibration)
    return work.build_report(opened.settings.ingestion.language)


def reembed(
    engine: "Engine",
    to: str | Embedder | None = None,
    *,
    back: bool = False,
    discard: bool = False,
    max_cost: float | None = None,
    ray: str | None = None,
    workers: int | None = None,
    gpus: float = 0.0,
    on_progress: OnProgress | None = None,
) -> Report:
    """Embed every chunk and summary with another model, without chunking again, and switch the collection to it.

    Searches use the old vectors until all new ones are stored. Changes made meanwhile are embedded too, and calling
    again continues interrupted work.

    to: The new model, by name or as an object.
    back: Switch to the previous vectors again; they are kept.
    discard: Delete the vectors not in use. `failed` names disk space not returned; the next `discard` tries again.
    ray: The address of a Ray cluster whose workers embed; this process stores the vectors, so any store works.
    workers, gpus: Ray workers (default: one a core, or as many as fit the GPUs), and GPUs for each.
    """
    if (to is not None) + back + discard != 1:
        raise SettingsError("reembed takes exactly one of: a model, back=True, discard=True")
    opened = engine.opened
    started, before = monotonic(), opened.store.counts()
    staged = opened.store.staged_model()
    if discard and (report := _discard_vectors(opened.store)):
        return replace(report, seconds=monotonic() - started)
    if discard or (back and not (staged and staged.was_used)):
        raise NotFound(f"there are no vectors of another model beside those of {before.embedder}")
    model, config = staged.embedder if back and staged else to, None
    if isinstance(model, str):
        config = replace(opened.settings.embedder, name=model)
        model = drivers.make_embedder(config)
    if model is not None:
        check_embedder(model)
    if model is None or model.name == before.embedder:
        raise SettingsError(f"the collection already has vectors of {before.embedder}; name another model")
    budget, done, stopped = CostBudget({model.name: Price(opened.settings.embedder.price)}, max_cost), 0, ""

    def report_embedded(count: int, total: int, share: float) -> None:
        nonlocal done
        done = count
        if on_progress:
            spent = monotonic() - started
            on_progress(measure_progress("embedding", count, total, "texts", spent, share=share))

    options = RayOptions(ray, workers, gpus)
    options.check()
    with flush_after(lambda: engine.opened.store.flush(), on_progress):
        try:
            with open_embedder(model, config or model, options, on_progress) as embedder:
                metered = drivers.round_vectors(MeteredEmbedder(embedder, budget), opened.settings.store)
                opened.store.stage_vectors(metered, report_embedded)
                engine.opened = opened.with_store(opened.store.switch_to_staged(metered), model, config)
                calibrate_once(engine.opened.store, metered)
        except CostLimit as limit:
            stopped = str(limit)
    spent = monotonic() - started
    return Report(chunks=before.chunks, embedded=done, seconds=spent, cost=budget.spent, stopped=stopped)


def _discard_vectors(store: Store) -> Report | None:
    """Delete the staged vectors and return free space to the disk; return None if there was neither."""
    was_there = store.staged_model() is not None and store.discard_staged()
    problems = store.reclaim_room(0.0 if was_there else MIN_FREE)
    if problems is None:
        return Report() if was_there else None
    found = "the vectors are deleted" if was_there else "there were no unused vectors"
    if problems:
        reasons = [f"{found}, but {problem} (`clew reembed --discard`)" for problem in problems]
        return Report(failed=tuple(SourceFailure("free room", reason) for reason in reasons))
    if was_there:
        return Report()
    return Report(noted=(SourceFailure("free room", f"{found}; the room that was free in the file was given back"),))


def _round_stored(stored: "StoredDocument", config: StoreConfig) -> "StoredDocument":
    """Round the vectors of a document to half precision if the store keeps them so (`store.vectors`)."""
    if config.vectors != "half":
        return stored
    summary = stored.summary_vector
    rounded = None if summary is None else round_to_half(summary)
    return replace(stored, vectors=round_to_half(stored.vectors), summary_vector=rounded)


class _Restore:
    """The running counts of one restore."""

    def __init__(self, store: Store, manifest: "Manifest") -> None:
        self._store = store
        self._manifest = manifest
        self._started = monotonic()
        self._added: list[str] = []
        self._changed: list[str] = []
        self._failed: list[SourceFailure] = []
        self._skipped = self._chunks = self._failures_in_a_row = 0

    @property
    def documents_done(self) -> int:
        """The number of documents stored, skipped or refused."""
        return len(self._added) + len(self._changed) + len(self._failed) + self._skipped

    def store_batch(self, batch: "Sequence[StoredDocument]") -> None:
        """Store a batch of documents, skipping unchanged ones."""
        ids = frozenset(stored.document.id for stored in batch)
        records = {record.id: record for record in self._store.documents(Filter(documents=ids))}
        similar = [
            stored.document.id
            for stored in batch
            if (record := records.get(stored.document.id))
            and (record.hash, record.chunks) == (stored.document.hash, len(stored.chunks))
        ]
        present = self._store.stored_documents(similar) if similar else ()
        fingerprints = {stored.document.id: stored.fingerprint() for stored in present}
        for stored in batch:
            name = stored.document.uri or stored.document.id
            if fingerprints.get(stored.document.id) == stored.fingerprint():
                self._skipped += 1
                continue
            try:
                self._store.put_many([stored])
            except DriverFailed as error:
                self._failed.append(SourceFailure(name, error.message))
                self._failures_in_a_row += 1
                if self._failures_in_a_row >= MAX_FAILURES:
                    raise
                continue
            self._failures_in_a_row = 0
            self._chunks += len(stored.chunks)
            (self._changed if stored.document.id in records else self._added).append(name)

    def build_report(self, language: str) -> Report:
        """Build the report of the restore, with a note if the file was indexed for another language."""
        noted: tuple[SourceFailure, ...] = ()
        if language != self._manifest.language:
            reason = (
                f"the file was indexed as {self._manifest.language!r}, queries here are analysed as {language!r}; "
                "set both alike, or lexical search misses some word forms"
            )
            noted = (SourceFailure("ingestion.language", reason),)
        return Report(
            added=tuple(self._added),
            changed=tuple(self._changed),
            skipped=self._skipped,
            failed=tuple(self._failed),
            chunks=self._chunks,
            reused=self._chunks,
            seconds=monotonic() - self._started,
            noted=noted,
        )


def read_export_embedder(path: str | Path) -> str:
    """Verify the checksums of an exported file and return the name of its embedder."""
    from clew.drivers.store import bundle

    return bundle.verify_bundle(Path(path)).embedder


def _make_progress_counter(
    stage: str, total: int, unit: str, on_progress: OnProgress | None
) -> Callable[[int], None] | None:
    """Make a function that reports progress with rate and time left; None without a callback."""
    if on_progress is None:
        return None
    started = monotonic()

    def report_done(done: int) -> None:
        on_progress(measure_progress(stage, done, max(total, done), unit, monotonic() - started))

    return report_done
