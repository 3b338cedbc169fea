"""Explanations: how a search found its hits, and why it did not find a target (why_not)."""

from dataclasses import dataclass
from typing import Literal

from clew.core.attribution import format_attribution
from clew.core.suggest import format_count
from clew.core.trace import Trace
from clew.core.types import FOREIGN, DocumentRecord, Hit, Query


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a search found its hits; `str()` draws its stages and the scores of every hit."""

    query: Query
    strategy: str
    hits: tuple[Hit, ...]
    documents: tuple[DocumentRecord, ...]
    trace: Trace

    def __str__(self) -> str:
        named = {record.id: record.uri or record.title or record.id for record in self.documents}
        asked = repr(self.query.text) if self.query.text else f"a conversation of {len(self.query.history)} messages"
        lines = [
            f"{asked} by {self.strategy}: {format_count(len(self.hits), 'hit')}",
            self.trace.draw(depth=1),
        ]
        for rank, hit in enumerate(self.hits, 1):
            numbers = f"relevance {hit.relevance:.2f}  similarity {hit.similarity:.2f}  score {hit.score:.3f}"
            scores = "  ".join(f"{name} {score:.3f}" for name, score in hit.scores.items())
            place = " > ".join((named.get(hit.chunk.doc_id, hit.chunk.doc_id), *hit.chunk.headings))
            if hit.chunk.meta.get("message"):
                said_by = format_attribution(str(hit.chunk.meta.get("author") or ""), hit.chunk.at)
                place = "  ".join(filter(None, (place, said_by)))
            lines.append(f"  {rank}. {numbers}  {place}  ({scores})")
            if FOREIGN in hit.scores:
                lines.append("     in another language than the question: judged by its meaning, not by missing words")
        return "\n".join(lines)


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
    """A setting by its dotted name, and a tested value with which the target is found."""

    setting: str
    value: object
    before: object

    def __str__(self) -> str:
        before = ", ".join(sorted(map(str, self.before))) if isinstance(self.before, frozenset) else self.before
        return f"{self.setting} = {self.value} (now {before})"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """The stage at which a search lost a document, chunk or message; `str()` formats it in a few lines."""

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
