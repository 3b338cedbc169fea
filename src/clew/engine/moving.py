"""The verbs that move a collection: to a file and out of one, and to the vectors of another model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from clew import drivers
from clew.core.cost import CostBudget, CostLimit, Price
from clew.core.errors import DriverFailed, NotFound, SettingsError, StoreMismatch
from clew.core.metered import MeteredEmbedder
from clew.core.protocols import Embedder
from clew.core.report import Failure, OnProgress, Progress, Report
from clew.core.types import Filter
from clew.engine.held import Held

if TYPE_CHECKING:
    from clew.core.stored import Manifest, StoredDocument

PATIENCE = 3  # documents in a row that the store may refuse before the work is given up


class Moving(Held):
    """Exporting, restoring and embedding again."""

    def export(self, path: str | Path, *, progress: OnProgress | None = None) -> "Manifest":
        """What was written: the whole collection in one file, put in place when it is whole.

        A document that changes meanwhile is in it as it was when its turn came.
        """
        from clew.drivers.store import bundle

        facts = self._store.stats()
        return bundle.write(
            Path(path),
            self._store.stored_documents(),
            embedder=facts.embedder,
            dim=facts.dim,
            language=self._settings.ingestion.language,
            told=_told("exporting", facts.documents, "documents", progress),
        )

    def restore(self, path: str | Path, *, progress: OnProgress | None = None) -> Report:
        """What was added and replaced of an exported file; nothing is embedded.

        The file is checked before anything is written. What is there already, equal to the last bit, is skipped, so a
        restore that was broken off goes on; documents that are not in the file stay.
        """
        from clew.drivers.store import bundle

        started, file = monotonic(), Path(path)
        made = bundle.manifest(file)
        facts = self._store.stats()
        if (made.embedder, made.dim) != (facts.embedder, facts.dim):
            raise StoreMismatch(
                f"{file} holds vectors of {made.embedder} ({made.dim} dimensions) and this collection those of "
                f"{facts.embedder} ({facts.dim}); restore it into a new collection, or re-embed one of the two"
            )
        bundle.check(file, _told("checking", len(made.parts), "parts", progress))
        work = _Restoring(self, made, started)
        told = _told("restoring", made.documents, "documents", progress)
        try:
            for wholes in bundle.read(file, made):
                work.take(wholes)
                if told:
                    told(work.done)
        finally:
            self._store.flush()
        return work.report(self._settings.ingestion.language)

    def reembed(
        self,
        to: str | Embedder | None = None,
        *,
        back: bool = False,
        discard: bool = False,
        max_cost: float | None = None,
        progress: OnProgress | None = None,
    ) -> Report:
        """How many vectors of another model were made; the collection then has these, and no chunk is cut anew.

        Until they are all there, searches use the old ones and changes are caught up with; work that was broken off
        goes on. The old vectors stay beside: `back` makes those in use again, `discard` forgets the ones not in use.
        """
        if (to is not None) + back + discard != 1:
            raise SettingsError("reembed takes one of three: a model to go to, back, or discard")
        started, before = monotonic(), self._store.stats()
        shadow = self._store.staged()
        if (back and not (shadow and shadow.was_used)) or (discard and not shadow):
            raise NotFound(f"there are no vectors of another model beside those of {before.embedder}")
        if discard:
            self._store.discard_staged()
            return Report(seconds=monotonic() - started)
        named = shadow.embedder if back and shadow else to
        embedder = drivers.embedder(replace(self._settings.embedder, name=named)) if isinstance(named, str) else named
        if embedder is None or embedder.name == before.embedder:
            raise SettingsError(f"the collection has the vectors of {before.embedder} already; name another model")
        purse, done, stopped = CostBudget({embedder.name: Price(self._settings.embedder.price)}, max_cost), 0, ""

        def tell(many: int, total: int) -> None:
            nonlocal done
            done = many
            if progress:
                spent = monotonic() - started
                progress(Progress("embedding", many, total, "texts", many / spent, spent / many * (total - many)))

        metered = MeteredEmbedder(embedder, purse)
        try:
            self._store.stage_vectors(metered, tell)
            self._use(self._store.switch_to_staged(metered), embedder, self.strategies)
        except CostLimit as limit:
            stopped = str(limit)
        finally:
            self._store.flush()
        spent = monotonic() - started
        return Report(chunks=before.chunks, embedded=done, seconds=spent, cost=purse.spent, stopped=stopped)


class _Restoring:
    """The tally of one restore."""

    def __init__(self, engine: Moving, made: "Manifest", started: float) -> None:
        self._store = engine._store
        self._made = made
        self._started = started
        self._added: list[str] = []
        self._changed: list[str] = []
        self._failed: list[Failure] = []
        self._skipped = self._chunks = self._in_a_row = 0

    @property
    def done(self) -> int:
        """How many documents were looked at."""
        return len(self._added) + len(self._changed) + len(self._failed) + self._skipped

    def take(self, wholes: "Sequence[StoredDocument]") -> None:
        """Keeps each of some documents, but for those that are there as they are."""
        ids = frozenset(each.document.id for each in wholes)
        records = {each.id: each for each in self._store.documents(Filter(documents=ids))}
        alike = [
            each.document.id
            for each in wholes
            if (there := records.get(each.document.id)) and (there.hash, there.chunks) == _known_by(each)
        ]
        kept = {each.document.id: each.fingerprint() for each in self._store.stored_documents(alike)} if alike else {}
        for each in wholes:
            name = each.document.uri or each.document.id
            if kept.get(each.document.id) == each.fingerprint():
                self._skipped += 1
                continue
            try:
                self._store.put_stored(each)
            except DriverFailed as error:
                self._failed.append(Failure(name, str(error)))
                self._in_a_row += 1
                if self._in_a_row >= PATIENCE:
                    raise
                continue
            self._in_a_row = 0
            self._chunks += len(each.chunks)
            (self._changed if each.document.id in records else self._added).append(name)

    def report(self, language: str) -> Report:
        """What was done."""
        noted: tuple[Failure, ...] = ()
        if language != self._made.language:
            said = f"its words were read as {self._made.language!r}, questions here as {language!r}"
            noted = (Failure("ingestion.language", f"{said}; set it alike, or word search misses some forms"),)
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


def exported_embedder(path: str | Path) -> str:
    """The name of the embedder of an exported file, once it is found to be undamaged."""
    from clew.drivers.store import bundle

    return bundle.check(Path(path)).embedder


def _known_by(whole: "StoredDocument") -> tuple[str, int]:
    return whole.document.hash, len(whole.chunks)


def _told(stage: str, total: int, unit: str, watch: OnProgress | None) -> Callable[[int], None] | None:
    """What tells a watcher how many of so many are done."""
    started = monotonic()

    def tell(done: int) -> None:
        if watch:
            spent = monotonic() - started
            left = spent / done * max(total - done, 0) if done else None
            watch(Progress(stage, done, max(total, done), unit, done / spent if spent else 0.0, left))

    return tell if watch else None
