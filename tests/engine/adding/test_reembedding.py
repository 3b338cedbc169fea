"""Another model for a collection, through the engine: on a folder and on a server, while it is used, and back."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from clew import (
    Document,
    DriverFailed,
    Engine,
    Filter,
    Message,
    ModelSwitched,
    NotFound,
    Settings,
    SettingsError,
    StoreMismatch,
)
from clew.core.protocols import Embedder
from clew.core.report import Progress
from clew.core.settings import EmbedderConfig, StoreConfig
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder

QUESTIONS = ("who rotates the keys?", "soup at noon", "the tide of the harbour")
PAGES = [
    Document("vault", "# Vault\n\nSecrets live here.\n\n## Keys\n\nKeys are rotated every ninety days.", uri="vault"),
    Document("lunch", "# Lunch\n\nSoup is served at noon.", uri="lunch"),
    Document(
        "tide", "# Tide\n\nThe tide of the harbour turns twice a day.\n\n## Gauge\n\nIt is read hourly.", uri="tide"
    ),
]
PLACES = ("memory", "folder", "shard", "server", "graph")
Open = Callable[..., Engine]


class Slow(HashedEmbedder):
    """The embedder hashed:64, which does something else before it embeds so many texts."""

    def __init__(self, then: Callable[[], object], *, after: int = 0) -> None:
        super().__init__(64)
        self._then, self._after, self._seen = then, after, 0

    def embed(self, texts: Sequence[str], *, role: Any) -> Matrix:
        self._seen += len(texts)
        if self._seen > self._after:
            then, self._then = self._then, lambda: None
            then()
        return super().embed(texts, role=role)


@pytest.fixture(params=PLACES)
def open_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens engines over one place; all are closed in the end."""
    opened: list[Engine] = []
    large = request.param in ("shard", "graph")
    settings = Settings(store=StoreConfig(exact_below=0 if large else 4096))
    here: dict[str, str | Path] = {"memory": ":memory:", "folder": tmp_path / "a", "shard": tmp_path / "a"}
    place: str | Path = here.get(request.param) or request.getfixturevalue("postgres")

    def make(embedder: str | Embedder | None = "hashed", collection: str = "one") -> Engine:
        opened.append(Engine.open(place, embedder=embedder, settings=settings, collection=collection))
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


def filled(engine: Engine) -> Engine:
    engine.add_documents(PAGES)
    engine.add_messages([Message("Who has the lamp?", "eve", id="m1", channel="deck")])
    return engine


def answers(engine: Engine) -> list[list[tuple[str, float]]]:
    return [
        [(hit.chunk.id, hit.score) for hit in engine.search(text, k=5, strategy=strategy)]
        for text in QUESTIONS
        for strategy in ("semantic", "lexical", "hybrid", "document_boost")
    ]


@pytest.mark.slow
def test_it_then_answers_as_one_that_was_filled_with_the_other_model(open_engine: Open) -> None:
    engine, fresh, told = filled(open_engine()), filled(open_engine("hashed:64", "two")), list[Progress]()
    before = answers(engine)
    report = engine.reembed("hashed:64", on_progress=told.append)
    assert report.chunks == engine.status().chunks
    assert report.embedded == report.chunks
    embedding = [each for each in told if each.stage == "embedding"]  # a busy machine tells of the index, too
    assert (embedding[-1].done, embedding[-1].total) == (report.embedded, report.embedded)
    assert (engine.status().embedder, engine.status().dim) == ("hashed:64", 64)
    assert answers(engine) == answers(fresh) != before
    engine.add_documents([Document("new", "A new page on the tide.")])  # goes on with the new model
    assert engine.search("a new page", strategy="semantic")[0].chunk.doc_id == "new"
    assert engine.reembed(back=True).embedded == 1
    assert engine.status().embedder == "hashed"
    engine.drop("new")
    assert answers(engine) == before
    engine.reembed(discard=True)
    with pytest.raises(NotFound, match="no vectors of another model"):
        engine.reembed(back=True)
    with pytest.raises(NotFound, match="no vectors of another model"):
        engine.reembed(discard=True)


@pytest.mark.slow
def test_searches_and_changes_go_on_meanwhile(open_engine: Open) -> None:
    engine = filled(open_engine())
    before, seen = answers(engine), list[Any]()

    def meanwhile() -> None:
        """From another thread, as a server would: search, add, change and drop."""
        seen.append(answers(engine))
        engine.add_documents([Document("new", "A new page on buoys."), Document("lunch", "# Lunch\n\nStew at noon.")])
        engine.drop("tide")

    def work() -> None:
        thread = threading.Thread(target=meanwhile)
        thread.start()
        thread.join()

    engine.reembed(Slow(work))
    assert seen == [before]
    assert engine.status().embedder == "hashed:64"
    fresh = open_engine("hashed:64", "two")
    fresh.add_documents(
        [PAGES[0], Document("new", "A new page on buoys."), Document("lunch", "# Lunch\n\nStew at noon.")]
    )
    fresh.add_messages([Message("Who has the lamp?", "eve", id="m1", channel="deck")])
    vectors = {each.document.id: each.vectors.tobytes() for each in engine.opened.store.stored_documents()}
    assert vectors == {each.document.id: each.vectors.tobytes() for each in fresh.opened.store.stored_documents()}
    assert answers(engine) == answers(fresh)


