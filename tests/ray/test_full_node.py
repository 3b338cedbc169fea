"""A cluster of two nodes, on one of which no file can be written: the command line says so, and nothing is lost."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from clew import Engine
from tests.ray.conftest import BUSY_MS, list_rows, list_words

pytestmark = [
    pytest.mark.timeout(900),  # a machine that is busy starts two nodes slowly
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.skipif(sys.platform == "win32", reason="limits of files are POSIX"),
]
# A longer file cannot be written, as on a full disk; Python reads this at its start.
LIMIT = """
import resource

resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
"""


@pytest.fixture
def half_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of two nodes of one core each; the processes of the second cannot write files of more than 4 KiB."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_health_check_timeout_ms", BUSY_MS)
    from ray.cluster_utils import Cluster

    limited = tmp_path / "limited"
    limited.mkdir()
    (limited / "sitecustomize.py").write_text(LIMIT)
    common = {"num_cpus": 1, "node_ip_address": "127.0.0.2", "object_store_memory": 100 << 20}
    with TemporaryDirectory(prefix="r") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        (Path(folder) / "ray").mkdir()
        made = Cluster(initialize_head=True, head_node_args={**common, "include_dashboard": False, "temp_dir": folder})
        try:
            path = os.pathsep.join([str(limited), *filter(None, [os.environ.get("PYTHONPATH")])])
            made.add_node(**common, env_vars={"PYTHONPATH": path})
            made.wait_for_nodes()
            yield made
        finally:
            made.shutdown()


def test_a_full_disk_on_one_node_is_said_and_the_next_run_finishes(pages: Path, tmp_path: Path, half_full: Any) -> None:
    place = f"lance://{tmp_path}/lake"
    own = ["--path", place, "--embedder", "hashed", "--collection", "b"]
    command = [sys.executable, "-m", "clew", *own, "add", str(pages), "--ray", half_full.address]
    # In a process of its own: Ray ends the process of a driver whose node has stopped answering.
    stopped = subprocess.run(command, capture_output=True, text=True, check=False)
    assert stopped.returncode == 6, stopped.stderr
    (line,) = [line for line in stopped.stderr.splitlines() if line.startswith("clew: ")]
    assert "the disk is full" in line
    assert "make room and try again; nothing was half written" in line
    assert f"(on the Ray node {platform.node()}; what is stored stays)" in line
    assert "Traceback" not in stopped.stdout + stopped.stderr
    (full,) = half_full.worker_nodes
    half_full.remove_node(full)
    with (
        Engine.open(place, collection="a", embedder="hashed") as whole,
        Engine.open(place, collection="b", embedder="hashed") as shared,
    ):
        whole.add(pages)
        expected = list_rows(whole)
        assert list_words(shared).items() < list_words(whole).items()
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        assert list_words(shared) == list_words(whole)
        shared.backfill()  # what the lost node had claimed waits until its claim is over
        assert list_rows(shared) == expected
