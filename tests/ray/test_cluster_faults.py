"""Faults of a Ray cluster of three nodes: a node or the driver is killed, and nothing is lost or there twice.

They take minutes, most of them to start Ray, so only `make soak` runs them.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import sleep
from typing import Any

import pytest

from clew import Embedder, Engine, Progress
from tests.ray.conftest import BUSY_MS, list_rows, make_pages

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not os.environ.get("CLEW_SOAK"), reason="takes minutes: make soak"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]
OpenCollection = Callable[..., Engine]
PAGES = 320  # ten shares

# A driver that adds the folder with a slow embedder and prints how far it is.
DRIVER = """
import sys
from time import sleep
from clew import Engine
from clew.drivers.embed.hashed import HashedEmbedder

class Slow(HashedEmbedder):
    def embed(self, texts, *, role):
        sleep(0.5)
        return super().embed(texts, role=role)

with Engine.open(sys.argv[1], collection="b", embedder=Slow()) as engine:
    engine.add_distributed(
        sys.argv[2], address=sys.argv[3], workers=3,
        on_progress=lambda each: print(each.stage, each.done, flush=True),
    )
"""


def make_slow_embedder() -> Embedder:
    """The hashed embedder, half a second a call; its class is sent to the workers, since they cannot import it."""
    from clew.drivers.embed.hashed import HashedEmbedder

    class Slow(HashedEmbedder):
        def embed(self, texts: Any, *, role: Any) -> Any:
            sleep(0.5)
            return super().embed(texts, role=role)

    return Slow()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of three nodes of one core each, on loopback."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_health_check_timeout_ms", BUSY_MS)
    from ray.cluster_utils import Cluster

    # Ray takes 127.0.0.1 for the machine's other address, which no test may reach.
    common = {"num_cpus": 1, "node_ip_address": "127.0.0.2", "object_store_memory": 100 << 20}
    with TemporaryDirectory(prefix="r") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)  # where it writes the address of the cluster
        (Path(folder) / "ray").mkdir()
        head = {
            **common,
            "include_dashboard": False,
            "temp_dir": folder,
        }
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(2):
                made.add_node(**common)
            made.wait_for_nodes()
            yield made
        finally:
            made.shutdown()


def test_a_node_that_is_killed_loses_nothing_and_nothing_is_there_twice(
    open_collection: OpenCollection, tmp_path: Path, cluster: Any
) -> None:
    pages = make_pages(tmp_path / "pages", PAGES)
    whole, shared = open_collection("a"), open_collection("b", embedder=make_slow_embedder())
    whole.add(pages)
    killed = Event()

    def kill_a_node(progress: Progress) -> None:
        if progress.stage == "adding" and progress.done >= PAGES // 4 and not killed.is_set():
            killed.set()
            cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)

    report = shared.add_distributed(pages, address=cluster.address, workers=3, on_progress=kill_a_node)
    assert killed.is_set()
    assert (len(report.added), len(set(report.added)), report.failed) == (PAGES, PAGES, ())
    assert list_rows(shared) == list_rows(whole)


def test_a_driver_that_is_killed_goes_on_with_the_next_call(
    open_collection: OpenCollection, postgres: str, tmp_path: Path, cluster: Any
) -> None:
    pages = make_pages(tmp_path / "pages", PAGES)
    whole = open_collection("a")
    whole.add(pages)
    command = [sys.executable, "-c", DRIVER, postgres, str(pages), cluster.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            stage, done = line.split()
            if stage == "adding" and int(done) >= PAGES // 4:
                os.kill(driver.pid, signal.SIGKILL)
                break
    shared = open_collection("b", embedder=make_slow_embedder())
    stored = shared.status().documents
    assert PAGES // 4 <= stored < PAGES
    report = shared.add_distributed(pages, address=cluster.address, workers=3)
    assert len(report.added) <= PAGES - stored
    assert len(report.added) + report.skipped == PAGES
    assert list_rows(shared) == list_rows(whole)
