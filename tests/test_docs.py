"""If it is shown, it runs: every Python block and every `$ clew` line of the README and the docs, and every table that
repeats what the code says."""

import ast
import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

import clew
from benchmarks.__main__ import BENCHMARKS
from clew import Engine
from clew.core.settings import DEFAULTS
from clew.drivers.models import MODELS
from clew.query.search.strategies import STRATEGIES
from clew.surface.cli.app import app
from clew.surface.cli.errors import CITATIONS_INVALID, CODE_BY_ERROR, INTERRUPTED
from studies.__main__ import list_studies
from tests.surface.verb_table import VERBS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ORDERED = sorted((ROOT / "docs").glob("*/*.md"))  # tests/test_docs_pages.py runs them
PROSE = [*PAGES, *ORDERED, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def read_page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def find_blocks(page: Path, kind: str) -> list[str]:
    return [body for name, body in FENCE.findall(page.read_text(encoding="utf-8")) if name == kind]


def find_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "examples" / "handbook", tmp_path / "handbook")
    shutil.copytree(ROOT / "examples" / "chat", tmp_path / "chat")
    shutil.copy(ROOT / "examples" / "questions.jsonl", tmp_path)
    shutil.make_archive(str(tmp_path / "slack-export"), "zip", ROOT / "examples" / "chat")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_EMBEDDER", "hashed")
    monkeypatch.setenv("CLEW_RERANKER__NAME", "overlap")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.drivers.models.DEFAULT_EMBEDDER", "hashed")
    for block in find_blocks(page, "python"):
        exec(compile(block, page.name, "exec"), {"__name__": "__docs__"})


@pytest.mark.parametrize("page", [*PAGES, *ORDERED], ids=lambda page: page.name)
def test_python_blocks_import_public_names_only(page: Path) -> None:
    for block in find_blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not re.match(r"clew\.(?!evaluation$|integrations\.)", node.module), node.module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(page: Path, workplace: Path) -> None:
    for block in find_blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ clew "):
                words = shlex.split(line[2:], comments=True)[1:]
                done = CliRunner().invoke(app, words)
                assert done.exit_code == 0, f"{line}\n{done.output}{done.exception}"


def test_every_setting_is_documented_with_its_default() -> None:
    shown = re.findall(r"^\| `(\w+\.\w+)` \| (.*?) ?\|", read_page("docs/settings.md"), re.MULTILINE)
    expected = [
        (f"{table.name}.{setting.name}", format_default(getattr(getattr(DEFAULTS, table.name), setting.name)))
        for table in fields(DEFAULTS)
        for setting in fields(getattr(DEFAULTS, table.name))
    ]
    assert sorted(shown) == sorted(expected)


def format_default(value: object) -> str:
    if value is None or value == ():
        return ""
    return str(value).lower() if isinstance(value, bool) else f"{value:.9g}" if isinstance(value, float) else str(value)


def test_the_table_of_verbs_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (yes|) ?\| (yes|) ?\|", read_page("docs/cli.md"), re.MULTILINE)
    assert rows == [
        (verb, "yes" if "python" in surfaces else "", "yes" if "cli" in surfaces else "")
        for verb, surfaces in VERBS.items()
    ]


def test_the_table_of_exit_codes_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| .+ \|$", read_page("docs/cli.md"), re.MULTILINE)
    assert list(map(int, rows)) == sorted({0, 1, CITATIONS_INVALID, INTERRUPTED, *CODE_BY_ERROR.values()})


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_is_exported_and_in_every_list(name: str) -> None:
    assert hasattr(clew, name)
    for page in ("docs/search.md", "docs/strategies.md"):
        assert f"\n| `{name}`" in read_page(page), page
    assert f"`{name}`" in next(
        line for line in read_page("docs/settings.md").splitlines() if "`search.strategy` |" in line
    )
    assert re.search(rf"\b{name}: \"", read_page("web/src/parts/Tune.svelte"))


def test_every_model_is_in_the_docs() -> None:
    names = [each.name for group, models in MODELS.items() if group != "llms" for each in models]
    missing = {
        page: [name for name in names if f"`{name}`" not in read_page(page)]
        for page in ("docs/models.md", "docs/settings.md")
    }
    assert missing == {"docs/models.md": [], "docs/settings.md": []}


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    return script


def test_the_api_reference_is_current() -> None:
    page = load_script("api_reference").render_page()
    assert read_page("docs/api.md") == page, "docs/api.md is not current; run `make docs`"


def test_the_tables_of_settings_are_current() -> None:
    script = load_script("settings_reference")
    page = read_page("docs/settings.md")
    assert page == script.render_page(page), "docs/settings.md is not current; run `make docs`"
    row = "| `search.k` | 5 | Number of hits. |\n"
    other = page.replace(row, "| `search.k` | 6 | How many. |\n| `search.gone` | 1 | Gone. |\n")
    assert script.render_page(other) == page.replace("Number of hits.", "How many.")
    commented = "| `search.candidates` | 20 | Minimum number of hits that are re-ranked. |\n"
    without = re.sub(r"\| `search\.candidates` .*\n", "", page)
    assert commented in script.render_page(without)


