"""The labels in the front matter of a page: who sees it, and what is refused because nobody can tell."""

from pathlib import Path

import pytest

from clew import Engine, Filter

BODY = "# Pay\n\nThe winch crew is paid on Friday.\n"


def list_readers(tmp_path: Path, text: str) -> set[str]:
    """Those of three readers who find a page of this text; FAILED if it is refused."""
    (tmp_path / "pay.md").write_text(text)
    with Engine.open(":memory:", embedder="hashed") as engine:
        report = engine.add(tmp_path / "pay.md")
        if report.failed:
            assert "names who may see it (access)" in report.failed[0].reason
            assert not list(engine.list())
            return {"FAILED"}
        assert "access" not in engine.read(next(iter(engine.list())).id).text
        return {
            label
            for label in ("hr", "board", "guest")
            if engine.search("winch crew", where=Filter(access=frozenset({label})))
        }


@pytest.mark.parametrize(
    ("front", "readers"),
    [
        ("---\naccess: hr, board\n---\n", {"hr", "board"}),
        ("---\naccess: hr ,\n---\n", {"hr"}),
        ("---\naccess: [hr, board]\n---\n", {"hr", "board"}),
        ("---\naccess: hr\n---\n", {"hr"}),
        ("---\naccess: []\n---\n", set()),
        ("---\naccess:\n---\n", {"FAILED"}),
        ("---\naccess: ''\n---\n", {"FAILED"}),
        ("---\naccess: ','\n---\n", {"FAILED"}),
        ("---\naccess: [~]\n---\n", {"FAILED"}),
        ("---\naccess: {hr: yes}\n---\n", {"FAILED"}),
        ("\n---\naccess: hr\n---\n", {"hr"}),
        (" \n\t\n---\naccess: hr\n---\n", {"hr"}),
        ("\n---\naccess: [hr\n---\n", {"FAILED"}),
        ("\n---\nowner: ann\n---\n", {"hr", "board", "guest"}),
        ("---\ntitle: Pay\n---\n", {"hr", "board", "guest"}),
        ("---\naccess: [hr]\n", {"FAILED"}),  # without the line that ends it
        ("---\naccess: [hr]\n\n", {"FAILED"}),
        ("\n---\ntitle: Pay\n\nAccess:\n- hr\n", {"FAILED"}),
        ("---\ntitle: Pay\ntags: [\n  a,\n]\n'access': hr\n\n", {"FAILED"}),
    ],
)
def test_labels_of_a_page(tmp_path: Path, front: str, readers: set[str]) -> None:
    assert list_readers(tmp_path, front + BODY) == readers
