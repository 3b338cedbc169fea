"""What a backend of one's own owes `BaseBackend`, asked of its four methods directly.

The contract of the store comes on top. Run over the backend of docs/extending.md, or over that of --backend.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew import BaseBackend
from clew.core.facets import Condition
from clew.core.stored import StagedModel
from clew.drivers.store.backend import CHUNK, COLUMNS, DOCUMENT, PIECE, Head, Key, Row, Select, key_of, select
from tests.own_backend import load_opener

FIRST = Head("model-a", 2, version=1)


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], BaseBackend]:
    """Opens the same collection each time."""
    opener = load_opener(request.config.getoption("--backend", None))
    return lambda: opener(tmp_path, "one")


def make_rows(first: int, many: int = 6) -> dict[Key, Row]:
    """Documents with a piece and a chunk each."""
    rows: list[Row] = []
    for row in range(first, first + many):
        doc = {"kind": DOCUMENT, "row": row, "id": f"doc {row}", "title": "\u2028'\"", "facets": f'["k {row % 2}"]'}
        piece = {"kind": PIECE, "doc": row, "n": 0, "text": "", "message": f"m{row}", "block": 0}
        chunk = {
            "kind": CHUNK,
            "row": row + 1000,
            "id": f"chunk {row}",
            "doc": row,
            "length": 2,
            "channel": f"c{row % 3}",
        }
        arrays = {"terms": np.array([1, 2**63 - row]), "counts": np.array([1, 2], np.uint16)}
        vector = np.array([0.6, 0.8], np.float32) if row % 2 else None
        facets = {"facets": f'["k {row % 2}", "x"]', "seconds": float(row) if row % 3 else None}
        made: list[Row] = [doc, piece, {**chunk, **arrays, **facets, "vector": vector}]
        rows += [{**dict.fromkeys(COLUMNS[each["kind"]]), **each} for each in made]
    return {key_of(row["kind"], row): row for row in rows}


def read(backend: BaseBackend) -> tuple[Head | None, dict[Key, Row]]:
    """The head and all rows."""
    with backend.snapshot() as snapshot:
        rows = [row for kind in COLUMNS for row in snapshot.find(Select(kind), COLUMNS[kind])]
        return snapshot.head, {key_of(row["kind"], row): row for row in rows}


def check(backend: BaseBackend, head: Head | None, rows: Mapping[Key, Row]) -> None:
    """Asserts that there are this head and these rows, and no others."""
    found_head, found = read(backend)
    assert found_head == head, "the head is not the one that was committed"
    assert found.keys() == rows.keys(), "rows are lost, or are there that were not committed"
    for key, row in rows.items():
        for name, value in row.items():
            same = (
                np.array_equal(found[key][name], value) if isinstance(value, np.ndarray) else found[key][name] == value
            )
            assert same, f"{name} of {key} comes back as {found[key][name]!r}, not as {value!r}"


def test_a_new_database_has_no_head_and_no_rows(make: Callable[[], BaseBackend]) -> None:
    check(make(), None, {})


def test_what_is_committed_is_there_whole_for_every_opener(make: Callable[[], BaseBackend]) -> None:
    backend, rows = make(), make_rows(1)
    head = replace(FIRST, change=3, documents=6, chunks=6, length=12, last=7, staged=StagedModel("b", 4, was_used=True))
    assert backend.commit(None, head, (), rows) is True
    for each in (backend, make()):
        check(each, head, rows)
    gone, new = [key for key in rows if key[1] in (1, 1001)], make_rows(20, 2)
    replaced = {(DOCUMENT, 2): {**rows[DOCUMENT, 2], "title": "new"}}
    later = replace(head, change=4, version=2, staged=None)
    assert backend.commit(head, later, {*gone, (DOCUMENT, 2)}, {**new, **replaced}) is True
    left = {key: row for key, row in rows.items() if key not in gone} | new | replaced
    for each in (backend, make()):
        check(each, later, left)


def test_a_commit_over_another_state_changes_nothing(make: Callable[[], BaseBackend]) -> None:
    backend, rows = make(), make_rows(1)
    assert backend.commit(None, FIRST, (), rows)
    for before in (None, replace(FIRST, version=0)):
        assert backend.commit(before, replace(FIRST, change=9, version=9), [*rows][:3], make_rows(50)) is False
        check(backend, FIRST, rows)


class Broken(Mapping[Key, Row]):
    """Rows of which the fourth cannot be read: as a full disk, or a connection that ends."""

    def __init__(self, rows: Mapping[Key, Row]) -> None:
        self._rows = rows

    def __getitem__(self, key: Key) -> Row:
        if key == [*self._rows][3]:
            raise OSError("no space left on device")
        return self._rows[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def test_a_commit_that_fails_halfway_changes_nothing(make: Callable[[], BaseBackend]) -> None:
    backend, rows = make(), make_rows(1)
    assert backend.commit(None, FIRST, (), rows)
    has_failed = True
    with suppress(Exception):
        has_failed = not backend.commit(FIRST, replace(FIRST, version=2), [*rows][:3], Broken(make_rows(50)))
    assert has_failed, "a commit that could not be made was reported as made"
    check(make(), FIRST, rows)


def test_a_state_stays_as_it_is_while_others_commit(make: Callable[[], BaseBackend]) -> None:
    backend, rows = make(), make_rows(1)
    assert backend.commit(None, FIRST, (), rows)
    with backend.snapshot() as snapshot:
        assert make().commit(FIRST, replace(FIRST, version=2), [*rows], make_rows(50))
        assert snapshot.head == FIRST
        assert {row["id"] for row in snapshot.find(select(DOCUMENT), ("id",))} == {f"doc {at}" for at in range(1, 7)}


CONDITIONS: list[Select] = [
    select(DOCUMENT, id=["doc 1", "doc 4", "none"]),
    select(DOCUMENT, row=[2, 5]),
    select(CHUNK, doc=[1, 2], channel=["c1"]),
    select(CHUNK, channel=["c0", "c2"]),
    select(PIECE, doc=[3], message=["m3"]),
    Select(DOCUMENT, (("row", ">", 2), ("row", "<", 6)), order="-row", limit=2),
    Select(CHUNK, (("doc", "in", [1, 2, 3, 4]),), order="row", limit=3),
    Select(DOCUMENT, (("row", ">", 1),), (Condition((frozenset({"k 1"}),)),), order="row", limit=2),
    select(DOCUMENT, [Condition()]),
    select(DOCUMENT, [Condition((frozenset({"k 1"}),))]),
    select(CHUNK, [Condition((frozenset({"k 1", "k 7"}), frozenset({"x"})), since=2.0)], channel=["c0", "c2"]),
    select(CHUNK, [Condition((frozenset({"k 1", "k 2"}),), since=2.0), Condition(until=2.0)]),
]


@pytest.mark.parametrize("wanted", CONDITIONS)
def test_rows_are_found_by_conditions(make: Callable[[], BaseBackend], wanted: Select) -> None:
    backend, rows = make(), make_rows(1)
    assert backend.commit(None, FIRST, (), rows)
    expected = wanted.choose(row for row in rows.values() if row["kind"] == wanted.kind)
    with backend.snapshot() as snapshot:
        found = list(snapshot.find(wanted, COLUMNS[wanted.kind]))
    keys = [[key_of(wanted.kind, row) for row in some] for some in (found, expected)]
    assert keys[0] == keys[1] if wanted.order else sorted(keys[0]) == sorted(keys[1])


def test_of_two_that_commit_at_once_one_is_refused(make: Callable[[], BaseBackend]) -> None:
    def add(worker: int) -> int:
        backend, made = make(), 0
        while made < 20:
            head, _ = read(backend)
            assert head is not None
            row: dict[str, Any] = {"kind": DOCUMENT, "row": head.last + 1, "id": f"{worker} {made}"}
            new = replace(head, last=head.last + 1, documents=head.documents + 1, version=head.version + 1)
            made += backend.commit(head, new, (), {(DOCUMENT, head.last + 1): row})
        return made

    assert make().commit(None, FIRST, (), {})
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(add, range(3))) == [20, 20, 20]
    head, rows = read(make())
    assert head is not None
    assert (len(rows), head.documents, len({row["id"] for row in rows.values()})) == (60, 60, 60), "commits were lost"


def test_named_texts_are_replaced_only_over_what_was_read(make: Callable[[], BaseBackend]) -> None:
    backend, first, second = make(), {"b": "1", "a": "2", "": "{}"}, {"c": "3"}
    assert dict(backend.read_named("jobs")) == {}
    assert backend.write_named("jobs", {}, first) is True
    assert list(make().read_named("jobs").items()) == list(first.items()), "the order is that in which they were added"
    assert backend.write_named("jobs", {}, second) is False
    assert backend.write_named("jobs", {"b": "1"}, second) is False
    assert dict(make().read_named("jobs")) == first
    assert dict(backend.read_named("sessions")) == {}
    assert backend.write_named("jobs", first, second) is True
    assert dict(make().read_named("jobs")) == second
