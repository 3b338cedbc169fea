"""What long-running work reports: Progress while it runs, a Report when it is done, a Plan before it begins."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the work is. `total` and `seconds_left` are None while they are unknown."""

    stage: str
    done: int
    total: int | None
    unit: str
    rate: float = 0.0  # units per second
    seconds_left: float | None = None
    failed: int = 0


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source that could not be added, or a part of it, and why; the rest of the work went on."""

    source: str
    reason: str


OnWarning = Callable[[SourceFailure], None]


@dataclass(frozen=True, slots=True)
class Report:
    """What `add` did: documents by uri, and how many chunks were embedded and how many reused.

    `noted` are warnings about documents that were added all the same. `incomplete` are those of them that lack a
    summary or contexts because a model failed: the next run adds these. `stopped` says why the work ended early.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    skipped: int = 0
    failed: tuple[SourceFailure, ...] = ()
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    seconds: float = 0.0
    noted: tuple[SourceFailure, ...] = ()
    dropped: int = 0
    cost: float = 0.0
    stopped: str = ""
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What `add` would do, found out without calling a model or storing anything. Tokens of a model are estimates."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: int = 0
    failed: tuple[SourceFailure, ...] = ()
    dropped: tuple[str, ...] = ()
    chunks: int = 0
    reused: int = 0
    embedded: int = 0
    embedded_tokens: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
