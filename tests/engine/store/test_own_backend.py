"""An engine over a backend of one's own: what every verb does, and what is refused at the door."""

from pathlib import Path
from typing import Any

import pytest

from clew import (
    BaseBackend,
    Document,
    Engine,
    Filter,
    Message,
    NotFound,
    Settings,
    SettingsError,
    StoreConfig,
    StoreMismatch,
)
from tests.own_backend import OpenBackend, load_opener


@pytest.fixture
def open_backend() -> OpenBackend:
    return load_opener(None)


def test_every_verb_works_over_it(open_backend: OpenBackend, tmp_path: Path) -> None:
    with Engine.open(open_backend(tmp_path, "one"), embedder="hashed") as engine:
        engine.add_documents(
            [Document(f"page-{at}", f"Box {at} holds part{at}.", access={f"team{at}"}) for at in range(5)]
        )
        engine.add_messages([Message("Where is part3?", author="ada", channel="ops", id="m1")])
        assert {hit.document.id for hit in engine.search("part3", k=2)} >= {"page-3"}
        assert [hit.document.id for hit in engine.search("part3", where=Filter(documents={"page-2"}))] == ["page-2"]
        assert engine.within(Filter(access={"team1"})).status().documents == 2  # and the message
        assert engine.status().index == "exact, by scanning"
        assert not engine.doctor().defects
        engine.feedback("where is part4?", good=True, documents=["page-4"])
        receipt = engine.erase(["page-4"])
        assert receipt.complete
        assert any("not known to Clew" in note for note in receipt.notes)
        assert engine.list_feedback() == []
        engine.reembed("hashed:64")
        assert engine.search("part2")[0].document.id == "page-2"
        engine.export(tmp_path / "copy.zip")
    with Engine.open(open_backend(tmp_path, "one")) as again:
        assert again.status().embedder == "hashed:64"
        assert again.search("part2")[0].document.id == "page-2"
    with Engine.open(open_backend(tmp_path, "two"), embedder="hashed:64") as copied:
        copied.restore(tmp_path / "copy.zip")
        assert copied.search("part2")[0].document.id == "page-2"
    with pytest.raises(StoreMismatch, match="was filled with hashed:64"):
        Engine.open(open_backend(tmp_path, "one"), embedder="hashed")


def test_what_cannot_be_opened_is_told(open_backend: OpenBackend, tmp_path: Path) -> None:
    backend: Any = open_backend(tmp_path, "one")
    past = Settings(store=StoreConfig(as_of="2026-01-01"))
    for arguments, told in (
        ({"path": object()}, r"a backend derived from clew\.BaseBackend"),
        ({"path": BaseBackend("nowhere")}, "lacks snapshot, commit, read_named, write_named"),
        ({"path": backend, "collection": "other"}, "a backend is one collection"),
        ({"path": backend, "settings": past}, "needs a collection in Lance"),
    ):
        with pytest.raises(SettingsError, match=told):
            Engine.open(**arguments)
    with pytest.raises(NotFound, match="in a dictionary"):
        Engine.open(backend, create=False)
