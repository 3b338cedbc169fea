"""The hits that a search returns: copies that have every field of what was found, and dicts of their own."""

from dataclasses import fields
from datetime import UTC, datetime

from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.search.find import _copy_hit

AT = datetime(2026, 5, 1, tzinfo=UTC)


def test_a_copied_hit_has_every_field_and_shares_no_dict() -> None:
    chunk = Chunk("c", "d", 1, 2, "text", 3, 7, ("Heading",), "context", AT, {"tags": ["a"]})
    access = frozenset({"crew"})
    head = "d", "title", "uri", "thread", "hash", "stamp", 9, 2, "summary"
    record = DocumentRecord(*head, {"tags": ["b"]}, access, "small", AT, AT, "de")
    hit = Hit(chunk, record, 0.5, {"semantic": 0.5}, 0.4, 0.3)
    copied = _copy_hit(hit)
    for mine, given in ((copied, hit), (copied.chunk, chunk), (copied.document, record)):
        assert [getattr(mine, each.name) for each in fields(mine)] == [
            getattr(given, each.name) for each in fields(given)
        ]
        defaults = [getattr(given, each.name) == each.default for each in fields(given)]
        assert not any(defaults)  # a field that is added must be given here, too
    copied.chunk.meta["tags"].append("changed")
    copied.document.meta["tags"].append("changed")
    assert (chunk.meta, record.meta) == ({"tags": ["a"]}, {"tags": ["b"]})
