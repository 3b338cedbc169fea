"""The pages that are followed from top to bottom run in order, and what the start pages show is what comes out."""

import shutil
from pathlib import Path

import pytest

from tests.docs_runner import PageRunner, normalise

ROOT = Path(__file__).parents[1]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("handbook", "chat"):
        shutil.copytree(ROOT / "examples" / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for name in ("ADA_KEY", "ACME_KEY", "GLOBEX_KEY", "IMPORTER_KEY"):
        monkeypatch.setenv(name, "")  # what the page sets is unset again
    return tmp_path


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "start").glob("*.md")), ids=lambda page: page.name)
def test_start_pages_show_what_comes_out(page: Path, workplace: Path) -> None:
    shown = PageRunner(page).run()
    assert shown
    for each in shown:
        assert normalise(each.expected) == normalise(each.printed), each.where


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "recipes").glob("*.md")), ids=lambda page: page.name)
def test_recipes_run(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_EMBEDDER", "hashed")
    monkeypatch.setenv("CLEW_RERANKER__NAME", "overlap")
    monkeypatch.setattr("clew.drivers.models.DEFAULT_EMBEDDER", "hashed")
    PageRunner(page).run()
