"""What long work says of itself: Progress while it runs, a Report when it is done."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the work is: `total` is None while it is not known."""

    stage: str
    done: int
    total: int | None
    unit: str
    rate: float = 0.0
    left: float | None = None
    failed: int = 0


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that could not be added, and why; the rest of the work went on."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What `add` did: documents by address, and how many chunks were embedded and how many reused.

    `noted` is what went less well in documents that were added all the same; `stopped` says why the work ended early.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    skipped: int = 0
    failed: tuple[Failure, ...] = ()
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    seconds: float = 0.0
    noted: tuple[Failure, ...] = ()
    dropped: int = 0
    cost: float = 0.0
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What `add` would do: nothing was embedded, asked or stored to find it out. Tokens of a model are an estimate."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: int = 0
    failed: tuple[Failure, ...] = ()
    dropped: tuple[str, ...] = ()
    chunks: int = 0
    reused: int = 0
    embedded: int = 0
    embedded_tokens: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
