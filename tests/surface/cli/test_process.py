"""The command line as a process: what it imports, what a terminal and a closed pipe get."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.surface.cli.conftest import Clew

HEAVY = (
    "numpy",
    "pydantic",
    "pydantic_core",
    "onnxruntime",
    "tokenizers",
    "yaml",
    "Stemmer",
    "sqlite3",
    "clew.engine",
    "clew.core.types",
)


def clean_env() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    return {**kept, "CLEW_EMBEDDER__NAME": "hashed", "COLUMNS": "100"}


def test_help_imports_nothing_heavy() -> None:
    program = f"""
import sys
from clew.surface.cli.app import app
code = app(["--help"], standalone_mode=False)
print([name for name in {HEAVY!r} if name in sys.modules], code, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=clean_env())
    assert done.stderr.strip().endswith("[] 0")


def test_a_search_imports_only_its_own_command(collection: Path) -> None:
    program = """
import sys
from clew.surface.cli.app import app
app(["search", "who rotates the keys?"], standalone_mode=False)
commands = [name for name in sys.modules if name.startswith("clew.surface.cli.commands.")]
needless = {"clew.surface.to_json", "clew.core.window", "tomllib", "fasttext"}
print(commands, sorted(needless & set(sys.modules)), file=sys.stderr)
"""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=collection, capture_output=True, text=True, check=True, env=clean_env())
    assert done.stderr.splitlines()[-1] == "['clew.surface.cli.commands.questions'] []"


def test_as_a_module(collection: Path) -> None:
    words = [sys.executable, "-m", "clew", "search", "who rotates the keys?", "-k", "1"]
    done = subprocess.run(words, cwd=collection, capture_output=True, text=True, check=True, env=clean_env())
    assert done.stdout.startswith("1. ")
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_closed_pipe_is_quiet(collection: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        words = [sys.executable, "-m", "clew", "list"]
        done = subprocess.run(words, cwd=collection, stdout=writer, stderr=subprocess.PIPE, text=True, env=clean_env())
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_gets_colour_and_a_pipe_does_not(collection: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    env = {**clean_env(), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    words = [sys.executable, "-m", "clew", "search", "who rotates the keys?", "-k", "1"]
    process = subprocess.Popen(words, cwd=collection, stdout=theirs, stderr=subprocess.PIPE, env=env)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux says so when the other end is closed
        pass
    finally:
        os.close(ours)
    _, err = process.communicate()
    assert process.returncode == 0
    assert b"\x1b" not in err  # a pipe
    assert b"\x1b[1;33mkeys\x1b[0m" in shown


SLOW_MODEL = """
import pathlib, time
from clew.drivers.embed.hashed import HashedEmbedder
made, calls = HashedEmbedder.embed, []
def embed(self, texts, *, role):
    calls.append(texts)
    if len(calls) > 1:
        pathlib.Path("waiting").touch()
        time.sleep(600)
    return made(self, texts, role=role)
HashedEmbedder.embed = embed
"""  # it answers the first call, and not the second


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_an_interrupt_ends_an_add_at_once_and_keeps_what_it_made(fresh: Clew) -> None:
    for number in range(150):
        Path("pages", f"{number}.md").write_text(f"# Page {number}\n\nThe gauge {number} is read at noon.")
    Path("slow").mkdir()
    Path("slow", "sitecustomize.py").write_text(SLOW_MODEL)
    env = {**clean_env(), "PYTHONPATH": os.pathsep.join(["slow", os.environ.get("PYTHONPATH", "")])}
    words = [sys.executable, "-m", "clew", "add", "pages"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as work:
        try:
            while not Path("waiting").exists():
                assert work.poll() is None, work.stderr and work.stderr.read()
                time.sleep(0.05)
            while "an add is at work" not in (status := fresh("status").out):
                time.sleep(0.05)
            assert "64 of 156 chunks are searchable by meaning, the others by words; an add is at work" in status
            assert "backfill" not in status
            work.send_signal(signal.SIGINT)
            _, err = work.communicate(timeout=30)  # the model would take ten minutes
        finally:
            work.kill()
    assert work.returncode == 130, err
    told = "64 of 156 chunks are searchable by meaning, the others by words; `clew backfill` makes their vectors"
    assert f"interrupted; everything finished until now is saved; {told}" in err
    assert "64 of 156 chunks" in fresh("status").out
    assert "`clew backfill` makes their vectors" in fresh("status").out
    assert "92 embedded" in fresh("backfill").out
    assert "pending" not in fresh("status").out


@pytest.mark.slow
def test_watch_keeps_a_folder_in_step(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "one.md").write_text("The first page.", encoding="utf-8")
    command = [sys.executable, "-m", "clew", "--path", str(tmp_path / "c"), "add", str(folder), "--watch", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean_env()
    ) as work:
        assert work.stdout is not None
        assert json.loads(work.stdout.readline())["added"]
        (folder / "two.md").write_text("The second page.", encoding="utf-8")
        assert json.loads(work.stdout.readline())["added"]
        (folder / "one.md").unlink()
        assert json.loads(work.stdout.readline())["dropped"] == 1
        work.send_signal(signal.SIGINT)
        assert work.wait(timeout=20) == 130
