"""The values sent between the driver and its workers: how to open the collection, shares of sources, and outcomes.

A share is a group of sources that a worker adds at a time, without sources known to be unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray import cloudpickle

from clew import drivers
from clew.core.errors import SettingsError, SourceError
from clew.core.filter import Filter
from clew.core.protocols import LLM, Chunker, Embedder, Enricher, Reader, WritableStore
from clew.core.report import Report, SourceFailure
from clew.core.settings import EmbedderConfig, LLMConfig, Settings
from clew.index.add.context import IngestContext
from clew.index.add.prepare import LOOKUP_BATCH, Given, Recipe, explain_duplicate_id, has_stored_stamp
from clew.index.walk.sources import Source
from clew.index.walk.sync import FoundMoves

COLUMN = "bytes"  # of a row of the dataset: the output of `dump`
SHARE_SOURCES = 32  # files of a share: enough for a batch of the embedder, little to repeat if a worker is lost


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How a worker opens the driver's collection and models, including the address and the keys in the settings.

    Models are given by their settings, or as objects that can be pickled.
    """

    address: str
    collection: str
    embedder: EmbedderConfig | Embedder
    llm: LLMConfig | LLM | None
    settings: Settings
    root: Path
    chunker: Chunker | None = None
    enrichers: Sequence[Enricher] = ()
    readers: Mapping[str, Reader] = field(default_factory=dict)

    def open(self) -> IngestContext:
        """Open the store and models in this process; return the context of the write path."""
        embedder = drivers.make_embedder(self.embedder) if isinstance(self.embedder, EmbedderConfig) else self.embedder
        embedder = drivers.round_vectors(embedder, self.settings.store)
        llm = drivers.make_language_model(self.llm) if isinstance(self.llm, LLMConfig) else self.llm
        store = drivers.open_store(self.address, self.collection, embedder=embedder, config=self.settings.store)
        return IngestContext(
            store,
            embedder,
            llm,
            self.settings,
            self.root,
            chunker=self.chunker,
            enrichers=self.enrichers,
            readers=self.readers,
        )


@dataclass(frozen=True, slots=True)
class Share:
    """Sources that a worker adds, and the hashes of their stored documents when the share was made.

    After the stage "prepare": the prepared documents instead, with notes, moves and problems for the outcome.
    """

    sources: tuple[Given, ...]
    hashes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[SourceFailure, ...] = ()
    moved: FoundMoves = field(default_factory=FoundMoves)
    stopped: str = ""
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a share: the report, the moved files found, and the error that ended the work."""

    report: Report = field(default_factory=Report)
    moved: FoundMoves = field(default_factory=FoundMoves)
    error: Exception | None = None


def dump(value: object) -> bytes:
    """Pickle a value for another process; raise SettingsError if a part cannot be pickled."""
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:  # pickling calls code of the user's extensions
        raise SettingsError(
            f"a part of the engine that was given as an object cannot be sent to the workers ({error}); "
            "give models by name, and other parts as functions of an installed module"
        ) from error


def load(data: bytes) -> Any:
    """Load a value pickled by `dump`."""
    return cloudpickle.loads(data)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Sources that need no worker: unchanged files, and sources that cannot be added."""

    unchanged: int = 0
    failed: tuple[SourceFailure, ...] = ()


def make_shares(
    sources: Iterable[Source | SourceError], *, store: WritableStore, recipe: Recipe
) -> Iterator[Share | Skipped]:
    """Yield the sources as shares; the threads of a channel form one share, since a message may move between them."""
    for group in _group_by_channel(_drop_duplicates(sources)):
        if isinstance(group, SourceFailure):
            yield Skipped(failed=(group,))
            continue
        ids = frozenset(source.id for source in group)
        records = {record.id: record for record in store.documents(Filter(documents=ids))}
        changed = [source for source in group if not has_stored_stamp(source, records.get(source.id), recipe)]
        if len(changed) < len(group):
            yield Skipped(len(group) - len(changed))
        size = len(changed) if group[0].exported_until is not None else SHARE_SOURCES
        for start in range(0, len(changed), size or 1):
            part = tuple(changed[start : start + size])
            yield Share(part, {source.id: records[source.id].hash for source in part if source.id in records})


def _drop_duplicates(sources: Iterable[Source | SourceError]) -> Iterator[Source | SourceFailure]:
    """Yield the sources, and a failure for each that cannot be read or has the id of an earlier one."""
    seen: set[int] = set()
    for source in sources:
        if isinstance(source, SourceError):
            yield SourceFailure(source.source, source.reason)
        elif hash(source.id) in seen:
            yield SourceFailure(source.uri, explain_duplicate_id(source))
        else:
            seen.add(hash(source.id))
            yield source


def _group_by_channel(sources: Iterable[Source | SourceFailure]) -> Iterator[Sequence[Source] | SourceFailure]:
    """Yield in order: groups of up to LOOKUP_BATCH files, groups of all threads of a channel, and failures."""
    group: list[Source] = []
    for source in sources:
        if isinstance(source, SourceFailure):
            yield source
            continue
        if group and not _belongs_to(source, group):
            yield group
            group = []
        group.append(source)
    if group:
        yield group


def _belongs_to(source: Source, group: Sequence[Source]) -> bool:
    if source.exported_until is None or group[0].exported_until is None:
        return source.exported_until is group[0].exported_until and len(group) < LOOKUP_BATCH
    return source.exported_ids is group[0].exported_ids
