"""The locks and the extras: pip alone sets up an environment, and an extra brings all that its commands need."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import httpx2
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def find_needs(roots: Iterable[str]) -> dict[str, set[str]]:
    """Find the packages that these need here, themselves included, each with the extras that it is asked for with."""
    found: dict[str, set[str]] = {}
    waiting = [(Requirement(each), {""}) for each in roots]
    while waiting:
        need, extras = waiting.pop()
        name = canonicalize_name(need.name)
        is_known = name in found and need.extras <= found[name]
        if is_known or not (need.marker is None or any(need.marker.evaluate({"extra": each}) for each in extras)):
            continue
        found.setdefault(name, set()).update(need.extras)
        waiting += [(Requirement(each), {"", *need.extras}) for each in requires(name) or ()]
    return found


def read_lock(name: str) -> list[tuple[str, set[str], str]]:
    """Read the packages of a lock: of each the name, the extras, and its lines."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    found = re.finditer(r"^([\w.-]+)(?:\[(.+?)\])?==.*\n(?:[ #].*\n)*", text, re.MULTILINE)
    return [(each[1], set(re.findall(r"[\w-]+", each[2] or "")), each[0]) for each in found]


@pytest.mark.parametrize(
    ("lock", "roots"),
    [
        (
            "dev.txt",
            [f"clew[{','.join(PROJECT['project']['optional-dependencies'])}]", *PROJECT["dependency-groups"]["dev"]],
        ),
        ("run.txt", ["clew[fast]"]),
    ],
)
def test_a_lock_names_the_extras_that_are_asked_for(lock: str, roots: list[str]) -> None:
    needs = find_needs(roots)
    del needs["clew"]
    locked = {name: extras for name, extras, _ in read_lock(lock)}
    assert needs.keys() <= locked.keys()
    # In its hash mode pip takes `name[extra]` for another package than `name`, and one that is not pinned.
    assert {name: extras for name, extras in needs.items() if not extras <= locked[name]} == {}


@pytest.fixture(scope="module")
def server_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that pip has made from a lock of no more than the extra `server` needs."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    # Those that build the project, and one that asks for another with an extra.
    needs = find_needs(["clew[server]", "hatchling", "editables", "pytest-cov"])
    (folder / "requirements").mkdir()
    (folder / "requirements" / "dev.txt").write_text(
        "".join(text for name, _, text in read_lock("dev.txt") if name in needs)
    )
    (folder / "requirements" / "weights.txt").touch()
    run("sh", "scripts/setup.sh", cwd=folder, INSTALLER="pip", PYTHON=sys.executable)
    return folder / ".venv" / "bin"


def make_environment(**variables: str) -> dict[str, str]:
    """The environment of a program outside of this one."""
    return {**{name: text for name, text in os.environ.items() if name != "PYTHONPATH"}, **variables}


def run(*command: Any, cwd: Path, **variables: str) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=make_environment(**variables), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_the_extra_server_is_all_that_serving_needs(server_alone: Path, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Vault\n\nDan rotates the vault key on Monday.\n")
    clew = server_alone / "clew"
    run(clew, "--embedder", "hashed", "add", "page.md", cwd=tmp_path)
    with subprocess.Popen(
        [clew, "--embedder", "hashed", "serve", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=make_environment(),
    ) as server:
        try:
            assert server.stdout is not None
            shown = json.loads(server.stdout.readline())
            found = httpx2.post(f"{shown['address']}/v1/search", json={"query": "vault key"}, timeout=60)
            assert [hit["document"]["uri"] for hit in found.json()["hits"]] == ["page.md"]
            refused = httpx2.post(f"{shown['address']}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            assert (shown["mcp"], refused.status_code) == (False, 501)
            assert refused.json()["error"]["message"] == "this server has no MCP; pip install 'clew[mcp]' adds it"
        finally:
            server.kill()
