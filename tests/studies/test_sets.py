"""Every study that reads a set reports a missing one in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

STUDIES = ("locomo", "window", "untangling", "topics", "strategies", "contexts", "reranking")


@pytest.mark.parametrize("study", STUDIES)
def test_a_missing_set_is_said_in_a_line(study: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"studies.{study}", "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert str(tmp_path) in done.stderr
