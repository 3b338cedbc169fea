"""An answer: what is said, what it rests on, and what was taken out because nothing supports it."""

from dataclasses import dataclass, field

from clew.core.cite import Citation
from clew.core.protocols import Usage
from clew.core.types import Context


@dataclass(frozen=True, slots=True)
class Removed:
    """Something that a model said and that is not shown, or no longer cites what it cited, and why."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said, with [1] for the first of the citations; `found` is False where the collection holds no answer.

    `confidence` is the chance, by the reranker, that what was found answers the question.
    """

    question: str
    text: str
    citations: tuple[Citation, ...]
    context: Context
    found: bool = True
    confidence: float = 0.0
    removed: tuple[Removed, ...] = ()
    usage: Usage = field(default_factory=Usage)
