"""What filters see: each field and each key of meta by itself."""

from datetime import UTC, datetime

import pytest

from clew.core.facets import admits_chunk
from clew.core.filter import Filter
from clew.core.time import to_timestamp
from clew.core.types import Chunk, Document

DOCUMENT = Document("d", "text", kind="page", meta={"author": "Ada", "year": 2024, "tags": ["a", 2], "done": True})
CHUNK = Chunk("c", "d", 0, 1, "text", 0, 4, meta={"kind": "note", "author": "Eve", "ratio": 2.0})


@pytest.mark.parametrize(
    ("where", "admitted"),
    [
        (Filter(), True),
        (Filter(documents={"d"}), True),
        (Filter(documents={"e"}), False),
        (Filter(kinds={"page", "thread"}), True),
        (Filter(authors={"Eve"}), True),
        (Filter(authors={"Ada"}), False),  # the chunk's own author goes before its document's
        (Filter(meta={"author": "Eve"}), True),
        (Filter(meta={"kind": "note"}), True),
        (Filter(kinds={"note"}), False),
        (Filter(meta={"year": "2024"}), True),
        (Filter(meta={"year": 2024.0}), True),
        (Filter(meta={"tags": 2}), True),
        (Filter(meta={"tags": ["x", "a"]}), True),
        (Filter(meta={"done": "true"}), True),
        (Filter(meta={"ratio": 2}), True),
        (Filter(meta={"year": 2024, "done": False}), False),
        (Filter(meta={"absent": "x"}), False),
        (Filter(meta={"year": None}), False),
        (Filter(meta={"channel": "x"}), False),
        (Filter(documents=set()), False),
        (Filter(kinds=set()), False),
        (Filter(channels=set()), False),
        (Filter(authors=set()), False),
        (Filter(access=set()), False),
        (Filter(access={"hr"}), True),  # it has no labels
        (Filter(kinds={"thread"}) | Filter(authors={"Eve"}), True),
        (Filter(kinds={"thread"}) | Filter(authors={"Ada"}), False),
        (Filter(kinds={"page"}) & Filter(authors={"Eve"}), True),
        (Filter(kinds={"page"}) & Filter(authors={"Ada"}), False),
        (Filter(authors={"Eve", "Ada"}) & Filter(authors={"Ada"}), False),
        (Filter(meta={"tags": "a"}) & Filter(meta={"tags": 2}), True),  # a list may have both
        (Filter() | Filter(kinds=set()), True),
        (Filter() & Filter(kinds=set()), False),
        ((Filter(kinds={"thread"}) | Filter(authors={"Eve"})) & (Filter(kinds={"page"}) | Filter(kinds=set())), True),
        (Filter(since=datetime(2026, 1, 1)), False),  # it has no time
    ],
)
def test_a_filter_admits(where: Filter, admitted: bool) -> None:
    assert admits_chunk(where, DOCUMENT, CHUNK) is admitted


def test_a_single_text_is_not_a_set_of_its_letters() -> None:
    with pytest.raises(TypeError, match="set of names"):
        Filter(kinds="page")  # type: ignore[arg-type]


def test_a_time_without_a_zone_is_utc() -> None:
    assert to_timestamp(datetime(2026, 1, 1)) == to_timestamp(datetime(2026, 1, 1, tzinfo=UTC))
    assert to_timestamp(None) is None
