"""Every study that reads a set reports a missing one in one line."""

import runpy
import sys
from pathlib import Path

import pytest

STUDIES = ("locomo", "window", "untangling", "topics", "strategies", "contexts", "reranking")


@pytest.mark.parametrize("study", STUDIES)
def test_a_missing_set_is_said_in_a_line(study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [study, "--data", str(tmp_path)])
    for name in (f"studies.{study}", f"studies.{study}.__main__"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # another test may have imported it
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"studies.{study}", run_name="__main__", alter_sys=True)
    said = str(ended.value.code)
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    assert str(tmp_path) in said
