"""The uris of files: from wherever they are named, and of many files as of one."""

from pathlib import Path

import pytest

from clew.index.walk.uri import FileUris, make_file_uri


def test_the_uris_of_many_files_are_those_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "pages" / "deep", outside):
        folder.mkdir(parents=True)
        for name in ("a.md", "b c.md", "ü.md"):
            (folder / name).write_text("Keys.")
    (root / "linked").symlink_to(outside)
    (root / "pages" / "link.md").symlink_to(outside / "a.md")
    (root / "pages" / "broken.md").symlink_to(outside / "gone.md")
    (root / "top.md").write_text("Keys.")
    monkeypatch.chdir(root)
    expected: dict[str | Path, str] = {
        "top.md": "top.md",
        root / "top.md": "top.md",
        "pages/deep/a.md": "pages/deep/a.md",
        "pages/deep/ü.md": "pages/deep/ü.md",
        "pages/../pages/deep/b c.md": "pages/deep/b c.md",
        "linked/a.md": (outside / "a.md").as_posix(),
        "linked/b c.md": (outside / "b c.md").as_posix(),
        "pages/link.md": (outside / "a.md").as_posix(),
        "pages/broken.md": (outside / "gone.md").as_posix(),
        outside / "ü.md": (outside / "ü.md").as_posix(),
        "../outside/gone.md": (outside / "gone.md").as_posix(),
        "/top.md": "/top.md",
    }
    uris = FileUris(root)
    assert {path: uris.make(Path(path)) for path in expected} == expected
    assert {path: make_file_uri(Path(path), root) for path in expected} == expected
    everything = FileUris(Path("/"))
    assert everything.make(root / "top.md") == (root / "top.md").relative_to("/").as_posix()
    assert everything.make(Path("/top.md")) == "top.md"
