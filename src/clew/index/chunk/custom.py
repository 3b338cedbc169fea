"""A program's own chunkers and enrichers: what they return is checked and numbered before it is stored."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from clew.core.errors import ClewError, SettingsError, SourceError
from clew.core.protocols import Chunker, Enricher
from clew.core.types import Chunk, Document
from clew.index.chunk.build import assign_chunk_indexes_and_ids
from clew.index.read.text.front_matter import to_json_meta


def make_validating_chunker(chunker: Chunker) -> Chunker:
    """The same chunker with its chunks validated."""

    def chunk(document: Document) -> list[Chunk]:
        return _run_and_validate(partial(chunker, document), document, f"chunker {get_component_name(chunker)}")

    return chunk


def make_validating_enricher(enricher: Enricher) -> Enricher:
    """The same enricher with its chunks validated."""

    def enrich(document: Document, chunks: list[Chunk]) -> list[Chunk]:
        return _run_and_validate(
            partial(enricher, document, chunks), document, f"enricher {get_component_name(enricher)}"
        )

    return enrich


def get_component_name(component: Chunker | Enricher) -> str:
    """The name that a chunker or enricher has in the recipe's fingerprint: another name re-chunks what is stored.

    This is its `name` attribute where it has one, which can hold a version, else its qualified name.
    """
    if isinstance(name := getattr(component, "name", None), str) and name:
        return name
    if isinstance(component, partial):
        return get_component_name(component.func)
    return str(getattr(component, "__qualname__", type(component).__qualname__))


def validate_chunks(document: Document, chunks: Sequence[Chunk], *, made_by: str) -> list[Chunk]:
    """The chunks, numbered and with their content-addressed ids; a SettingsError where they break the rules of spans.

    A chunk is a span of its document (`document.text[chunk.start:chunk.end] == chunk.text`), none is empty, and they
    are in the order of the document.
    """
    before = 0
    for position, chunk in enumerate(chunks):
        if problem := _find_chunk_problem(document, chunk, before):
            raise SettingsError(f"{made_by}: chunk {position} of {document.uri or document.id} {problem}")
        before = chunk.start
    return assign_chunk_indexes_and_ids([replace(chunk, meta=to_json_meta(chunk.meta)) for chunk in chunks])


def _run_and_validate(make: Callable[[], list[Chunk]], document: Document, made_by: str) -> list[Chunk]:
    try:
        chunks = make()
    except ClewError:
        raise
    except Exception as error:  # it fails for this document; the others are still added
        reason = f"{made_by} failed: {type(error).__name__}: {error}"
        raise SourceError(document.uri or document.id, reason) from error
    if not isinstance(chunks, list | tuple):
        raise SettingsError(f"{made_by} returned {type(chunks).__name__}; it must return a list of Chunk")
    return validate_chunks(document, chunks, made_by=made_by)


def _find_chunk_problem(document: Document, chunk: object, before: int) -> str:
    """What is wrong with a chunk, given where the one before it starts; empty where nothing is."""
    if not isinstance(chunk, Chunk):
        return f"is a {type(chunk).__name__}; it must be a Chunk"
    if chunk.doc_id != document.id:
        return f"has the doc_id {chunk.doc_id!r}; it must be that of the document, {document.id!r}"
    if not 0 <= chunk.start < chunk.end <= len(document.text):
        return f"spans {chunk.start} to {chunk.end}; it must be a span of the text, which has {len(document.text)}"
    if document.text[chunk.start : chunk.end] != chunk.text:
        return f"is not the text from {chunk.start} to {chunk.end}: set text to document.text[start:end]"
    if chunk.start < before:
        return f"starts at {chunk.start}, before the one that precedes it at {before}; return them in document order"
    return ""
