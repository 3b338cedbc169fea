"""An answer: its text, its citations, and the verdict on each of its sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clew.core.cite import Citation, Context
from clew.core.usage import Usage

SupportVerdict = Literal["supported", "unsure", "unsupported"]
MARKS: Mapping[SupportVerdict, str] = {"supported": "", "unsure": "[not sure]", "unsupported": "[not supported]"}
NO_ANSWER = "No passage clearly answers this."
CLOSEST = f"{NO_ANSWER} The closest:"  # before passages that may answer
NOT_CHECKED = "[not checked]"  # the mark of a sentence whose meaning the verifier cannot read


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of an answer without its citation marks, and whether the passages support it.

    `citations` are what supports it. Otherwise `reason` says what is wrong, `contradicted_by` cites what the passages
    say instead, where a fact or a quote differs, and else `nearest` what they say that is most like it. `is_read` is
    False where the verifier does not read the language: only quotes, numbers, dates, codes, names and terms were then
    checked, `reason` says so, and the text has the mark "[not checked]". A sentence that only introduces others or says
    that something was not found, claims nothing and has no citations. `shown` is False where `answer.unsupported`
    removed it. `support` is the chance that the passages say it: the verifier's, 1 where it stands there verbatim, 0
    where a quote, an address or an amount is wrong, by the rules alone what their verdict is worth; None of a sentence
    that claims nothing.
    """

    text: str
    verdict: SupportVerdict
    citations: tuple[Citation, ...] = ()
    reason: str = ""
    contradicted_by: tuple[Citation, ...] = ()
    shown: bool = True
    is_read: bool = True
    support: float | None = None
    nearest: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A passage shown by an answer without a model, and the words in it that the reader chose.

    `passage` is the text of a page as it stands there, without footnote marks, or messages, each after its author and
    time. `passage[slice(*highlight)]` is the chosen part. `citation` cites the passage, with the page, line or second
    at which the chosen part begins; in a conversation it cites the chosen message alone, with its author and time.
    """

    passage: str
    highlight: tuple[int, int]
    citation: Citation

    @property
    def chosen(self) -> str:
        """The chosen part of the passage."""
        return self.passage[slice(*self.highlight)]


@dataclass(frozen=True, slots=True)
class RemovedSentence:
    """A sentence of the model that was removed, and why; with `kept` it stays, and only its citation was corrected."""

    text: str
    reason: str
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with citation marks: [1] is the first of the citations. `found` is False if there is no answer; without
    a model the text may then show the closest passage, as such, and the citations hold it.

    In a session, and by an agent, [2] is instead the document with that number in `numbers`. `confidence` is,
    without a model, the calibrated probability that the passages answer the question, and with one the mean `support`
    of the sentences that are shown. `reason` says why nothing was found, that a newer message may speak of what is
    quoted, or why an agent stopped early. With a `fault`, the model broke off or was cut off: the answer holds what
    came before. `parts` are the passages that the text shows without a model. `searched` is the question as it was
    understood with the conversation, where that is not as it was asked. `sentences` are those of a language model, each
    with its verdict; in the text, those that are not supported carry a mark.
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
    sentences: tuple[AnswerSentence, ...] = ()
    parts: tuple[AnswerPart, ...] = ()
    searched: str = ""

    def citation_number(self, place: int) -> int:
        """Return the number by which the text cites `citations[place]`."""
        return self.numbers.get(self.citations[place].document, place + 1)


def explain_cut_off(finish_reason: str, max_tokens: int) -> str:
    """Explain why a reply is incomplete, by the provider's reason to end it; empty where it is complete."""
    if finish_reason == "length":
        return f"the reply was cut off at {max_tokens} tokens; raise the limit (answer.max_tokens)"
    return "the provider's content filter stopped the reply" if finish_reason == "content_filter" else ""
