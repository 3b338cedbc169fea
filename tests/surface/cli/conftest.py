"""A command line to run in a folder of its own, and a small collection that was filled through it."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from clew import Document, Engine
from clew.core.protocols import LLM
from clew.surface.cli.app import app

UseLLM = Callable[[LLM], None]
LAST_CHANGE = 1_577_836_800  # of every page: 2020-01-01
PAGES = {
    "vault.md": "---\ntitle: Vault\nauthor: dan\ndate: 2025-03-01\nowner: ines\n---\n\n"
    "Secrets live in the vault.\n\n## Keys\n\n### Rotation\n\nSigning keys are rotated every ninety days by Dan.\n",
    "oncall.md": "---\ntitle: On call\nauthor: eve\ndate: 2025-06-01\nchannel: ops\nowner: sol\n---\n\n"
    "The pager rotation changes every Monday. Whoever rotates out hands over the keys.\n",
    "lunch.md": "# Lunch\n\nSoup is served at noon. The error E-4417 means no soup.\n",
    "tide.py": '"""The tide gauge of Lowport harbour."""\n\n\ndef level(keys):\n    return max(keys)\n',
}


@dataclass(frozen=True)
class Done:
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@dataclass(frozen=True)
class Clew:
    """The command line in one folder."""

    folder: Path

    def __call__(self, *words: str, stdin: str | bytes = "", **environ: str) -> Done:
        result = CliRunner().invoke(app, words, input=stdin, env=environ)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    def hits(self, *words: str, **environ: str) -> list[str]:
        """The addresses that a search finds, best first."""
        done = self("search", *words, "--json", **environ)
        assert done.code == 0, done.err
        return [Path(hit["document"]["uri"]).name for hit in done.json["hits"]]


@pytest.fixture(scope="session", autouse=True)
def cache_command_tree() -> Iterator[None]:
    """The tree of commands is built once and not for every command line: that takes longer than most commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pages/ and .clew, filled once with the pages and a conversation; to change one, take `fresh`."""
    folder = tmp_path_factory.mktemp("filled")
    _write_pages(folder)
    with pytest.MonkeyPatch.context() as patch:
        _enter(folder, patch)
        done = Clew(folder)("add", "pages")
        assert done.code == 0, done.err + done.out
        with Engine.open(folder / ".clew", embedder="hashed") as engine:
            engine.add_documents([Document("chat", "eve: Soup again? The keys are yours.", kind="thread", uri="chat")])
    return folder


@pytest.fixture
def clew(collection: Path, monkeypatch: pytest.MonkeyPatch) -> Clew:
    """The command line in the folder of the filled collection, which it must not change."""
    _enter(collection, monkeypatch)
    return Clew(collection)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clew:
    """The command line in a folder with pages/ and no collection yet."""
    _write_pages(tmp_path)
    _enter(tmp_path, monkeypatch)
    return Clew(tmp_path)


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reranker without a model."""
    monkeypatch.setenv("CLEW_RERANKER__NAME", "overlap")


@pytest.fixture
def use_llm(monkeypatch: pytest.MonkeyPatch) -> UseLLM:
    """Makes every engine that is opened use this language model."""
    return lambda llm: monkeypatch.setattr("clew.drivers.make_language_model", lambda _: llm)


def _write_pages(folder: Path) -> None:
    (folder / "pages").mkdir()
    for name, text in PAGES.items():
        (folder / "pages" / name).write_text(text, encoding="utf-8")
        os.utime(folder / "pages" / name, (LAST_CHANGE, LAST_CHANGE))


def _enter(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("CLEW_")]:
        patch.delenv(name)
    patch.setenv("CLEW_EMBEDDER__NAME", "hashed")
