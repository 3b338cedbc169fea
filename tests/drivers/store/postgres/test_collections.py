"""Whatever is done in two collections side by side, neither ever shows a row of the other; in both stores."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.core.filter import EVERYTHING, Filter
from clew.core.settings import StoreConfig
from clew.core.types import Chunk, Document, Vector
from clew.drivers.store import postgres
from clew.drivers.store.sqlite.backend import open_store
from clew.drivers.store.store import Store

DIM = 8
NUMBER = count()
Pair = Callable[[], tuple[Store, Store]]
# The same names, texts and words in both, so that what is seen of the other could be taken for one's own.
STEP = st.tuples(
    st.sampled_from([0, 1]),
    st.sampled_from(["put", "summarise", "drop", "flush"]),
    st.sampled_from(["log", "map", "'; --"]),
    st.integers(1, 4),
)


@pytest.fixture(params=["embedded", "postgres", "clew_app"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Opens two new collections in one place; all are closed in the end."""
    opened: list[Store] = []

    def make() -> tuple[Store, Store]:
        number, two = next(NUMBER), list[Store]()
        for name in (f"a{number}", f"b{number}"):
            if request.param == "embedded":
                two.append(open_store(tmp_path / name, embedder="m", dim=DIM))
                continue
            url = request.getfixturevalue("postgres")
            if request.param == "clew_app":
                url += f"{'&' if '?' in url else '?'}options=-c%20role%3Dclew_app"
            config = StoreConfig(exact_below=0 if number % 5 == 0 else 10_000)
            two.append(postgres.open_store(url, collection=name, embedder="m", dim=DIM, config=config))
        opened.extend(two)
        return two[0], two[1]

    yield make
    for store in opened:
        store.close()


def vector(seed: int) -> Vector:
    drawn = np.random.default_rng(seed).normal(size=DIM)
    return np.asarray(drawn / np.linalg.norm(drawn), np.float32)


def chunk(side: int, name: str, at: int) -> Chunk:
    return Chunk(f"{name}-{at}-{side}", name, at, 0, f"side {side}", 0, 6, meta={"channel": "deck", "side": side})


def do(store: Store, side: int, verb: str, name: str, many: int, model: dict[str, list[str]]) -> None:
    """Does something to a store, and the same to the model: the ids of the chunks of each document."""
    given = list(map(np.asarray, [vector(n) for n in range(many)]))
    if verb == "put":
        chunks = [chunk(side, name, at) for at in range(many)]
        words = [Counter({"side": 1, f"s{side}": 1})] * many
        store.put(Document(name, f"side {side}", uri=f"{side}"), chunks, np.stack(given), words)
        model[name] = [each.id for each in chunks]
    elif verb == "summarise" and name in model:
        store.summarise(name, f"side {side}", vector(many))
    elif verb == "drop":
        assert store.drop([name]) == (model.pop(name, None) is not None)
    elif verb == "flush":
        store.flush()


def sees_its_own(store: Store, side: int, model: dict[str, list[str]]) -> None:
    """Fails unless all that a store shows, in every way, is what was done to it."""
    ids, other = {name for names in model.values() for name in names}, {f"x-{n}-{1 - side}" for n in range(3)}
    other |= {name[:-1] + str(1 - side) for name in ids}
    for where in (EVERYTHING, Filter(channels=frozenset({"deck"})), Filter(meta={"side": side})):
        assert {hit.chunk.id for hit in store.search_vectors(vector(1), 99, where)} == ids
        assert {hit.chunk.id for hit in store.search_terms({"side": 1}, 99, where)} == ids
    elsewhere = Filter(meta={"side": 1 - side})
    assert store.search_vectors(vector(1), 99, elsewhere) == store.search_terms({"side": 1}, 99, elsewhere) == []
    assert store.search_terms({f"s{1 - side}": 1}, 99) == []
    assert {each.id for each in store.latest_chunks("deck", 99)} == ids
    assert set(store.chunks_by_id([*ids, *other])) == set(store.vectors([*ids, *other])) == ids
    assert {record.id for record in store.documents()} == set(model)
    assert {name for name, _ in store.search_documents(vector(1), 99)} <= set(model)
    for name, names in model.items():
        assert store.document(name).uri == str(side)
        assert f"side {1 - side}" not in store.document(name).text + store.document(name).summary
        assert [each.id for each in store.chunks(name)] == names
    assert (store.stats().documents, store.stats().chunks) == (len(model), len(ids))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=1, max_size=12))
def test_two_collections_never_see_each_other(pair: Pair, steps: list[tuple[int, str, str, int]]) -> None:
    stores, models = pair(), ({}, {})  # type: tuple[Store, Store], tuple[dict[str, list[str]], dict[str, list[str]]]
    for side, verb, name, many in steps:
        quiet = stores[1 - side].change_number()
        do(stores[side], side, verb, name, many, models[side])
        assert stores[1 - side].change_number() == quiet
    for side in (0, 1):
        sees_its_own(stores[side], side, models[side])
    for store in stores:
        store.close()
