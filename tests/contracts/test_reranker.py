"""What every reranker does, whatever makes its scores."""

import math
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from clew.core.protocols import Reranker
from clew.core.settings import RerankerConfig
from clew.drivers.rerank.cross_encoder import make_ms_marco_minilm
from clew.drivers.rerank.http import HttpReranker
from clew.drivers.rerank.overlap import OverlapReranker
from tests.contracts.test_embedder import ODD, TEXTS
from tests.loopback import LoopbackHandler, LoopbackServer, serving

KINDS = ("overlap", "ms-marco-minilm", "documents", "texts")
QUERY = "How often are the keys rotated?"


class Answers(LoopbackHandler):
    """A rerank address that counts shared words, best one first; under /texts it is text-embeddings-inference."""

    def answer(self) -> None:
        asked = self.read_json()
        other = self.path.startswith("/texts")
        texts, field = (asked.get("texts"), "score") if other else (asked["documents"], "relevance_score")
        if texts is None:
            self.reply_json({"error": "Failed to deserialize: missing field `texts` at line 1 column 93"}, 422)
            return
        assert all(texts), "an empty text is refused"
        cut = [text[:1600] for text in texts]  # what is longer is cut in silence
        scores = enumerate(OverlapReranker().score(asked["query"], cut))
        results = sorted(({"index": at, field: score} for at, score in scores), key=lambda each: -each[field])
        self.reply_json(results if other else {"results": results})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(LoopbackServer(Answers)) as server:
        yield server.url


@pytest.fixture(scope="module", params=KINDS)
def reranker(request: pytest.FixtureRequest) -> Reranker:
    if request.param == "overlap":
        return OverlapReranker()
    if request.param == "ms-marco-minilm":
        return make_ms_marco_minilm(RerankerConfig())
    return HttpReranker("overlap", url=f"{request.getfixturevalue('url')}/{request.param}")


def test_it_is_a_reranker(reranker: Reranker) -> None:
    assert reranker.name


def test_a_score_a_text(reranker: Reranker) -> None:
    scores = reranker.score(QUERY, TEXTS)
    assert len(scores) == len(TEXTS)
    assert all(type(score) is float and math.isfinite(score) for score in scores)


def test_no_texts(reranker: Reranker) -> None:
    assert reranker.score(QUERY, []) == []


def test_what_answers_has_the_highest_score(reranker: Reranker) -> None:
    scores = reranker.score(QUERY, TEXTS)
    assert max(scores) == scores[0]
    assert scores[0] > scores[1]


def test_the_scores_stand_in_the_order_of_the_texts(reranker: Reranker) -> None:
    texts = [" ".join([f"key {n}", *["rotated"] * (n % 2), *["more"] * (n * 7 % 23)]) for n in range(12)]
    known = dict(zip(texts, reranker.score(QUERY, texts), strict=True))
    random.Random(0).shuffle(texts)
    assert reranker.score(QUERY, texts) == [known[text] for text in texts]


def test_a_text_has_one_score_whatever_stands_beside_it(reranker: Reranker) -> None:
    alone = [score for text in TEXTS for score in reranker.score(QUERY, [text])]
    assert reranker.score(QUERY, TEXTS) == alone
    first, _, again = reranker.score(QUERY, [TEXTS[0], TEXTS[1], TEXTS[0]])
    assert first == again


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_any_text_has_a_score_and_none_beats_the_answer(reranker: Reranker, text: str) -> None:
    odd, answer = reranker.score(QUERY, [text, TEXTS[0]])
    assert math.isfinite(odd)
    assert odd < answer


@pytest.mark.parametrize("query", ODD.values(), ids=ODD)
def test_any_query_can_be_asked(reranker: Reranker, query: str) -> None:
    assert len(reranker.score(query, TEXTS[:2])) == 2


@pytest.mark.slow
def test_a_long_text_is_read_to_its_end(reranker: Reranker) -> None:
    body = " ".join(["The canteen opens at noon and closes at two."] * 55)
    plain, middle, late = reranker.score(QUERY, [body, f"{body[:1500]} {TEXTS[0]} {body[1500:]}", f"{body} {TEXTS[0]}"])
    assert min(middle, late) > plain


def test_a_long_query_keeps_its_start_and_its_end(reranker: Reranker) -> None:
    filler = " ".join(["We had a long day in the canteen."] * 200)
    for query in (f"{QUERY} {filler}", f"{filler} {QUERY}"):
        answer, other = reranker.score(query, [TEXTS[0], "Ships sail west."])
        assert answer > other


def test_threads_agree(reranker: Reranker) -> None:
    expected = reranker.score(QUERY, TEXTS)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: reranker.score(QUERY, TEXTS), range(8))) == [expected] * 8


def test_a_chance_is_between_nought_and_one_and_grows_with_the_score(reranker: Reranker) -> None:
    scores = sorted(reranker.score(QUERY, TEXTS))
    chances = [reranker.calibrate(score) for score in scores]
    assert chances == sorted(chances)
    assert all(0 <= chance <= 1 for chance in chances)
    assert chances[-1] > 0.5 > chances[0]
