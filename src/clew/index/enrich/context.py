"""Fourth on the write path: a sentence that places each chunk in its document goes into `Chunk.context`.

What is embedded and indexed changes; what is stored and cited does not. Without a model the sentence is made of the
title, the heading path (in code, the definitions around the chunk) and the lead of the section. With one it is written
by the model (Anthropic, "Contextual Retrieval", 2024), which sees as much of the document around the chunk as fits its
window.

A context is known by what it depends on nearby (`surroundings`), not by the whole document: an edit elsewhere in the
document leaves it as it was, and nothing is asked or embedded again.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clew.core.ids import chunk_ids, digest
from clew.core.protocols import LLM, Enricher, LLMFailure
from clew.core.report import Failure
from clew.core.text import sentences
from clew.core.types import Chunk, Document, Section
from clew.index.enrich.scope import enclosing, first_definition

Recall = Callable[[str], Mapping[str, str]]  # of a document: the contexts it has, by their surroundings
Complain = Callable[[Failure], None]

LEAD = 200  # characters of a section's opening that are said before its later chunks
KEY = "surroundings"
PROMPT = """<document>
{document}
</document>

Here is the chunk to be placed within the whole document:
<chunk>
{chunk}
</chunk>

Write one or two short sentences that say what this chunk is about and where it stands in the document, so that it can
be found by search. Answer with the sentences alone."""


def placed() -> Enricher:
    """Contexts made of what the document says of itself: title, headings, and how the section begins."""

    def enrich(document: Document, chunks: list[Chunk]) -> list[Chunk]:
        leads = _leads(document, chunks)
        return _renamed(
            [_with(chunk, _place(document, chunk, lead)) for chunk, lead in zip(chunks, leads, strict=True)]
        )

    return enrich


def contextual(
    llm: LLM, *, recall: Recall, complain: Complain, max_concurrent: int = 5, window: int = 24_000
) -> Enricher:
    """Contexts written by a model, at most `max_concurrent` at once; `window` is how many characters it may see.

    A context that the document already has for the same surroundings is kept. One that fails is replaced by the plain
    sentence that names the document, and reported.
    """

    def enrich(document: Document, chunks: list[Chunk]) -> list[Chunk]:
        keys = _keys(document, chunks, llm.name)
        known = recall(document.id)
        asked = [place for place, key in enumerate(keys) if key not in known]
        answers = llm.complete_many(
            [_prompt(document, chunks[place], window) for place in asked], max_concurrent=max_concurrent
        )
        contexts = {place: known[key] for place, key in enumerate(keys) if key in known}
        failed = set()
        for place, answer in zip(asked, answers, strict=True):
            if isinstance(answer, LLMFailure) or not answer.strip():
                reason = answer.reason if isinstance(answer, LLMFailure) else "the model gave an empty answer"
                complain(Failure(f"{document.uri or document.id}, chunk {place}", f"no context: {reason}"))
                failed.add(place)
            said = _fallback(document) if place in failed else str(answer).strip()
            contexts[place] = "\n".join(part for part in (said, chunks[place].context) if part)
        return _renamed(
            [
                _with(chunk, contexts[place], {} if place in failed else {KEY: keys[place]})
                for place, chunk in enumerate(chunks)
            ]
        )

    return enrich


def contexts_of(chunks: Sequence[Chunk]) -> dict[str, str]:
    """The contexts that stored chunks were given by a model, by their surroundings."""
    return {chunk.meta[KEY]: chunk.context for chunk in chunks if KEY in chunk.meta}


def _keys(document: Document, chunks: Sequence[Chunk], model: str) -> list[str]:
    texts = ["", *(chunk.text for chunk in chunks), ""]
    return [
        digest("context", model, document.title, *chunk.headings, "\x1e", *texts[place : place + 3])
        for place, chunk in enumerate(chunks)
    ]


def _prompt(document: Document, chunk: Chunk, window: int) -> str:
    """The prompt for one chunk. The document stands first, the same for all its chunks, so that a provider can keep it;
    one larger than the window is cut around the chunk, whose neighbourhood is then always there."""
    text = document.text
    if len(text) > window:
        start = max(0, min((chunk.start + chunk.end - window) // 2, len(text) - window))
        text = f"{document.title}\n…{text[start : start + window]}…"
    before, rest = PROMPT.split("{document}")  # not format(): the text may hold braces
    between, after = rest.split("{chunk}")
    return "".join((before, text, between, chunk.text, after))


def _fallback(document: Document) -> str:
    return f"This chunk is from the document '{document.title or document.id}' ({document.uri or document.id})."


def _place(document: Document, chunk: Chunk, lead: str) -> str:
    named = " > ".join(dict.fromkeys(each for each in (_title(document), *_path(document, chunk)) if each))
    return "\n".join(part for part in (named, lead, chunk.context) if part)


def _title(document: Document) -> str:
    """What the document is called; without a title, its first heading, or what its code defines first."""
    if document.title:
        return document.title
    label = next((section.label for section in document.sections if section.label), "")
    return label or (first_definition(document.text) if _is_code(document) else "")


def _path(document: Document, chunk: Chunk) -> tuple[str, ...]:
    """The headings above a chunk, and the definitions around it that they do not name yet."""
    if not _is_code(document):
        return chunk.headings
    around = enclosing(document.text, chunk.start)
    return (*chunk.headings, *(line for line in around if not any(each in line for each in chunk.headings)))


def _is_code(document: Document) -> bool:
    return document.meta.get("format") == "code"


def _leads(document: Document, chunks: Sequence[Chunk]) -> list[str]:
    """For each chunk the opening of its section, or of the page where that is its own; empty where it holds it."""
    ends = [section.end for section in document.sections]
    leads = []
    for chunk in chunks:
        place = bisect_right(ends, chunk.start)
        section = document.sections[place] if place < len(ends) else Section(0, len(document.text))
        opening = document.text[section.start : min(section.end, section.start + 4 * LEAD)]
        body = opening.lstrip()
        begins = chunk.start <= section.start + len(opening) - len(body)
        leads.append("" if begins else _opening(body, chunk))
    return leads


def _opening(text: str, chunk: Chunk) -> str:
    body = text.split("\n", 1)[-1] if text.startswith("#") else text
    spans = sentences(body)
    opening = " ".join(body[start:end] for start, end in spans[:2])[:LEAD].strip()
    return "" if opening and opening in chunk.text else opening


def _with(chunk: Chunk, context: str, meta: Mapping[str, str] | None = None) -> Chunk:
    return replace(chunk, context=context, meta={**chunk.meta, **(meta or {})})


def _renamed(chunks: list[Chunk]) -> list[Chunk]:
    """The chunks under ids that follow from what is now embedded of them."""
    if not chunks:
        return []
    ids = chunk_ids(chunks[0].doc_id, [chunk.embed_text for chunk in chunks])
    return [replace(chunk, id=id_) for chunk, id_ in zip(chunks, ids, strict=True)]
