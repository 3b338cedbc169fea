"""The SQLite cache file: values by keys, and files of the first version."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from clew.core.errors import DriverFailed
from clew.core.ids import digest
from clew.core.usage import Usage
from clew.drivers.cache import CacheFile
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.embed.wrapped import CachedEmbedder
from clew.drivers.llm.cached import CachedLLM
from clew.drivers.llm.requests import CompletionRequest
from clew.drivers.llm.scripted import ScriptedLLM


def test_values_are_found_by_their_keys(tmp_path: Path) -> None:
    cache = CacheFile(tmp_path / "cache.db")
    assert cache.get(["a"]) == {}
    cache.put({"a": b"1", "b": b"2"})
    cache.put({"a": b"3"})
    assert CacheFile(tmp_path / "cache.db").get(["a", "b", "c"]) == {"a": b"3", "b": b"2"}


def test_one_file_may_hold_vectors_and_answers(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    CachedLLM(ScriptedLLM("yes"), path).complete("one")
    CachedEmbedder(HashedEmbedder(), path).embed(["one"], role="query")
    assert CachedLLM(ScriptedLLM([]), path).complete("one") == "yes"


def test_answers_of_the_first_version_are_taken_over(tmp_path: Path) -> None:
    path, key = tmp_path / "answers.db", CompletionRequest("a").cache_key("scripted")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE answers(key TEXT PRIMARY KEY, model TEXT, answer BLOB NOT NULL) WITHOUT ROWID")
        db.execute("PRAGMA user_version = 1")
        db.execute("INSERT INTO answers VALUES (?, 'scripted', ?)", (key, b"kept"))
    llm = CachedLLM(ScriptedLLM([]), path)
    assert llm.name == "scripted"
    assert llm.complete("a") == "kept"
    assert llm.usage == Usage(cached=1)


def test_vectors_of_the_first_version_are_taken_over(tmp_path: Path) -> None:
    path, row = tmp_path / "vectors.db", HashedEmbedder().embed(["one"], role="passage")[0]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE vectors (model TEXT NOT NULL, role TEXT NOT NULL, digest TEXT NOT NULL, vector BLOB NOT NULL,"
            " PRIMARY KEY (model, role, digest)) WITHOUT ROWID"
        )
        db.execute("INSERT INTO vectors VALUES ('hashed', 'passage', ?, ?)", (digest("one"), row.tobytes()))
    cached = CachedEmbedder(HashedEmbedder(), path)
    cached.embed(["one"], role="passage")
    assert (cached.hits, cached.misses) == (1, 0)


def test_a_locked_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = CacheFile(tmp_path / "cache.db")
    monkeypatch.setattr("clew.drivers.cache.LOCK_TIMEOUT", 0.01)
    with closing(sqlite3.connect(cache.path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DriverFailed, match=r"locked by another process.*try again"):
            cache.put({"a": b"1"})
