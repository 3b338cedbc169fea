"""How a search found what it found, for people to read."""

from dataclasses import dataclass

from clew.core.attribution import format_attribution
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
            f"{asked} by {self.strategy}: {_format_hit_count(len(self.hits))}",
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


def _format_hit_count(hits: int) -> str:
    return "1 hit" if hits == 1 else f"{hits} hits"
