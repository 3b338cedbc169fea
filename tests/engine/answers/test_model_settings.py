"""The settings of the language model through the engine and the command line, against a real server on loopback."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import stamina
from typer.testing import CliRunner

from clew import Document, Engine, Settings
from clew.core.errors import SettingsError
from clew.core.settings import IngestionConfig, LLMConfig
from clew.core.usage import Price, look_up_price
from clew.drivers import make_language_model
from clew.surface.cli.app import app
from tests.loopback import LoopbackHandler, LoopbackServer, make_completion, serving

pytest.importorskip("pydantic_ai")

KEY = "canary-1c383cd30b7c298a"


class Server(LoopbackServer):
    """Answers everything with a sentence, after a while, or refuses it in words that hold the key."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.after = 0.0
        self.status = 200
        self.connections = self.asked = self.now = self.peak = 0
        self.url = f"{self.url}/v1"

    def get_request(self) -> tuple[Any, Any]:
        """Counts connections: a client on a busy machine may hang up before it has asked."""
        self.connections += 1
        return super().get_request()


class Handler(LoopbackHandler):
    server: Server

    def answer(self) -> None:
        self.read_json()
        with self.server.lock:
            self.server.asked += 1
            self.server.now += 1
            self.server.peak = max(self.server.peak, self.server.now)
        time.sleep(self.server.after)
        with self.server.lock:
            self.server.now -= 1
        if self.server.status == 200:
            self.reply_json(make_completion("It is about keys.", tokens=(1000, 100)))
        else:
            self.reply_json({"error": {"message": f"refused {self.headers['Authorization']}"}}, self.server.status)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with stamina.set_testing(True, attempts=100, cap=True), serving(Server()) as server:
        yield server


def engine(llm: LLMConfig) -> Engine:
    written = IngestionConfig(summaries="llm")
    return Engine.open(":memory:", embedder="hashed", settings=Settings(llm=llm, ingestion=written))


PAGES = [Document(f"d{n}", f"Page {n}: signing keys are rotated by Dan every ninety days.") for n in range(4)]


def test_a_provider_has_so_long_and_so_many_tries(server: Server) -> None:
    server.after = 5.0
    with engine(LLMConfig("m", server.url, timeout=1.0, retries=2)) as opened:
        report = opened.add_documents(PAGES[:1])
    assert report.added  # a page without its summary is a page
    assert "within 1 s" in report.noted[0].reason
    assert "tried 3 times" in report.noted[0].reason
    deadline = time.monotonic() + 30
    while server.connections < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.connections == 3


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_requests_at_once_than_the_model_may_get(server: Server, most: int) -> None:
    server.after = 0.2
    llm = make_language_model(LLMConfig("m", server.url, max_concurrent=most))
    assert llm is not None
    assert llm.complete_many(list("abcdef"), max_concurrent=6) == ["It is about keys."] * 6
    assert server.peak == most


def test_the_table_of_prices_says_what_a_job_costs(server: Server) -> None:
    table = ("other 50 50", "m 2.5 10")
    with engine(LLMConfig("m", server.url, prices=table)) as opened:
        report = opened.add_documents(PAGES)
    assert server.asked == 4  # a summary each
    assert report.cost == pytest.approx(4 * (1000 * 2.5 + 100 * 10) / 1e6)
    with engine(LLMConfig("m", server.url)) as opened:
        assert opened.add_documents(PAGES[:1]).cost == 0.0


def test_a_price_is_found_with_and_without_the_address() -> None:
    config = LLMConfig(prices=("openai:small 1 2", "m@http://far/v1 3 4.5", "m 5 6"))
    assert look_up_price(config, "openai:small") == Price(1, 2)
    assert look_up_price(config, "m@http://far/v1") == Price(3, 4.5)
    assert look_up_price(config, "m@http://near/v1") == Price(5, 6)
    assert look_up_price(config, "openai:large") == Price()


@pytest.mark.parametrize("line", ["m", "m 1", "m 1 2 3", "m one two", "m -1 2", "", "m 1,5 2"])
def test_a_line_that_is_no_price_is_refused(line: str) -> None:
    with pytest.raises(SettingsError, match=r"llm\.prices has the line"):
        LLMConfig(prices=(line,))
    for wrong in ({"timeout": 0.0}, {"retries": -1}, {"max_concurrent": 0}):
        with pytest.raises(SettingsError, match=f"llm.{next(iter(wrong))} is"):
            replace(LLMConfig(), **wrong)


@pytest.mark.slow
def test_prices_in_the_file_and_no_key_in_the_log(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(PAGES[0].text, encoding="utf-8")
    (tmp_path / "clew.toml").write_text(
        f'[embedder]\nname = "hashed"\n[llm]\nname = "m"\nurl = "{server.url}"\napi_key = "{KEY}"\nretries = 1\n'
        'prices = ["m 1000 1000"]  # of a million tokens\n',
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["add", "page.md", "--summaries", "--json"])
    assert json.loads(done.stdout)["cost"] == pytest.approx(1.1)
    for status in (401, 429, 500):
        server.status = status
        (tmp_path / "page.md").write_text(f"{PAGES[0].text} And again: {status}.", encoding="utf-8")
        for command in (
            ["add", "page.md", "--summaries"],
            ["--llm", "m", "search", "keys", "--strategy", "multi_query"],
        ):
            done = CliRunner().invoke(app, ["--verbose", *command])
            assert str(status) in done.stdout + done.stderr
            assert KEY not in done.stdout + done.stderr
    done = CliRunner().invoke(app, ["--verbose", "config", "show"])
    assert "llm.prices" in done.stdout
    assert KEY not in done.stdout + done.stderr


def test_contexts_and_summaries_of_one_job_share_its_purse(server: Server) -> None:
    settings = Settings(
        llm=LLMConfig("m", server.url, prices=("m 1000 1000",)),
        ingestion=IngestionConfig(use_contextual_enrichment=True, summaries="llm"),
    )
    with Engine.open(":memory:", embedder="hashed", settings=settings) as opened:
        report = opened.add_documents(PAGES)
    assert server.asked == 8  # a context and a summary each
    assert report.cost == pytest.approx(1.1 * server.asked)
