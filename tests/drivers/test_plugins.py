"""Plugins: what installed packages add by entry points, and what a broken one does not stop."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clew import BaseBackend, Document, DriverFailed, DriverMissing, Engine, Extensions, SettingsError, hybrid
from clew.drivers import plugins
from clew.drivers.models import list_models
from clew.surface.cli.app import app
from tests.own_backend import load_opener

PAGE = Document("keys", "Dan rotates the vault key on Monday.", title="Vault")
Install = Callable[[str, str], None]
MODULE = """
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.rerank.overlap import OverlapReranker
from clew import ScriptedLLM, hybrid

def make_embedder(config):
    \"\"\"hashes of a plugin\"\"\"
    return HashedEmbedder(64)

def make_reranker(config):
    return OverlapReranker()

def make_llm(config):
    return ScriptedLLM(["Dan rotates the vault key on Monday [1]."] * 9)

def fail(config):
    raise RuntimeError("no licence")

def reverse(drivers):
    find = hybrid(drivers)
    return lambda query: find(query)[::-1]

def read_org(data, uri):
    return data.decode().replace("* ", "# ")

def open_store(address, collection):
    from tests.drivers import test_plugins
    return test_plugins.opened(address, collection)
"""
GROUPS = """
[clew.embedders]
mine = clew_mine:make_embedder
unlicensed = clew_mine:fail
bge-small = clew_mine:make_embedder
[clew.rerankers]
mine = clew_mine:make_reranker
[clew.llms]
mine = clew_mine:make_llm
[clew.strategies]
reverse = clew_mine:reverse
hybrid = clew_mine:reverse
[clew.readers]
.org = clew_mine:read_org
[clew.stores]
mine = clew_mine:open_store
"""
BROKEN = """
[clew.embedders]
gone = clew_broken:make
[clew.strategies]
gone = clew_broken:make
[clew.readers]
.gone = clew_broken:read
"""
opened: Callable[[str, str], BaseBackend]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a package with these entry points and this module on the path."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)

    def put(groups: str, module: str) -> None:
        name = re.findall(r"= (\w+):", groups)[0]
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(groups)
        (site / f"{name}.py").write_text(module)
        plugins._find_all.cache_clear()

    yield put
    plugins._find_all.cache_clear()
    sys.modules.pop("clew_mine", None)


def test_every_kind_of_part_is_known_by_its_name(install: Install, tmp_path: Path) -> None:
    install(GROUPS, MODULE)
    (tmp_path / "notes.org").write_text("* Network\nThe gateway listens on port 8080.\n")
    mine = Extensions(reranker="mine")
    with Engine.open(tmp_path / "a.clew", embedder="mine:large", llm="mine", extensions=mine) as engine:
        engine.add_documents([PAGE, Document("soup", "Soup is served at noon.")])
        engine.add(tmp_path / "notes.org")
        assert engine.status().dim == 64
        assert engine.search("gateway port", k=1)[0].chunk.headings == ("Network",)
        best = [hit.document.id for hit in engine.search("vault key", k=3)]
        assert [hit.document.id for hit in engine.search("vault key", k=3, strategy="reverse")] == best[::-1]
        assert "rerank" in engine.search("vault key", strategy="rerank")[0].scores
        assert engine.ask("who rotates the vault key?").text.startswith("Dan rotates the vault key on Monday")
        assert engine.strategies["hybrid"] is hybrid  # a plugin takes no name that is built in
    with Engine.open(":memory:", embedder="hashed", extensions=Extensions(strategies={"reverse": hybrid})) as own:
        assert own.strategies["reverse"] is hybrid


def test_a_store_is_opened_by_its_address(install: Install, tmp_path: Path) -> None:
    global opened
    open_backend = load_opener(None)
    opened = lambda address, collection: open_backend(tmp_path / address.partition("://")[2], collection)  # noqa: E731
    install(GROUPS, MODULE)
    with Engine.open("mine://somewhere", collection="one", embedder="hashed") as engine:
        engine.add_documents([PAGE])
    with Engine.open("mine://somewhere", collection="one", create=False) as again:
        assert again.search("vault key")[0].document.id == "keys"
    found = CliRunner().invoke(app, ["--path", "mine://somewhere", "--collection", "one", "search", "vault", "--json"])
    assert json.loads(found.stdout)["hits"][0]["document"]["id"] == "keys"
    with pytest.raises(SettingsError, match="cannot list or drop"):
        Engine.collections("mine://somewhere")


def test_a_broken_plugin_is_named_and_stops_nothing_else(install: Install, tmp_path: Path) -> None:
    install(GROUPS, MODULE)
    install(BROKEN, "import a_module_that_is_not_there")
    (tmp_path / "page.gone").write_text("Nobody reads this.")
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([PAGE])
        assert engine.search("vault")
        with pytest.raises(DriverMissing, match=r"the strategy 'gone' of clew-broken 1\.0 cannot be imported"):
            engine.search("vault", strategy="gone")
        (failed,) = engine.add(tmp_path / "page.gone").failed
        assert "the reader '.gone' of clew-broken 1.0 cannot be imported" in failed.reason
    for name, told in (
        ("gone", "uninstall clew-broken"),
        ("unlicensed", r"clew-mine 1\.0 cannot be made .*no licence"),
    ):
        with pytest.raises((DriverFailed, DriverMissing), match=told):
            Engine.open(":memory:", embedder=name)
    listed = {(each.setting, each.name, each.source): each.needs for each in list_models()}
    assert listed["embedder.name", "mine", "clew-mine 1.0"] == ""
    assert listed["reader", ".org", "clew-mine 1.0"] == ""
    assert "cannot be imported" in listed["embedder.name", "gone", "clew-broken 1.0"]
    assert listed["embedder.name", "bge-small", "clew-mine 1.0"] == "another name: 'bge-small' is built in"
    assert listed["embedder.name", "bge-small", "clew"] == ""


@pytest.mark.slow
def test_the_package_of_the_docs_is_installed_and_used(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text().partition("## A plugin")[2]
    project, module = re.findall(r"```(?:toml|python)\n(.*?)```", page, re.DOTALL)
    package, site = tmp_path / "clew-letters", tmp_path / "site"
    package.mkdir()
    build = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    (package / "pyproject.toml").write_text(project + build + '[tool.hatch.build.targets.wheel]\ninclude = ["*.py"]\n')
    (package / "clew_letters.py").write_text(module)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(package)], check=True)
    (tmp_path / "notes.org").write_text("* Network\nThe gateway listens on port 8080.\n")

    def run(*words: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(site), "CLEW_EMBEDDER__NAME": "letters"}
        command = [sys.executable, "-m", "clew", *words]
        return subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True, text=True).stdout

    assert run("add", "notes.org").startswith("1 added")
    assert "Network" in run("search", "gateway port")
    listed = {(each["name"], each["source"]): each["about"] for each in json.loads(run("models", "--json"))["models"]}
    assert listed["letters", "clew-letters 1.0"] == "counts of letters, to show how it is done"
    assert listed[".org", "clew-letters 1.0"] == "headings of Org files"
