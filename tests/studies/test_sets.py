"""Every study that reads a set reports a missing one in one line."""

import runpy
from pathlib import Path

import pytest

STUDIES = ("locomo", "window", "untangling", "topics", "strategies", "contexts", "reranking")


@pytest.mark.parametrize("study", STUDIES)
def test_a_missing_set_is_said_in_a_line(study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [study, "--data", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"studies.{study}", run_name="__main__", alter_sys=True)
    said = str(ended.value.code)
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    assert str(tmp_path) in said
