"""Answers kept on disk: what is asked again, what is not, and what becomes of a file that is no cache."""

import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from clew.core.errors import DriverFailed
from clew.core.protocols import LLMFailure
from clew.core.usage import Usage
from clew.drivers.llm.cached import CachedLLM
from clew.drivers.llm.scripted import ScriptedLLM


def echo(*, name: str = "scripted") -> ScriptedLLM:
    return ScriptedLLM(lambda prompt: f"re {prompt}", name=name)


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    llm = CachedLLM(inner := echo(), tmp_path / "deep" / "down" / "answers.db")
    assert [llm.complete("a"), llm.complete("a")] == ["re a", "re a"]
    assert llm.complete_many(["b", "a", "b", "c", "b"]) == ["re b", "re a", "re b", "re c", "re b"]
    assert Counter(ask.prompt for ask in inner.requests) == {"a": 1, "b": 1, "c": 1}
    assert (llm.name, llm.usage.calls, llm.usage.cached) == ("scripted", 3, 4)
    again = CachedLLM(ScriptedLLM([]), tmp_path / "deep" / "down" / "answers.db")
    assert again.complete_many(["c", "b", "a"]) == ["re c", "re b", "re a"]
    assert again.usage == Usage(cached=3)


def test_whatever_is_sent_is_part_of_the_question(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    llm = CachedLLM(inner := echo(), path)
    for _ in range(2):
        llm.complete("a")
        llm.complete("a", system="s")
        llm.complete("a", max_tokens=301)
        llm.complete("a", temperature=0.5)
        llm.complete("sa")
        llm.complete("", system="sa")
        llm.complete_many(["a"], system="s")
        llm.complete_many(["a"], temperature=0)
    assert inner.calls == 6
    CachedLLM(other := echo(name="another"), path).complete("a")
    assert other.calls == 1


def test_failures_and_empty_answers_are_not_kept(tmp_path: Path) -> None:
    script = ScriptedLLM([DriverFailed("not now"), "", " \n", "at last"])
    llm = CachedLLM(script, tmp_path / "answers.db")
    assert llm.complete_many(["a", "a"]) == [LLMFailure("not now")] * 2
    assert [llm.complete("a") for _ in range(4)] == ["", " \n", "at last", "at last"]
    assert (script.calls, llm.usage.cached) == (4, 1)


def test_what_is_interrupted_goes_on_where_it_stood(tmp_path: Path) -> None:
    def answer(prompt: str) -> str:
        if prompt == "7":
            raise KeyboardInterrupt
        return f"re {prompt}"

    prompts = [str(n) for n in range(12)]
    with pytest.raises(KeyboardInterrupt):
        CachedLLM(ScriptedLLM(answer), tmp_path / "answers.db").complete_many(prompts, max_concurrent=1)
    llm = CachedLLM(inner := echo(), tmp_path / "answers.db")
    assert llm.complete_many(prompts) == [f"re {n}" for n in range(12)]
    assert inner.calls == 5
    assert llm.usage.cached == 7


def test_any_text_is_kept(tmp_path: Path) -> None:
    texts = ["鍵 🗝️", "half a pair \ud83d", "nul \x00 nul", "x" * 1_000_000]
    for _ in range(2):
        llm = CachedLLM(ScriptedLLM(lambda prompt: prompt), tmp_path / "answers.db")
        assert llm.complete_many(texts) == texts
    assert llm.usage.cached == 4


def test_more_prompts_than_one_statement_takes(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    prompts = [str(n) for n in range(1201)]
    CachedLLM(echo(), path).complete_many(prompts[:20])
    llm = CachedLLM(ScriptedLLM(lambda _: ""), path)
    assert llm.complete_many(prompts)[:21] == [f"re {n}" for n in range(20)] + [""]


OTHER = """
import sys
from clew.drivers.llm.cached import CachedLLM
from clew.drivers.llm.scripted import ScriptedLLM
mine = sys.argv[2]
llm = CachedLLM(ScriptedLLM(lambda prompt: f"re {prompt}"), sys.argv[1])
answers = llm.complete_many([f"{mine} {n}" for n in range(30)] + [f"ours {n}" for n in range(30)])
assert answers == [f"re {mine} {n}" for n in range(30)] + [f"re ours {n}" for n in range(30)]
"""


@pytest.mark.slow
def test_processes_share_the_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    programs = [subprocess.Popen([sys.executable, "-c", OTHER, str(path), str(n)]) for n in range(3)]
    assert [program.wait(60) for program in programs] == [0, 0, 0]
    llm = CachedLLM(ScriptedLLM([]), path)  # which has nothing to say itself
    wanted = [f"{who} {n}" for who in ("0", "1", "2", "ours") for n in range(30)]
    assert llm.complete_many(wanted) == [f"re {prompt}" for prompt in wanted]
    assert [file.name for file in tmp_path.iterdir()] == ["answers.db"]


def test_a_file_that_is_deleted_is_made_again(tmp_path: Path) -> None:
    llm = CachedLLM(echo(), tmp_path / "answers.db")
    llm.complete("a")
    (tmp_path / "answers.db").unlink()
    assert llm.complete_many(["a", "b"]) == ["re a", "re b"]
    assert llm.usage == Usage(3, 3, 6, 0)


@pytest.mark.slow
def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    path.write_bytes(b"this was never a database " * 100)
    with pytest.raises(DriverFailed, match=r"answers\.db: the cache file is damaged.*delete the file"):
        CachedLLM(echo(), path)
    path.unlink()
    llm = CachedLLM(echo(), path)
    llm.complete_many([str(n) * 50 for n in range(300)])
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(DriverFailed, match="delete the file"):
        llm.complete_many([str(n) * 50 for n in range(300)])


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    path = tmp_path / "clew.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE documents(id)")
    db.close()
    with pytest.raises(DriverFailed, match="is a database, but not a cache file of Clew; name another file"):
        CachedLLM(echo(), path)
    with pytest.raises(DriverFailed, match=r"cannot be used .*check the disk and the permissions"):
        CachedLLM(echo(), tmp_path)
    with pytest.raises(DriverFailed, match="the cache file cannot be created"):
        CachedLLM(echo(), path / "answers.db")
    newer = tmp_path / "newer.db"
    CachedLLM(echo(), newer)
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(DriverFailed, match="newer version of Clew; delete the file"):
        CachedLLM(echo(), newer)


def test_a_disk_that_fails_ends_the_work_before_more_is_paid(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"

    def answer(prompt: str) -> str:
        path.write_bytes(b"overwritten by somebody" * 100)
        return "paid"

    inner = ScriptedLLM(answer)
    with pytest.raises(DriverFailed, match="delete the file"):
        CachedLLM(inner, path).complete_many([str(n) for n in range(20)], max_concurrent=2)
    assert inner.calls < 10  # how many were under way when the first failed depends on the threads
