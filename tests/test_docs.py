"""If it is shown, it runs: every Python block and every `$ clew` line of the README and the docs."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from clew.core.settings import DEFAULTS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path, kind: str) -> list[str]:
    return [body for name, body in FENCE.findall(page.read_text(encoding="utf-8")) if name == kind]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "examples" / "handbook", tmp_path / "handbook")
    shutil.copytree(ROOT / "examples" / "chat", tmp_path / "chat")
    shutil.make_archive(str(tmp_path / "slack-export"), "zip", ROOT / "examples" / "chat")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_EMBEDDER", "hashed")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.engine.DEFAULT_EMBEDDER", "hashed")
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), {"__name__": "__docs__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page: Path, workplace: Path) -> None:
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ clew "):
                words = shlex.split(line[2:], comments=True)[1:]
                done = subprocess.run(
                    [sys.executable, "-m", "clew", *words], capture_output=True, text=True, env=os.environ, check=False
                )
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    names = [
        f"{table.name}.{each.name}"
        for table in fields(DEFAULTS)
        if is_dataclass(getattr(DEFAULTS, table.name))
        for each in fields(getattr(DEFAULTS, table.name))
    ]
    assert [name for name in names if f"`{name}`" not in page] == []
    shown = re.findall(r"^\| `(\w+\.\w+)` \|", page, re.MULTILINE)
    assert sorted(shown) == sorted(names)


def test_every_target_the_readme_names_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^\$ make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
