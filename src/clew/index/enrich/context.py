"""Contextual enrichment, the fourth step of the write path: `Chunk.context` describes a chunk's place in its document.

The context changes the embedded and indexed text, not the stored and cited text. Without a model it is the title, the
heading path (in code, the enclosing definitions) and the opening of the section. Otherwise the model writes it
(Anthropic, "Contextual Retrieval", 2024), given as much of the document around the chunk as fits its window.

The key of a written context is a digest of the chunk and its neighbours, not of the whole document: after an edit
elsewhere it stays valid, and nothing is asked or embedded again.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clew.core.ids import digest
from clew.core.protocols import LLM, Enricher, LLMFailure
from clew.core.report import OnWarning, SourceFailure
from clew.core.sentences import split_sentences
from clew.core.types import Chunk, Document, Section
from clew.index.chunk.build import assign_chunk_indexes_and_ids
from clew.index.read.text.code import read_code

RecallContexts = Callable[[str], Mapping[str, str]]  # from a document id to its stored contexts by key

MAX_LEAD_CHARS = 200  # of a section's opening, in the context of its later chunks
CONTEXT_KEY = "surroundings"  # in Chunk.meta: the key of its context
CONTEXT_COPY = "written_context"  # in Chunk.meta: the context as the model wrote it, if later enrichers may change it
PROMPT = """<document>
{document}
</document>

Here is the chunk to be placed within the whole document:
<chunk>
{chunk}
</chunk>

Write one or two short sentences that say what this chunk is about and where it stands in the document, so that it can
be found by search. Answer with the sentences alone."""
_MAX_LABEL_CHARS = 120  # of a definition's line
_MAX_LINES = 2_000  # scanned for a chunk: in a file of one block, each chunk would scan the whole file
_WORD = re.compile(r"[^\W\d]")
_COMMENT = re.compile(r"\s*(?:#|//|/\*|\*|--|;|@|\"\"\"|''')")
_CONTROL = re.compile(  # opens a block but defines nothing
    r"(?:if|elif|else|for|foreach|while|loop|do|switch|match|case|default|try|except|catch|finally|with|using|unsafe"
    r"|return|yield|await|begin|synchronized)\b"
)
_ACCESS_LABEL = re.compile(r"\s*(?:public|private|protected)\s*:")  # indented like its class, not like a member
_CONTINUATION = re.compile(r"[)\]}>.,:+\-*/|&=?{(\[]|where\b")  # begins a line that continues the previous one
_SHARED_NAMES = re.compile(
    r"(?:inline\s+)?(?:package|namespace|module|mod|use|using|import|from)\b|.*;$", re.IGNORECASE
)


def make_heading_enricher() -> Enricher:
    """Make an enricher without a model: the context is the title, the headings and the opening of the section."""

    def enrich(document: Document, chunks: list[Chunk]) -> list[Chunk]:
        leads = _find_section_openings(document, chunks)
        return assign_chunk_indexes_and_ids(
            [
                replace(chunk, context=_format_heading_context(document, chunk, lead))
                for chunk, lead in zip(chunks, leads, strict=True)
            ]
        )

    return enrich


def make_llm_enricher(
    llm: LLM,
    *,
    recall: RecallContexts,
    on_warning: OnWarning,
    on_failure: Callable[[str], None] | None = None,
    max_concurrent: int = 5,
    window: int = 24_000,
    keep_copy: bool = False,
) -> Enricher:
    """Make an enricher whose contexts a model writes.

    A stored context with the same key is reused. If the model fails, a warning is given and the context is a sentence
    that names the document.

    on_failure: Called with the id of a document for which the model failed.
    max_concurrent: Model calls at a time.
    window: Characters of the document that the model is given.
    keep_copy: Store the context in the meta too, because later enrichers may change it.
    """

    def enrich(document: Document, chunks: list[Chunk]) -> list[Chunk]:
        keys = _make_context_keys(document, chunks, llm.name)
        known = recall(document.id)
        missing = [position for position, key in enumerate(keys) if key not in known]
        answers = llm.complete_many(
            [_build_context_prompt(document, chunks[position], window) for position in missing],
            max_concurrent=max_concurrent,
        )
        contexts = {position: known[key] for position, key in enumerate(keys) if key in known}
        failed = set()
        for position, answer in zip(missing, answers, strict=True):
            if isinstance(answer, LLMFailure) or not answer.strip():
                reason = answer.reason if isinstance(answer, LLMFailure) else "the model gave an empty answer"
                on_warning(SourceFailure(f"{document.uri or document.id}, chunk {position}", f"no context: {reason}"))
                failed.add(position)
                if on_failure:
                    on_failure(document.id)
            written = _make_fallback_context(document) if position in failed else str(answer).strip()
            contexts[position] = "\n".join(part for part in (written, chunks[position].context) if part)
        enriched = []
        for position, chunk in enumerate(chunks):
            context = contexts[position]
            meta = {} if position in failed else {CONTEXT_KEY: keys[position]}
            if meta and keep_copy:
                meta[CONTEXT_COPY] = context
            enriched.append(replace(chunk, context=context, meta={**chunk.meta, **meta}))
        return assign_chunk_indexes_and_ids(enriched)

    return enrich


def collect_llm_contexts(chunks: Sequence[Chunk]) -> dict[str, str]:
    """Collect the contexts that a model wrote for stored chunks, by key."""
    return {
        chunk.meta[CONTEXT_KEY]: chunk.meta.get(CONTEXT_COPY, chunk.context)
        for chunk in chunks
        if CONTEXT_KEY in chunk.meta
    }


def _make_context_keys(document: Document, chunks: Sequence[Chunk], model: str) -> list[str]:
    """Make the key of each chunk: a digest of its text, its neighbours' texts, headings, the title and the model."""
    texts = ["", *(chunk.text for chunk in chunks), ""]
    return [
        digest("context", model, document.title, *chunk.headings, "\x1e", *texts[position : position + 3])
        for position, chunk in enumerate(chunks)
    ]


