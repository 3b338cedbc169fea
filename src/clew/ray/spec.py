"""What travels between the driver and its workers: how to open the collection, shares of sources, and outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray import cloudpickle

from clew import drivers
from clew.core.errors import SettingsError
from clew.core.protocols import LLM, Chunker, Embedder, Enricher, Reader
from clew.core.report import Report, SourceFailure
from clew.core.settings import EmbedderConfig, LLMConfig, Settings
from clew.index.add.context import IngestContext
from clew.index.add.prepare import Given
from clew.index.walk.sync import FoundMoves

COLUMN = "bytes"  # of a row of the dataset: what `dump` made


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How a worker opens what the driver has open; the address and the keys of the settings travel with it.

    Models are given by their settings, or as objects that can be copied to another process.
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
        """The write path's context over connections and models of this process."""
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
    """Sources that one worker adds, and the hashes that their stored documents had when it was handed out.

    After the preparing worker of two: what was prepared, and what is to be added to the outcome.
    """

    sources: tuple[Given, ...]
    hashes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[SourceFailure, ...] = ()
    moved: FoundMoves = field(default_factory=FoundMoves)
    stopped: str = ""
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a share: the report, the moved files that were found, and the error that ended the work."""

    report: Report = field(default_factory=Report)
    moved: FoundMoves = field(default_factory=FoundMoves)
    error: Exception | None = None


def dump(value: object) -> bytes:
    """The value as bytes for another process; SettingsError if a part of it cannot be copied there."""
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:  # pickling calls the code of the user's own parts
        raise SettingsError(
            f"a part of the engine that was given as an object cannot be sent to the workers ({error}); "
            "give models by name, and other parts as functions of an installed module"
        ) from error


def load(data: bytes) -> Any:
    """The value that `dump` made bytes of."""
    return cloudpickle.loads(data)
