"""A SentencePiece model out of an ONNX graph that tokenizes by itself, as a tokenizer that counts its tokens."""

import struct
from collections.abc import Iterator
from typing import Any

GRAPH, NODE, OPERATOR, ATTRIBUTE, NAME, STRING = 7, 1, 4, 5, 1, 4  # field numbers of ModelProto and what is in it
PIECE, PIECE_TEXT, PIECE_SCORE, PIECE_TYPE = 1, 1, 2, 3  # … of SentencePiece's ModelProto
UNKNOWN = 2  # the type of the piece that stands for what is not known
_FIXED = {1: 8, 5: 4}  # bytes of a value by its wire type


def find_sentencepiece_model(graph: bytes) -> bytes:
    """The model that the SentencepieceTokenizer of an ONNX file holds; ValueError if there is none."""
    view = memoryview(graph)
    for body in _find(view, GRAPH):
        for node in _find(body, NODE):
            if next(_find(node, OPERATOR), b"") == b"SentencepieceTokenizer":
                for attribute in _find(node, ATTRIBUTE):
                    if next(_find(attribute, NAME), b"") == b"model":
                        return bytes(next(_find(attribute, STRING)))
    raise ValueError("it has no SentencePiece model")


def make_unigram_tokenizer(model: bytes) -> Any:
    """A tokenizer that splits text as the SentencePiece model does."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    vocabulary: list[tuple[str, float]] = []
    unknown = 0
    for piece in _find(memoryview(model), PIECE):
        text, score = "", 0.0
        for field, value in _read_fields(piece):
            if field == PIECE_TEXT:
                text = str(value, "utf-8")
            elif field == PIECE_SCORE:
                (score,) = struct.unpack("<f", value)
            elif field == PIECE_TYPE and value == UNKNOWN:
                unknown = len(vocabulary)
        vocabulary.append((text, score))
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def _find(message: memoryview, number: int) -> Iterator[memoryview]:
    """The values of a field of a protocol buffer that are messages, strings or bytes."""
    return (value for field, value in _read_fields(message) if field == number and isinstance(value, memoryview))


def _read_fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """The fields of a protocol buffer: the number of each, and its value."""
    at = 0
    while at < len(message):
        key, at = _read_number(message, at)
        field, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _read_number(message, at)
            yield field, value
            continue
        if kind == 2:
            size, at = _read_number(message, at)
        else:
            size = _FIXED[kind]
        yield field, message[at : at + size]
        at += size


def _read_number(message: memoryview, at: int) -> tuple[int, int]:
    """A variable-length number and where it ends."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