@pytest.mark.slow
def test_another_that_has_it_open_goes_on_with_the_new_model(open_engine: Open, request: Any) -> None:
    if "memory" in request.node.name:
        pytest.skip("a collection in memory has one user")
    engine, other = filled(open_engine()), open_engine()
    part = other.within(Filter(documents=frozenset({"vault"})))
    assert answers(other) == answers(engine)
    engine.reembed("hashed:64")
    assert {hit.chunk.doc_id for hit in part.search("keys", strategy="semantic")} == {"vault"}
    assert part.opened.store.whole is other.opened.store
    assert answers(other) == answers(engine)
    other.add_documents([Document("new", "A new page on the tide.")])
    assert engine.search("a new page", strategy="semantic")[0].chunk.doc_id == "new"


@pytest.mark.slow
def test_one_whose_embedder_is_an_object_is_told_to_open_it_again(open_engine: Open, request: Any) -> None:
    if "memory" in request.node.name:
        pytest.skip("a collection in memory has one user")
    engine, other = filled(open_engine()), open_engine(HashedEmbedder(256))
    assert other.search("keys", strategy="semantic")
    engine.reembed("hashed:64")
    with pytest.raises(ModelSwitched, match="switched from hashed to hashed:64 meanwhile; open it again"):
        other.search("keys", strategy="semantic")
    with pytest.raises((StoreMismatch, DriverFailed)):
        other.add_documents([Document("x", "Not with the old vectors.")])
    with pytest.raises(StoreMismatch, match="hashed:64"):
        open_engine("hashed")
    again = open_engine(None)  # with whatever it has
    assert again.status().embedder == "hashed:64"
    assert [record.id for record in again.list()] == [record.id for record in engine.list()]
    assert answers(again) == answers(engine)


def test_what_cannot_be_is_refused() -> None:
    with filled(Engine.open(":memory:", embedder="hashed")) as engine:
        for options in ({}, {"to": "hashed:64", "back": True}, {"back": True, "discard": True}):
            with pytest.raises(SettingsError, match="exactly one of"):
                engine.reembed(**options)
        with pytest.raises(SettingsError, match="already has vectors of hashed"):
            engine.reembed("hashed")
        with pytest.raises(NotFound, match="there is no embedder"):
            engine.reembed("hushed")


def test_it_stops_before_it_costs_too_much() -> None:
    settings = Settings(embedder=EmbedderConfig(price=1.0))
    with Engine.open(":memory:", embedder="hashed", settings=settings) as engine:
        filled(engine)
        report = engine.reembed("hashed:64", max_cost=1e-9)
        assert report.stopped.startswith("stopped at 0.0000 spent")
        assert engine.status().embedder == "hashed"
        assert engine.reembed("hashed:64", max_cost=1.0).cost > 0
        assert engine.status().embedder == "hashed:64"


def test_the_least_role_may_do_it_too(postgres: str) -> None:
    url = f"{postgres}{'&' if '?' in postgres else '?'}options=-c%20role%3Dclew_app"
    settings = Settings(store=StoreConfig(exact_below=0))
    with Engine.open(url, embedder="hashed", settings=settings) as engine:
        before = answers(filled(engine))
        engine.reembed("hashed:64")
        assert engine.status().index == "pgvector HNSW, half precision"
        assert engine.search("keys")
        engine.reembed(back=True)
        assert answers(engine) == before
        engine.reembed(discard=True)


@pytest.mark.slow
def test_a_process_that_is_killed_in_the_middle_leaves_a_sound_collection(tmp_path: Path) -> None:
    import subprocess

    with filled(Engine.open(tmp_path / "a", embedder="hashed")) as engine:
        before = answers(engine)
    code = (
        "import os, sys; from clew import Engine\n"
        "from clew.drivers.store.sqlite import schema\n"
        "write_meta = schema.write_meta\n"
        "def killed(db, **columns): write_meta(db, **columns); 'birth' not in columns or os._exit(9)\n"
        "schema.write_meta = killed\n"
        "Engine.open(sys.argv[1]).reembed('hashed:64')"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=False).returncode == 9
    with Engine.open(tmp_path / "a") as engine:
        assert (engine.status().embedder, answers(engine)) == ("hashed", before)
        assert engine.reembed("hashed:64").embedded == 0  # they were all made
        assert engine.status().embedder == "hashed:64"
