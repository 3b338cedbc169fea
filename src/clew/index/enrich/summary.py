"""Document summaries: two or three sentences on the subject, embedded to find whole documents."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Event
from typing import TypeVar

from clew.core.analyse import DEFAULT, list_terms
from clew.core.errors import CostLimit
from clew.core.languages import SAMPLE, UNSPACED_WEIGHT, detect_language, detect_page_language
from clew.core.parallel import run_as_completed
from clew.core.protocols import LLM
from clew.core.sentences import split_sentences
from clew.core.text import split_runs
from clew.core.types import Document

T = TypeVar("T")
EXTRACT = "extract"  # in Document.summary_by: sentences of the document itself
CALLER = "caller"  # in Document.summary_by: given with the document
MAX_CHARS = 50_000  # of a document in the prompt
TRUNCATED = "...[truncated]"
MAX_SENTENCES = 3
MIN_SENTENCE_CHARS = 30  # shorter ones are labels or fragments
MAX_SENTENCE_CHARS = 400  # longer ones are lists or tables
PROMPT = """Summarise this document in two or three sentences that capture its main topic, the key entities and its
purpose. Say what makes it unique and what someone would search for to find it.

Document:
{text}

Summary:"""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary and its maker: a model's name, EXTRACT or CALLER. Both are empty if there is none."""

    text: str = ""
    by: str = ""


NO_SUMMARY = Summary()


@dataclass(frozen=True, slots=True)
class Summariser:
    """A maker of summaries: by a model, `max_concurrent` at a time, or without one by extracting sentences."""

    llm: LLM | None = None
    max_concurrent: int = 1

    @property
    def maker(self) -> str:
        """The maker of the summaries, as in `Document.summary_by`."""
        return self.llm.name if self.llm else EXTRACT

    def summarise(self, document: Document) -> Summary:
        """Summarise a document; raise DriverFailed if the model fails."""
        made = generate_llm_summary(document, self.llm) if self.llm else make_extractive_summary(document)
        return Summary(made, self.maker)


def run_within_budget(calls: Sequence[Callable[[], T]], *, max_concurrent: int) -> Iterator[tuple[int, T | CostLimit]]:
    """Yield the position and result of each call when done; CostLimit for a call that the budget refused.

    A call reserves its maximum cost, so concurrent calls are refused earlier than single ones. A refused call is
    therefore retried alone at the end. If that is refused too, all remaining ones are.
    """
    is_tight = Event()

    def attempt(position: int) -> tuple[int, tuple[T] | None]:
        try:
            return position, None if is_tight.is_set() else (calls[position](),)
        except CostLimit:
            is_tight.set()
            return position, None

    attempts = [partial(attempt, position) for position in range(len(calls))]
    refused = []
    for position, result in run_as_completed(attempts, max_concurrent=max_concurrent):
        if result is None:
            refused.append(position)
        else:
            yield position, result[0]
    limit: CostLimit | None = None
    for position in sorted(refused):
        try:
            found = limit or calls[position]()
        except CostLimit as error:
            found = limit = error
        yield position, found


def make_extractive_summary(document: Document) -> str:
    """Make a summary from the title and the most central sentences of the document, in their order."""
    text = document.text[:MAX_CHARS]
    spans = [(start, end) for start, end in split_sentences(text) if _is_informative_sentence(text[start:end])]
    central = sorted(_pick_central_sentences(text, spans))
    body = " ".join(" ".join(text[start:end].split()) for start, end in central)
    name = document.title or document.uri or document.id
    return f"{name}: {body}" if body else f"Document: {name}"


def generate_llm_summary(document: Document, llm: LLM) -> str:
    """Let a model write a summary; return `Document: name` if it is empty. Raise DriverFailed if the model fails."""
    text = document.text if len(document.text) <= MAX_CHARS else document.text[:MAX_CHARS] + TRUNCATED
    before, after = PROMPT.split("{text}")  # not format(): the text may have braces
    answer = llm.complete(before + text + after, max_tokens=300, temperature=0.3).strip()
    return answer or f"Document: {document.title or document.uri or document.id}"


def _is_informative_sentence(sentence: str) -> bool:
    """Return whether a sentence makes sense alone: not a heading, a table row, a fence or a single word."""
    if len(sentence) > MAX_SENTENCE_CHARS or sentence.lstrip().startswith(("#", "|", "```", ">", "- [", "<")):
        return False
    return len(sentence) >= MIN_SENTENCE_CHARS or _count_letters(sentence) >= MIN_SENTENCE_CHARS


def _count_letters(sentence: str) -> int:
    """Return the length of a sentence, weighting unspaced scripts as if written in letters."""
    _, runs = split_runs(sentence)
    return len(sentence) + (UNSPACED_WEIGHT - 1) * sum(map(len, runs))


def _pick_central_sentences(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pick the spans whose terms are most frequent in the document, smoothed so that short spans do not win.

    The first sentence has a higher weight, since documents tend to open with their subject.
    """
    if len(spans) <= MAX_SENTENCES:
        return spans
    language = detect_language(text[:SAMPLE]) or detect_page_language(text) or DEFAULT
    terms = [set(list_terms(text[start:end], language)) for start, end in spans]
    frequency = Counter(chain.from_iterable(terms))
    scores = [
        (sum(map(frequency.__getitem__, found)) / (len(found) + 5) * (1.25 if position == 0 else 1.0), -position)
        for position, found in enumerate(terms)
    ]
    best = sorted(range(len(spans)), key=lambda position: scores[position], reverse=True)[:MAX_SENTENCES]
    return [spans[position] for position in best]
