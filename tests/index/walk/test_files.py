"""The door of the readers: what is read, what is refused and in which words, and what is found in folders."""

import os
import sys
from pathlib import Path

import pytest

from clew.core.errors import SourceError
from clew.core.ids import make_document_id
from clew.core.report import PassedOver
from clew.index.chat import ChatExport
from clew.index.read import SUFFIXES, read_file
from clew.index.walk.files import find_files


def refused(path: Path, *, max_bytes: int = 1000) -> str:
    """The reason for which a file is refused."""
    with pytest.raises(SourceError) as caught:
        read_file(path, uri="the/uri", max_bytes=max_bytes)
    assert caught.value.source == "the/uri"
    return caught.value.reason


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


def test_a_file_becomes_a_document(file: Path) -> None:
    file.write_text("# Vault\r\n\r\nKeys rotate.\rDaily.")
    document = read_file(file, uri="handbook/vault.md")
    assert document.id == make_document_id("handbook/vault.md")
    assert document.uri == "handbook/vault.md"
    assert document.title == "Vault"
    assert document.text == "# Vault\n\nKeys rotate.\nDaily."
    assert document.kind == "page"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding(file: Path, encoding: str) -> None:
    file.write_text("Schlüssel 鍵", encoding=encoding)
    assert read_file(file, uri="a").text == "Schlüssel 鍵"


def test_what_cannot_be_read_says_why(file: Path) -> None:
    assert refused(file) == "does not exist"
    assert refused(file / "below") == "does not exist"
    assert "folder" in refused(file.parent)
    file.write_bytes(b"")
    assert refused(file) == "is empty"
    file.write_bytes(b" \n\t\n")
    assert refused(file).startswith("is empty")
    file.write_bytes(b"# text\0more")
    assert "NUL byte at offset 6" in refused(file)
    file.write_bytes(b"\xff\xfea\0b")
    assert "UTF-16" in refused(file)


def test_a_file_over_the_limit_names_both_sizes(file: Path) -> None:
    file.write_text("x" * 2001)
    reason = refused(file, max_bytes=2000)
    assert "2,001" in reason
    assert "2,000" in reason
    assert read_file(file, uri="a", max_bytes=2001).text == "x" * 2001


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert refused(tmp_path / "pipe.md") == "is not a regular file"
    assert list(find_files([tmp_path])) == [PassedOver(str(tmp_path / "pipe.md"), "not a regular file")]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(file: Path) -> None:
    file.write_text("secret")
    file.chmod(0)
    assert "permission" in refused(file)


def test_an_unknown_suffix_is_read_if_it_is_text(tmp_path: Path) -> None:
    text = tmp_path / "NOTES"
    text.write_text("Just words.")
    assert read_file(text, uri="a").meta["format"] == "text"
    binary = tmp_path / "image.xyz"
    binary.write_bytes(b"\x89PNG\0\xff")
    assert refused(binary).startswith("is not a format Clew reads")


def test_suffixes_do_not_care_for_case(tmp_path: Path) -> None:
    path = tmp_path / "README.MD"
    path.write_text("# Title")
    assert read_file(path, uri="a").meta["format"] == "markdown"
    assert list(find_files([tmp_path])) == [path]


def tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def found(*sources: Path, root: Path) -> list[str]:
    """What is found, as paths below the root; a failure as its reason."""
    return [
        item.reason
        if isinstance(item, SourceError)
        else (item.path if isinstance(item, ChatExport) else item).relative_to(root).as_posix()
        for item in find_files(sources)
        if not isinstance(item, PassedOver)
    ]


def test_a_folder_is_walked_in_order(tmp_path: Path) -> None:
    tree(tmp_path, "b.md", "a/z.txt", "a/b/c.py", "c.bin", ".hidden.md", ".git/x.md", "team.clew/x.md", "a.md")
    assert found(tmp_path, root=tmp_path) == ["a/b/c.py", "a/z.txt", "a.md", "b.md"]


def test_a_file_is_taken_as_given(tmp_path: Path) -> None:
    tree(tmp_path, "c.bin", ".hidden.md")
    assert found(tmp_path / "c.bin", tmp_path / ".hidden.md", root=tmp_path) == ["c.bin", ".hidden.md"]


def test_each_file_once(tmp_path: Path) -> None:
    tree(tmp_path, "a/one.md", "a/b/two.md", "a/.secret/three.md")
    a, b = tmp_path / "a", tmp_path / "a/b"
    assert found(b, a, a, a / "one.md", root=tmp_path) == ["a/b/two.md", "a/one.md"]
    assert found(a / "one.md", a, root=tmp_path) == ["a/one.md", "a/b/two.md"]
    assert found(a, a / ".secret/three.md", root=tmp_path) == ["a/b/two.md", "a/one.md", "a/.secret/three.md"]


def test_what_is_missing_is_reported_and_the_rest_found(tmp_path: Path) -> None:
    tree(tmp_path, "a.md")
    assert found(tmp_path / "no", tmp_path / "a.md", root=tmp_path) == ["does not exist", "a.md"]
    assert "collection" in found(_made(tmp_path / "x.clew"), root=tmp_path)[0]


_path = type(Path())


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_never_loop_and_never_repeat(tmp_path: Path) -> None:
    tree(tmp_path, "in/a.md", "out/b.md", "out/c.md")
    inside = tmp_path / "in"
    (inside / "again").symlink_to(inside)
    (inside / "away").symlink_to(tmp_path / "out")
    (inside / "copy.md").symlink_to(inside / "a.md")
    (inside / "other.md").symlink_to(tmp_path / "out/b.md")
    (inside / "same.md").symlink_to(tmp_path / "out/b.md")
    (inside / "broken.md").symlink_to(inside / "nothing.md")
    assert found(inside, root=tmp_path) == ["in/a.md"]
    (inside / "self.md").symlink_to(inside / "self.md")
    (looping,) = find_files([inside / "self.md"])
    assert isinstance(looping, SourceError)
    assert found(inside, root=tmp_path) == ["in/a.md"]
    (tmp_path / "link").symlink_to(inside)
    assert found(tmp_path / "link", root=tmp_path)[0] == "link/a.md"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_reported(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.md", "b/y.md")
    (tmp_path / "a").chmod(0)
    try:
        assert found(tmp_path, root=tmp_path) == ["cannot be read: no permission", "b/y.md"]
    finally:
        (tmp_path / "a").chmod(0o700)


def test_finding_is_lazy(tmp_path: Path) -> None:
    tree(tmp_path, "a/x.md", "b/y.md")
    walk = find_files([tmp_path])
    assert next(walk) == tmp_path / "a/x.md"
    tree(tmp_path, "b/z.md")
    assert list(walk) == [tmp_path / "b/y.md", tmp_path / "b/z.md"]


def test_every_suffix_is_written_in_lower_case() -> None:
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in SUFFIXES)
