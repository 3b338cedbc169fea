"""The answer of why_not: the stage that lost a target, and the smallest change of one setting that brings it back."""

from dataclasses import dataclass
from typing import Literal

Stage = Literal[
    "found",  # nothing lost it
    "not ingested",
    "parse",
    "filter",
    "threshold",
    "depth",
    "fusion",
    "rerank",
    "dedup",
    "diversity",
    "step",  # a step of the user's own strategy
    "merge",
    "budget",
]


@dataclass(frozen=True, slots=True)
class Fix:
    """A setting by its dotted name, and the tried value that brings the target back."""

    setting: str
    value: object
    before: object

    def __str__(self) -> str:
        before = ", ".join(sorted(map(str, self.before))) if isinstance(self.before, frozenset) else self.before
        return f"{self.setting} = {self.value} (now {before})"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """What became of a document, chunk or message in a search; `str()` gives it in a few lines."""

    query: str
    target: str
    stage: Stage
    reason: str
    fix: Fix | None = None  # None: it was found, or no single setting helps

    def __str__(self) -> str:
        lines = [f"{self.target}: {self.stage}", f"  {self.reason}"]
        if self.fix is not None:
            lines.append(f"  it would be found with {self.fix}")
        elif self.stage not in ("found", "not ingested", "parse"):
            lines.append("  no single setting brings it back")
        return "\n".join(lines)
