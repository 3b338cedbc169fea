"""Processes that write one collection at once, or are killed: nothing is lost, nothing is there twice or by half."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.azure_server import AZURITE
from tests.drivers.store.lance import work
from tests.soak import choose_runs

WRITERS = 4
ONLY_LONG = [pytest.mark.soak, pytest.mark.skipif(not choose_runs(0, 1), reason="takes long: make soak")]
ON_AZURE = [*ONLY_LONG, pytest.mark.skipif(AZURITE is None, reason="Azurite is not installed")]


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder in memory where there is such a thing."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


class Launcher:
    """Starts writers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._stdin, self._stdout = process.stdin, process.stdout

    def start(self, address: str, said: Path, writer: str, turns: int) -> int:
        """The process id of a new writer."""
        return self._ask(f"{address} {said} {writer} {turns}")

    def wait(self) -> int:
        """The status of the next writer that ends."""
        return self._ask("")

    def _ask(self, line: str) -> int:
        self._stdin.write(f"{line}\n")
        self._stdin.flush()
        return int(self._stdout.readline())


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """What starts writers; the modules that they need are loaded once."""
    command = [sys.executable, work.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Launcher(process)
        assert process.stdin
        process.stdin.close()


def check_whole(address: str) -> dict[str, str]:
    """Fails unless every document is whole and there once; the version of each."""
    store = work.open_store(address)
    records = list(store.documents())
    versions = {}
    for record in records:
        texts = [chunk.text for chunk in store.chunks(record.id)]
        versions[record.id] = texts[0].split()[-1]
        assert texts == store.document(record.id).text.split("\n")
        assert [text.split()[-1] for text in texts] == [versions[record.id]] * work.CHUNKS
    stats = store.stats()
    assert len({record.id for record in records}) == len(records) == stats.documents
    assert stats.chunks == work.CHUNKS * len(records) == sum(1 for _ in store.scan())
    found = store.search_terms({"part0": 1}, 100)
    assert {hit.document.id for hit in found} == set(versions)
    assert len(found) == len(versions)
    store.close()
    return versions


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
@pytest.mark.parametrize("kind", ["folder", pytest.param("s3", marks=ONLY_LONG), pytest.param("azure", marks=ON_AZURE)])
def test_processes_write_the_same_documents_at_once(
    kind: str, root: Path, launcher: Launcher, request: pytest.FixtureRequest
) -> None:
    address = f"lance://{root}" if kind == "folder" else request.getfixturevalue(kind)
    turns = choose_runs(1, 8)
    for n in range(WRITERS):
        launcher.start(address, root / f"said{n}", f"w{n}", turns)
    assert [launcher.wait() for _ in range(WRITERS)] == [0] * WRITERS
    versions = check_whole(address)
    assert set(versions) == {f"d{n}" for n in range(6)}
    assert all(version.endswith(f"v{turns - 1}") for version in versions.values())
    store = work.open_store(address)
    assert store.change_number() == WRITERS * turns * 6  # each put was one commit, and none was lost
    store.close()


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
@pytest.mark.parametrize("kind", ["folder", pytest.param("s3", marks=ONLY_LONG)])
def test_no_kill_loses_a_document_or_leaves_a_half(
    kind: str, root: Path, launcher: Launcher, request: pytest.FixtureRequest
) -> None:
    address, rng = request.getfixturevalue("s3") if kind == "s3" else f"lance://{root}", random.Random(23)
    for trial in range(choose_runs(2, 100)):
        said = root / f"said{trial}"
        process = launcher.start(address, said, f"k{trial}", 1000)
        while not said.exists():
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.4))
        os.kill(process, signal.SIGKILL)
        assert launcher.wait() == signal.SIGKILL
        lines = [line.split() for line in said.read_text().split("\n")[1:-1]]
        versions = check_whole(address)
        for number, version in dict(lines).items():
            turn = int(version.partition("v")[2])
            stored = versions[f"d{number}"]
            assert stored in (version, f"k{trial}v{turn + 1}"), "what was said to be stored, or what came after it"
