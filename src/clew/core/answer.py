"""An answer: its text, its citations, and the sentences that were removed because no passage supports them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from clew.core.cite import Citation
from clew.core.types import Context
from clew.core.usage import Usage


@dataclass(frozen=True, slots=True)
class RemovedSentence:
    """A sentence of the model that was removed, and why; with `kept` it stays, and only its citation was corrected."""

    text: str
    reason: str
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with citation marks: [1] is the first of the citations. `found` is False if there is no answer.

    In a session, and by an agent, [2] is instead the document with that number in `numbers`. `confidence` is the
    calibrated probability that the passages answer the question. `reason` says why nothing was found, or why
    an agent stopped early. With a `fault`, the model broke off: the answer holds what came before.
    """

    question: str
    text: str
    citations: tuple[Citation, ...]
    context: Context
    found: bool = True
    confidence: float = 0.0
    removed: tuple[RemovedSentence, ...] = ()
    usage: Usage = field(default_factory=Usage)
    reason: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)  # of the cited documents, by id
    fault: str = ""

    def citation_number(self, place: int) -> int:
        """The number by which the text cites `citations[place]`."""
        return self.numbers.get(self.citations[place].document, place + 1)
