"""What long-running work reports: Progress while it runs, a Report when it is done, a Plan before it begins."""

from collections.abc import Callable, Iterable
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
    chunks: int = 0  # stored so far, or found by `plan`


OnProgress = Callable[[Progress], None]


def measure_progress(
    stage: str,
    done: int,
    total: int | None,
    unit: str,
    spent: float,
    *,
    share: float | None = None,
    failed: int = 0,
    chunks: int = 0,
) -> Progress:
    """Progress after so many seconds; time left and rate are estimated by the share of the work that is done.

    share: By default that of the units. While some are left, the rate is the one at which they take the time left.
    """
    remaining = max(0, (total or 0) - done)
    share = done / total if share is None and total else share
    left = spent / share * (1 - share) if remaining and share else None if total is None or remaining else 0.0
    rate = remaining / left if left else done / spent if spent else 0.0
    return Progress(stage, done, total, unit, rate, left, failed, chunks)


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source that could not be added, or a part of it, and why; the rest of the work went on."""

    source: str
    reason: str


OnWarning = Callable[[SourceFailure], None]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A file that a walk left out, or a folder (its name ends with a slash) with so many files, and the reason."""

    source: str
    reason: str
    files: int = 1


def count_passed_over(entries: Iterable[PassedOver]) -> dict[str, int]:
    """How many files were passed over for each reason, the most frequent first."""
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.reason] = counts.get(entry.reason, 0) + entry.files
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True)
class Report:
    """What `add` did: documents by uri, and how many chunks were embedded and how many reused.

    `noted` are warnings about documents that were added all the same. `incomplete` are those of them that lack a
    summary or contexts because a model failed: the next run adds these. `stopped` says why the work ended early.
    `passed_over` are the files that were not tried, each with its reason. `held_back` are documents that `sync` would
    have dropped: more than half of a folder, which needs `allow_mass_drop`.
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
    passed_over: tuple[PassedOver, ...] = ()
    held_back: tuple[str, ...] = ()

    @property
    def passed_over_counts(self) -> dict[str, int]:
        """How many files were passed over for each reason."""
        return count_passed_over(self.passed_over)


@dataclass(frozen=True, slots=True)
class Plan:
    """What `add` would do, found out without storing anything. Tokens of a model are estimates.

    `seconds` is how long reading and embedding would take, by the time that reading took and, of an embedder that runs
    here, that of a few chunks; None if that is not known.
    """

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
    seconds: float | None = None
    passed_over: tuple[PassedOver, ...] = ()
    held_back: tuple[str, ...] = ()

    @property
    def passed_over_counts(self) -> dict[str, int]:
        """How many files would be passed over for each reason."""
        return count_passed_over(self.passed_over)
