"""The page of the server is true: its curl examples run, and its table of paths is that of the code."""

import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

from clew import Client
from clew.core.requests import list_requests
from tests.surface.server.conftest import serving
from tests.surface.verb_table import VERBS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.slow
def test_every_curl_example_runs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "handbook", tmp_path / "handbook")
    shutil.copytree(ROOT / "examples" / "chat", tmp_path / "chat")
    (block,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    commands = block.replace("\\\n", " ").splitlines()
    assert len(commands) > 20
    with serving(tmp_path / "store") as running, Client(running.address) as client:
        for command in commands:
            line = command.replace("localhost:8080", running.address).replace("curl ", "curl --fail-with-body ")
            done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            assert done.stdout
            while "find " in command and any(job["state"] in ("queued", "running") for job in client.jobs()):
                time.sleep(0.05)
        assert next(job["message"] for job in client.jobs()) == "65 added"
        assert not any(job["failed"] for job in client.jobs())


def test_every_extra_is_listed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`[^|]+`) \|", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    assert set(extras) <= {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_table_of_paths_has_every_verb() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|(.*)\|$", PAGE, re.MULTILINE)
    assert {verb for verb, _, _ in rows} == {verb for verb, surfaces in VERBS.items() if "http" in surfaces}
    told = {verb: paths for verb, paths, _ in rows}
    for each in list_requests():
        if each.verb in told:
            assert f"{each.method} {each.path}" in told[each.verb], each
    assert {verb for verb, _, tool in rows if tool.strip()} == {
        verb for verb, surfaces in VERBS.items() if "mcp" in surfaces
    }
