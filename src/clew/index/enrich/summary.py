"""Beside the chunks: two or three sentences that say what a document is about, for finding documents as wholes."""

from collections import Counter

from clew.core.protocols import LLM
from clew.core.text import sentences, terms
from clew.core.types import Document

MAX_CHARS = 50_000  # of a document that a model is shown
CUT = "...[truncated]"
SENTENCES = 3
LONGEST = 400  # characters of a sentence that can be in an extract; longer ones are lists or tables
PROMPT = """Summarise this document in two or three sentences that capture its main topic, the key entities and its
purpose. Say what makes it unique and what someone would search for to find it.

Document:
{text}

Summary:"""


def extract(document: Document) -> str:
    """The two or three sentences nearest to what the whole document speaks of, in their order, after its title."""
    text = document.text[:MAX_CHARS]
    spans = [(start, end) for start, end in sentences(text) if _tells(text[start:end])]
    kept = sorted(_central(text, spans))
    body = " ".join(" ".join(text[start:end].split()) for start, end in kept)
    name = document.title or document.uri or document.id
    return f"{name}: {body}" if body else f"Document: {name}"


def written(document: Document, llm: LLM) -> str:
    """The summary that a model writes; `Document: name` where it writes none. A failure raises DriverFailed."""
    text = document.text if len(document.text) <= MAX_CHARS else document.text[:MAX_CHARS] + CUT
    before, after = PROMPT.split("{text}")  # not format(): the text may hold braces
    answer = llm.complete(before + text + after, max_tokens=300, temperature=0.3).strip()
    return answer or f"Document: {document.title or document.uri or document.id}"


def _tells(sentence: str) -> bool:
    """Whether a sentence can stand by itself: not a heading, a row of a table, a fence or a single word."""
    return 30 <= len(sentence) <= LONGEST and not sentence.lstrip().startswith(("#", "|", "```", ">", "- [", "<"))


def _central(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans whose terms are the most common ones of the document, per term so that length does not win; the first
    sentence counts a little more, since documents tend to open with what they are about."""
    each = [terms(text[start:end]) for start, end in spans]
    common = Counter(term for found in each for term in found)
    scored = [
        (sum(common[term] for term in found) / (len(found) + 5) * (1.25 if place == 0 else 1.0), -place)
        for place, found in enumerate(each)
    ]
    best = sorted(range(len(spans)), key=lambda place: scored[place], reverse=True)[:SENTENCES]
    return [spans[place] for place in best]
