"""A collection in Lance finds what the embedded store finds; `pytest -s` shows the shares that are equal."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from clew.core.filter import EVERYTHING, Filter
from clew.core.settings import StoreConfig
from clew.core.stored import NewDocument
from clew.core.types import Chunk, Document, Hit, Matrix
from clew.drivers.store import lance
from clew.drivers.store.sqlite.backend import open_store
from clew.drivers.store.store import Store
from tests.soak import choose_runs

DIM, K, QUERIES = 32, 10, choose_runs(6, 40)
DOCUMENTS, CHUNKS = choose_runs(30, 300), 10
WORDS = [f"word{number}" for number in range(80)]
SCANNED = StoreConfig(exact_below=0)
FILTERS = {"all": EVERYTHING, "a third": Filter(meta={"fleet": 1})}
Search = Callable[[Store, int, Filter], list[Hit]]


def draw_vectors(rng: np.random.Generator, centres: Matrix, many: int) -> Matrix:
    """Unit vectors around centres: those of texts are in clusters, too."""
    drawn = centres[rng.integers(len(centres), size=many)] + rng.normal(scale=0.7, size=(many, DIM)) / np.sqrt(DIM)
    unit: Matrix = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return unit


def draw_document(rng: np.random.Generator, centres: Matrix, number: int) -> NewDocument:
    odds = 1 / np.arange(1, len(WORDS) + 1)
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 20), p=odds / odds.sum())) for _ in range(CHUNKS)]
    ends = np.cumsum([len(text) + 1 for text in texts]).tolist()
    name = f"d{number}"
    chunks = [
        Chunk(f"{name}/{index}", name, index, CHUNKS, text, end - len(text) - 1, end - 1)
        for index, (text, end) in enumerate(zip(texts, ends, strict=True))
    ]
    terms = [{word: text.split().count(word) for word in text.split()} for text in texts]
    document = Document(name, "\n".join(texts), meta={"fleet": number % 3})
    return NewDocument(document, chunks, draw_vectors(rng, centres, CHUNKS), terms)


def list_scores(hits: list[Hit]) -> list[tuple[str, float]]:
    return [(hit.chunk.id, hit.score) for hit in hits]


@pytest.fixture
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, dict[str, Store]]]:
    """The same collection in a folder and in Lance: in memory, scanned, and in `make soak` in object storage."""
    places = {"in memory": (f"lance://{tmp_path}/a", StoreConfig()), "scanned": (f"lance://{tmp_path}/b", SCANNED)}
    if choose_runs(0, 1):
        places["on S3"] = (request.getfixturevalue("s3"), SCANNED)
    made: dict[str, Store] = {
        name: lance.open_store(url, collection="one", embedder="m", dim=DIM, config=config)
        for name, (url, config) in places.items()
    }
    rng = np.random.default_rng(18)
    centres = draw_vectors(rng, np.zeros((1, DIM), np.float32), 20)
    documents = [draw_document(rng, centres, number) for number in range(DOCUMENTS)]
    folder: Store = open_store(tmp_path / "folder", embedder="m", dim=DIM)
    for store in (folder, *made.values()):
        store.put_many(documents)
        store.flush()
    yield folder, made
    for store in (folder, *made.values()):
        store.close()


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_lance_finds_what_the_embedded_store_finds(stores: tuple[Store, dict[str, Store]]) -> None:
    folder, others = stores
    rng = np.random.default_rng(23)
    centres = draw_vectors(rng, np.zeros((1, DIM), np.float32), 20)
    vectors = draw_vectors(rng, centres, QUERIES)
    terms = [{str(word): 1 for word in rng.choice(WORDS, rng.integers(1, 6))} for _ in range(QUERIES)]
    exact: Search = lambda store, at, where: store.search_vectors(vectors[at], K, where, mode="exact")  # noqa: E731
    near: Search = lambda store, at, where: store.search_vectors(vectors[at], K, where)  # noqa: E731
    words: Search = lambda store, at, where: store.search_terms(terms[at], K, where)  # noqa: E731
    assert others["scanned"].stats().index == "Lance IVF-PQ, re-ranked"
    for label, where in FILTERS.items():
        wanted = {
            search: [list_scores(search(folder, at, where)) for at in range(QUERIES)] for search in (exact, words)
        }
        assert all(wanted[exact])
        assert sum(map(bool, wanted[words])) > QUERIES / 2
        for name, store in others.items():
            same = {
                search: mean([list_scores(search(store, at, where)) == wanted[search][at] for at in range(QUERIES)])
                for search in (exact, words)
            }
            found = [{hit.chunk.id for hit in near(store, at, where)} for at in range(QUERIES)]
            recall = mean([len(own & {i for i, _ in best}) / K for own, best in zip(found, wanted[exact], strict=True)])
            print(f"\n{name}, {label}: exact {same[exact]:.3f}, ANN {recall:.3f}, lexical {same[words]:.3f}")  # noqa: T201
            assert (same[exact], same[words]) == (1.0, 1.0)
            assert recall >= 0.95
