"""Document summaries: two or three sentences on what a document is about, embedded to find whole documents."""

from collections import Counter

from clew.core.protocols import LLM
from clew.core.text import extract_terms, split_sentences
from clew.core.types import Document

MAX_CHARS = 50_000  # of a document in the prompt
TRUNCATED = "...[truncated]"
MAX_SENTENCES = 3
MAX_SENTENCE_CHARS = 400  # longer ones are lists or tables
PROMPT = """Summarise this document in two or three sentences that capture its main topic, the key entities and its
purpose. Say what makes it unique and what someone would search for to find it.

Document:
{text}

Summary:"""


def make_extractive_summary(document: Document) -> str:
    """An extractive summary: the title and the most central sentences of the document, in their order."""
    text = document.text[:MAX_CHARS]
    spans = [(start, end) for start, end in split_sentences(text) if _is_informative_sentence(text[start:end])]
    central = sorted(_pick_central_sentences(text, spans))
    body = " ".join(" ".join(text[start:end].split()) for start, end in central)
    name = document.title or document.uri or document.id
    return f"{name}: {body}" if body else f"Document: {name}"


def generate_llm_summary(document: Document, llm: LLM) -> str:
    """The summary that a model writes; `Document: name` if it is empty. A failure raises DriverFailed."""
    text = document.text if len(document.text) <= MAX_CHARS else document.text[:MAX_CHARS] + TRUNCATED
    before, after = PROMPT.split("{text}")  # not format(): the text may hold braces
    answer = llm.complete(before + text + after, max_tokens=300, temperature=0.3).strip()
    return answer or f"Document: {document.title or document.uri or document.id}"


def _is_informative_sentence(sentence: str) -> bool:
    """Whether a sentence makes sense by itself: not a heading, a row of a table, a fence or a single word."""
    return 30 <= len(sentence) <= MAX_SENTENCE_CHARS and not sentence.lstrip().startswith(
        ("#", "|", "```", ">", "- [", "<")
    )


def _pick_central_sentences(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans with the highest mean frequency of their terms in the document, smoothed so that short ones do not win.

    The first sentence counts a little more, since documents tend to open with what they are about.
    """
    terms = [extract_terms(text[start:end]) for start, end in spans]
    frequency = Counter(term for found in terms for term in found)
    scores = [
        (sum(frequency[term] for term in found) / (len(found) + 5) * (1.25 if position == 0 else 1.0), -position)
        for position, found in enumerate(terms)
    ]
    best = sorted(range(len(spans)), key=lambda position: scores[position], reverse=True)[:MAX_SENTENCES]
    return [spans[position] for position in best]
