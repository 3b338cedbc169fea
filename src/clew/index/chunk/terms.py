"""The terms by which a chunk is indexed; both ways of adding, whole sources and single messages, count them here."""

from clew.core.text import extract_terms
from clew.core.types import Chunk

OWN_WEIGHT = 2  # times that a message's own terms are counted, against once for those that it quotes


def count_chunk_terms(chunk: Chunk, *, language: str) -> dict[str, int]:
    """The term frequencies of a chunk; where its context quotes earlier messages, its own terms count double.

    So a message that says something comes before those that follow it and are found by the same words.
    """
    own, everything = chunk.embed_text, chunk.index_text
    repeats = 0 if own == everything else OWN_WEIGHT - 1
    return extract_terms("\n\n".join([everything, *[own] * repeats]), language=language)
