"""An answer: its text, its citations, and a verdict on each sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clew.core.cite import Citation, Context
from clew.core.usage import Usage

SupportVerdict = Literal["supported", "unsure", "unsupported"]
MARKS: Mapping[SupportVerdict, str] = {"supported": "", "unsure": "[not sure]", "unsupported": "[not supported]"}
NO_ANSWER = "No passage clearly answers this."
CLOSEST = f"{NO_ANSWER} The closest:"  # before passages that may answer
NOT_CHECKED = "[not checked]"  # the mark of a sentence in a language that the verifier does not know


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of an answer without its citation marks, and whether the passages support it.

    `citations` cite the supporting passages. For an unsupported sentence, `reason` says what is wrong;
    `contradicted_by` cites passages with a different fact or quote, `nearest` otherwise the most similar passage.
    `is_read` is False if the verifier does not know the language: only quotes, numbers, dates, codes, names and terms
    were checked, `reason` says so, and the text has the mark "[not checked]". A sentence without a claim (an
    introduction, or "not found") has no citations and a `support` of None. `shown` is False if `answer.unsupported`
    removed the sentence. `support` is the probability that the passages support the sentence: 1 for a verbatim match, 0
    for a wrong quote, address or amount, otherwise from the verifier (with rules alone, from their verdict).
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

    `passage` is the verbatim text of a page without footnote marks, or messages, each after its author and time.
    `passage[slice(*highlight)]` is the chosen part. `citation` cites the passage, with the page, line or second at
    which the chosen part begins; in a conversation it cites only the chosen message, with its author and time.
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
    """A sentence removed from the model's answer, and why. `kept`: it stays, only its citation was corrected."""

    text: str
    reason: str
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with citation marks: [1] is the first of the citations.

    In a session, and by an agent, [2] is instead the document with that number in `numbers`.

    `found` is False if there is no answer; without a model, text and citations may then show the closest passage.
    `confidence` without a model: the calibrated probability that the passages answer the question. With a model: the
    mean `support` of the shown sentences. `reason` says why nothing was found, that a newer message may concern the
    quoted text, or why an agent stopped early. `fault`: the model failed or was cut off; the answer has the text until
    then. `parts` are the passages shown without a model. `searched` is the question rewritten with the conversation, if
    that changed it. `sentences` are the model's, each with a verdict; the text marks unsupported ones.
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
    """Explain why the provider ended a reply early; empty for a complete reply."""
    if finish_reason == "length":
        return f"the reply was cut off at {max_tokens} tokens; raise the limit (answer.max_tokens)"
    return "the provider's content filter stopped the reply" if finish_reason == "content_filter" else ""
