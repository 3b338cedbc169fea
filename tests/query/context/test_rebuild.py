"""Messages rebuilt from their chunks: in any order, with overlaps, with parts missing."""

from itertools import permutations

from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.context.results import group_by_message, rebuild_message_text


def part(message: str, index: int, text: str, start: int = 0, score: float = 0.9) -> Hit:
    placed = start >= 0
    begin = max(start, 0)
    chunk = Chunk(
        f"{message}_chunk_{index}",
        "d",
        index,
        3,
        text,
        begin,
        begin + len(text) if placed else begin,
        meta={"message": message, "chunk_index": index, "total_chunks": 3},
    )
    return Hit(chunk, DocumentRecord(chunk.doc_id), score)


def test_parts_in_any_order_are_one_message_with_the_best_score() -> None:
    hits = [part("m", 2, "Third part", -1, 0.8), part("m", 0, "First part", -1, 0.92), part("m", 1, "Second part", -1)]
    (parts,) = group_by_message(hits).values()
    assert parts[0].score == 0.92
    assert rebuild_message_text(hit.chunk for hit in parts) == "First part Second part Third part"
    assert rebuild_message_text(hit.chunk for hit in hits[:2]) == "First part Third part"


def test_what_parts_share_is_said_once() -> None:
    text = "one two three four five six"
    spans = [(0, 13), (8, 18), (14, 27)]
    hits = [part("m", at, text[start:end], start) for at, (start, end) in enumerate(spans)]
    for order in permutations(hits):
        assert rebuild_message_text(hit.chunk for hit in order) == text
    assert rebuild_message_text([hits[0].chunk, hits[2].chunk]) == "one two three four five six"


def test_a_chunk_of_no_message_is_left_out() -> None:
    chunk = Chunk("c", "d", 0, 1, "a page", 0, 6)
    assert group_by_message([Hit(chunk, DocumentRecord(chunk.doc_id), 1.0)]) == {}
