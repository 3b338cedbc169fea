"""What every reranker does, whatever makes its scores."""

import json
import math
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from clew.core.protocols import Reranker
from clew.core.settings import RerankerConfig
from clew.drivers.rerank.cross_encoder import make_ms_marco_minilm
from clew.drivers.rerank.http import HttpReranker
from clew.drivers.rerank.overlap import OverlapReranker

KINDS = ("overlap", "ms-marco-minilm", "documents", "texts")
QUERY = "How often are the keys rotated?"
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


class Answers(BaseHTTPRequestHandler):
    """A rerank address that counts shared words, best one first; under /texts it is text-embeddings-inference."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        other = self.path.startswith("/texts")
        texts, field = (asked.get("texts"), "score") if other else (asked["documents"], "relevance_score")
        if texts is None:
            self.reply(422, {"error": "Failed to deserialize: missing field `texts` at line 1 column 93"})
            return
        assert all(texts), "an empty text is refused"
        scores = OverlapReranker().score(
            asked["query"], [text[:1600] for text in texts]
        )  # what is longer is cut in silence
        results = sorted(
            ({"index": at, field: score} for at, score in enumerate(scores)), key=lambda each: -each[field]
        )
        self.reply(200, results if other else {"results": results})

    def reply(self, status: int, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


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
