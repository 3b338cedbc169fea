"""The terms by which a chunk is indexed; both ways of adding, whole sources and single messages, count them here."""

from collections.abc import Sequence

from clew.core.analyse import UNKNOWN, analyse_text, make_language_term
from clew.core.detect import SAMPLE, detect_language, detect_page_language
from clew.core.thread import is_thread
from clew.core.types import Chunk, Document

OWN_WEIGHT = 2  # times that a message's own terms are counted, against once for those that it quotes


def count_document_terms(document: Document, chunks: Sequence[Chunk], *, language: str) -> list[dict[str, int]]:
    """The term frequencies of the chunks of a document."""
    page = get_page_text(document)
    return [count_chunk_terms(chunk, language=language, page=page) for chunk in chunks]


def get_page_text(document: Document) -> str:
    """The text that may say the language of its chunks: that of a page; the messages of a thread may be in several."""
    return "" if is_thread(document) else document.text


def count_chunk_terms(chunk: Chunk, *, language: str, page: str = "") -> dict[str, int]:
    """The term frequencies of a chunk; where its context quotes earlier messages, its own terms count double.

    So a message that says something comes before those that follow it and are found by the same words. Where `language`
    is "auto", the chunk's own is detected, or that of what it quotes, or that of the `page` it
    is from.
    """
    own, everything = chunk.embed_text, chunk.index_text
    repeats = 0 if own == everything else OWN_WEIGHT - 1
    code = find_chunk_language(chunk, page) if language == "auto" else language
    terms = analyse_text("\n\n".join([everything, *[own] * repeats]), code)
    terms[make_language_term(code)] = 1
    return terms


def find_chunk_language(chunk: Chunk, page: str = "") -> str:
    """The language of a chunk, or of what it stands in; "und" where none is clear."""
    return (
        detect_language(chunk.text[:SAMPLE])
        or (detect_language(chunk.index_text[:SAMPLE]) if chunk.index_text != chunk.text else "")
        or (detect_page_language(page) if page else "")
        or UNKNOWN
    )