def _build_context_prompt(document: Document, chunk: Chunk, window: int) -> str:
    """Build the prompt for a chunk.

    The document comes first, so that a provider's prompt cache applies to all its chunks. A document larger than the
    window is cut to the part around the chunk.
    """
    text = document.text
    if len(text) > window:
        start = max(0, min((chunk.start + chunk.end - window) // 2, len(text) - window))
        text = f"{document.title}\n…{text[start : start + window]}…"
    before, rest = PROMPT.split("{document}")  # not format(): the text may have braces
    between, after = rest.split("{chunk}")
    return "".join((before, text, between, chunk.text, after))


def _make_fallback_context(document: Document) -> str:
    return f"This chunk is from the document '{document.title or document.id}' ({document.uri or document.id})."


def _format_heading_context(document: Document, chunk: Chunk, lead: str) -> str:
    """Format the title and path of a chunk, the lead, and its existing context, one per line."""
    names = (_find_document_title(document), *_find_heading_path(document, chunk))
    path = " > ".join(dict.fromkeys(name for name in names if name))
    return "\n".join(part for part in (path, lead, chunk.context) if part)


def _find_document_title(document: Document) -> str:
    """Return the title of the document, else its first heading, else the first definition in its code."""
    if document.title:
        return document.title
    label = next((section.label for section in document.sections if section.label), "")
    return label or (find_first_definition(document.text) if _is_code(document) else "")


def _find_heading_path(document: Document, chunk: Chunk) -> tuple[str, ...]:
    """Find the headings above a chunk; in code also enclosing definitions that no heading names."""
    if not _is_code(document):
        return chunk.headings
    lines = find_enclosing_definitions(document.text, chunk.start)
    return (*chunk.headings, *(line for line in lines if not any(heading in line for heading in chunk.headings)))


def _is_code(document: Document) -> bool:
    return document.meta.get("format") == "code"


def _find_section_openings(document: Document, chunks: Sequence[Chunk]) -> list[str]:
    """Find the opening of each chunk's section; empty if the chunk begins the section or contains the opening."""
    ends = [section.end for section in document.sections]
    leads = []
    for chunk in chunks:
        position = bisect_right(ends, chunk.start)
        section = document.sections[position] if position < len(ends) else Section(0, len(document.text))
        opening = document.text[section.start : min(section.end, section.start + 4 * MAX_LEAD_CHARS)]
        body = opening.lstrip()
        is_first = chunk.start <= section.start + len(opening) - len(body)
        leads.append("" if is_first else _extract_first_sentences(body, chunk))
    return leads


def _extract_first_sentences(text: str, chunk: Chunk) -> str:
    """Extract the first two sentences after a heading; empty if the chunk contains them."""
    body = text.split("\n", 1)[-1] if text.startswith("#") else text
    spans = split_sentences(body)
    opening = " ".join(body[start:end] for start, end in spans[:2])[:MAX_LEAD_CHARS].strip()
    return "" if opening and opening in chunk.text else opening


def find_enclosing_definitions(text: str, start: int) -> tuple[str, ...]:
    """Find the first lines of the definitions around a position in code, outermost first."""
    line_start = text.rfind("\n", 0, start) + 1
    margin = _find_code_indent(text, line_start)
    found: list[str] = []
    end = line_start - 1
    for _ in range(_MAX_LINES):
        if margin <= 0 or end <= 0:
            break
        begin = text.rfind("\n", 0, end) + 1
        line = text[begin:end].expandtabs(4)
        end = begin - 1
        words = line.strip()
        if not words or _count_indent(line) >= margin or _COMMENT.match(words):
            continue
        if _CONTINUATION.match(words) or _ACCESS_LABEL.match(words) or words.endswith((";", ",")):
            continue
        margin = _count_indent(line)
        if _WORD.search(words) and not _CONTROL.match(words) and not _is_continued_statement(words):
            found.append(words.rstrip("{:( \t")[:_MAX_LABEL_CHARS])
    return tuple(reversed(found))


def find_first_definition(text: str) -> str:
    """Find the first line of the first definition in a code file, as a title; empty if there is none.

    Declarations, imports and packages are skipped: other files have them too.
    """
    labels = (section.label for section in read_code(text, uri="", name="").sections)
    return next((label for label in labels if label and not _SHARED_NAMES.match(label)), "")


def _is_continued_statement(words: str) -> bool:
    """Return whether a line starts a call or assignment that continues below, and so defines nothing."""
    return words.endswith("=") or (" " not in words.partition("(")[0] and not words.endswith(("{", ":")))


def _find_code_indent(text: str, start: int) -> int:
    """Find the indentation of the first line of code from a position on, skipping comments."""
    first = -1
    for _ in range(_MAX_LINES):
        if start >= len(text):
            break
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end].expandtabs(4)
        if line.strip():
            if not _COMMENT.match(line) and not _ACCESS_LABEL.match(line) and _WORD.search(line):
                return _count_indent(line)
            first = _count_indent(line) if first < 0 else first
        start = end + 1
    return max(first, 0)


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())