def test_the_ten_settings_that_matter_are_shown_with_their_defaults() -> None:
    text = read_page("docs/settings.md").partition("## The ten")[2].partition("\n## ")[0]
    shown = re.findall(r"^\d+\. `(\w+)\.(\w+)` \((.+?)\)", text, re.MULTILINE)
    assert len(shown) == 10
    for table, name, default in shown:
        value = format_default(getattr(getattr(DEFAULTS, table), name))
        assert default == (value or {"embedder": "bge-small", "llm": "none"}[table]), f"{table}.{name}"


def test_every_extra_is_documented() -> None:
    extras = set(tomllib.loads(read_page("pyproject.toml"))["project"]["optional-dependencies"])
    rows = re.findall(r"^\| (`.+?) \|", read_page("docs/install.md"), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == extras
    for page in PROSE:
        for named in re.findall(r"(?:clew|\.)\[([\w,-]+)\]", page.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= extras, f"{page.name}: {named}"


def test_every_behaviour_has_a_module_and_a_test() -> None:
    rows = re.findall(r"^\| .+ \| `(\S+)` \| `(\S+)` \|$", read_page("docs/behaviours.md"), re.MULTILINE)
    assert len(rows) > 60
    for module, test in rows:
        assert (ROOT / "src" / "clew" / module).is_file(), module
        assert (ROOT / "tests" / test).is_file(), test


def test_contributing_shows_every_folder_of_the_package() -> None:
    layout = next(block for block in find_blocks(ROOT / "CONTRIBUTING.md", "text") if block.startswith("src/clew/"))
    package = ROOT / "src" / "clew"
    folders = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    modules = {path.name for path in package.glob("[!_]*.py")}
    assert set(re.findall(r"^  (\S+)", layout, re.MULTILINE)) == folders | modules
    assert all((ROOT / folder).is_dir() for folder in re.findall(r"^(\w+)/ ", layout, re.MULTILINE))


def test_every_make_target_that_is_named_exists() -> None:
    makefile = read_page("Makefile")
    for page in PROSE:
        for target in re.findall(r"(?:`|\$ )make ([a-z]+)", page.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    folders = [ROOT / name for name in ("", "src/clew", "src/clew/index", "src/clew/surface")]
    for name in re.findall(r"`((?!build/)(?:\w+/)+[\w.-]*)`", read_page(page)):
        assert any((folder / name).exists() for folder in folders), f"{page}: {name}"


def test_every_study_and_benchmark_that_is_named_exists() -> None:
    studies = {*list_studies(), "NAME"}
    for page in PROSE:
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r'make study\s+ARGS="?(\w+)', text)) <= studies, page.name
        assert set(re.findall(r'make bench\s+ARGS="?([\w-]+)', text)) <= {*BENCHMARKS, "NAME"}, page.name


@pytest.mark.parametrize("page", PROSE, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_every_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", text):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in find_anchors(file), f"{target}#{anchor}"


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"^\d+\. \[.+?\]\(([\w/-]+\.md)\)", read_page("docs/index.md"), re.MULTILINE))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert listed == pages - {"index.md"}


def test_every_verb_has_a_how_to() -> None:
    page = read_page("docs/verbs.md")
    rows = re.findall(r"^\| \[.+?\]\(#([\w-]+)\) \| (.+) \|$", page, re.MULTILINE)
    sections = {
        re.sub(r"\W+", "-", title.lower()): "".join(body for _, body in FENCE.findall(text)).replace("-", "_") + text
        for title, text in re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    }
    named = [(verb, anchor) for anchor, verbs in rows for verb in re.findall(r"`(\w+)`", verbs)]
    assert sorted(verb for verb, _ in named) == sorted(VERBS)
    for verb, anchor in named:
        assert re.search(rf"(?:clew |\b){verb}\b", sections[anchor]), f"{verb} is not shown under #{anchor}"


@pytest.mark.slow
def test_the_question_of_the_readme_is_answered_by_the_samples() -> None:
    readme = read_page("README.md")
    (question,) = set(re.findall(r'engine\.ask\("([^"]+)"\)', readme))
    with Engine.open(":memory:") as engine:
        engine.add(ROOT / "examples" / "handbook" / "security", ROOT / "examples" / "handbook" / "engineering")
        first = engine.search(question)[0]
        answer = engine.ask(question)
    assert first.document.title == "Key rotation"
    assert first.relevance > 0.5
    assert answer.found
    assert answer.text.startswith('Use `reason="suspected"`')
