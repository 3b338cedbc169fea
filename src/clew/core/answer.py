"""An answer: what is said, what it rests on, and what was taken out because nothing supports it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from clew.core.cite import Citation
from clew.core.protocols import Usage
from clew.core.types import Context


@dataclass(frozen=True, slots=True)
class Removed:
    """Something that a model said and that is not shown, and why; `kept`: it is, but cites something else."""

    text: str
    reason: str
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said, with [1] for the first of the citations; `found` is False where the collection holds no answer.

    In a session, and by an agent, [2] is instead the document that has that number there, as `numbers` tells.
    `confidence` is the chance, by the reranker, that what was found answers the question. `reason` says why nothing
    was found, or why an agent ended before it was done. With a `fault`, the model broke off: what it said by then is
    here, the rest is missing.
    """

    question: str
    text: str
    citations: tuple[Citation, ...]
    context: Context
    found: bool = True
    confidence: float = 0.0
    removed: tuple[Removed, ...] = ()
    usage: Usage = field(default_factory=Usage)
    reason: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)  # of the documents that are cited, by id
    fault: str = ""

    def mark(self, place: int) -> int:
        """The number that stands in the text for a citation, by its place."""
        return self.numbers.get(self.citations[place].document, place + 1)
