"""Runs the blocks of a page of the documentation in order, in one folder, as its reader would.

`console`: each `$ clew` line is run, and what the page shows below it is compared. `python` is run; a `text` block
right after it is what it printed. `sh`: each curl line is run. `jsonl` is written to the file that the line before
names. A `text` block that begins with `$ clew serve`, with or without options, starts a server, whose address replaces
127.0.0.1:8080 from there on.
"""

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from clew.surface.cli.app import app

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ADDRESS = "127.0.0.1:8080"


@dataclass
class Shown:
    """What a page shows, and what came out, with what may differ between machines replaced."""

    where: str
    expected: str
    printed: str


class PageRunner:
    """The state of a page that runs: its server, and what it showed so far."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.shown: list[Shown] = []
        self.server: subprocess.Popen[str] | None = None
        self.address = ADDRESS

    def run(self) -> list[Shown]:
        """Runs all blocks, and ends the server."""
        text = self.page.read_text(encoding="utf-8")
        printed: str | None = None
        try:
            for match in BLOCK.finditer(text):
                kind, body = match.groups()
                before = text[: match.start()].rstrip().splitlines()[-1]
                if kind == "text" and printed is not None:
                    self.shown.append(Shown(self.page.name, body, printed))
                printed = self.run_block(kind, body, before)
        finally:
            if self.server is not None:
                self.server.send_signal(signal.SIGTERM)
                self.server.communicate(timeout=30)
        return self.shown

    def run_block(self, kind: str, body: str, before: str) -> str | None:
        """What a Python block printed; None for the others."""
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body.replace(ADDRESS, self.address), self.page.name, "exec"), {"__name__": "__docs__"})
            return out.getvalue()
        if kind == "jsonl" and (name := re.search(r"`(\S+\.jsonl)`", before)):
            Path(name[1]).write_text(body, encoding="utf-8")
        elif kind == "console":
            for command, expected in split_console(body):
                self.shown.append(Shown(command, expected, run_clew(command)))
        elif kind == "sh":
            self.run_curl(body)
        elif kind == "text" and re.match(r"\$ clew (.+ )?serve\b", body):
            self.serve(body.splitlines()[0])
        return None

    def run_curl(self, body: str) -> None:
        """Runs the curl lines of a block."""
        for line in body.replace("\\\n", " ").splitlines():
            if line.startswith("curl "):
                line = line.replace("localhost:8080", self.address).replace("curl ", "curl --fail-with-body ")
                done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def serve(self, command: str) -> None:
        """Starts the server of the page on a free port."""
        words = [sys.executable, "-m", "clew", *shlex.split(command, comments=True)[2:], "--port", "0"]
        self.server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.server.stdout is not None
        seen = []
        for line in self.server.stdout:
            seen.append(line)
            if found := re.search(r"http://(127\.0\.0\.1:\d+)", line):
                self.address = found[1]
                return
        raise AssertionError("".join(seen))


def split_console(body: str) -> Iterator[tuple[str, str]]:
    """The `$ clew` commands of a block, each with the lines below it."""
    for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE):
        command, _, expected = part.partition("\n")
        if command.startswith("$ clew "):
            yield command, expected


def run_clew(command: str) -> str:
    """What a command prints; a key that it makes goes into the environment, as ADA_KEY."""
    words = shlex.split(command[2:], comments=True)[1:]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, f"{command}\n{done.output}{done.exception}"
    if words[:2] == ["keys", "add"] and (key := re.search(r"clew_[\w.-]+", done.output)):
        os.environ[f"{words[2].upper()}_KEY"] = key[0]
    return done.output


def normalise(text: str) -> str:
    """A text without progress and times, and without the numbers that differ between processors."""
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith(("adding: ", "embedding: "))]
    joined = "\n".join(lines).strip()
    return re.sub(r"; [\d.]+ m?s$", "", re.sub(r"\b\d\.\d\d\b", "0.NN", joined), flags=re.MULTILINE)
