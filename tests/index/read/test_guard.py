"""Guards of the office readers: zip bombs, nesting, false sizes, broken and protected files, missing packages."""

import io
import sys
import zipfile
from pathlib import Path

import pytest

from clew.core.errors import DriverMissing, SourceError
from clew.index.read import read_file
from clew.index.read.guard import check_archive_safety, check_xml_safety, wrap_library_errors
from clew.index.read.load import get_file_state, read_bytes_within_limit
from clew.index.read.office.docling import read_office

PARAGRAPH = "<w:p><w:r><w:t>Keys.</w:t></w:r></w:p>"


def make_zip(parts: dict[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return file.getvalue()


def make_docx(body: str) -> bytes:
    """The least that is a Word document."""
    package = "http://schemas.openxmlformats.org/package/2006"
    office_document = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    return make_zip(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
            f'<Override PartName="/word/document.xml" ContentType="{kind}"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
            f'<Relationship Id="a" Type="{office_document}" Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>',
        }
    )


def test_the_least_document_is_read() -> None:
    assert read_office(make_docx(PARAGRAPH), uri="a.docx", name="a.docx").text == "Keys."


@pytest.mark.slow
def test_an_archive_that_is_a_bomb_is_refused() -> None:
    bomb = make_zip({"word/document.xml": b" " * 60_000_000})
    with pytest.raises(SourceError, match="200 times its size"):
        read_office(bomb, uri="a.docx", name="a.docx")
    with pytest.raises(SourceError, match="entries"):
        check_archive_safety(
            make_zip({f"{n}.txt": "" for n in range(20_001)}), uri="a.docx", format_name="Word document"
        )


def test_an_archive_that_lies_about_its_sizes_is_refused() -> None:
    data = bytearray(make_zip({"word/media/a.png": b"\0" * 1_000_000}))
    for place, before in ((data.index(b"PK\x01\x02"), 24), (data.index(b"PK\x03\x04"), 22)):
        data[place + before : place + before + 4] = (10).to_bytes(4, "little")
    with pytest.raises(SourceError, match="broken"):
        read_office(bytes(data), uri="a.docx", name="a.docx")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<w:tbl><w:tr><w:tc>" * 2_000 + "</w:tc></w:tr></w:tbl>" * 2_000, "levels deep"),
        ("", "no text"),
    ],
)
def test_documents_that_are_nested_or_empty(body: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        read_office(make_docx(body), uri="a.docx", name="a.docx")


def test_entities_that_expand_are_refused() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY b "xx"><!ENTITY c "&b;&b;">]><a>&c;</a>'
    with pytest.raises(SourceError, match="entities"):
        list(check_xml_safety([bomb], uri="a.nxml"))
    assert list(check_xml_safety([b'<!DOCTYPE a SYSTEM "a.dtd"><a/>'], uri="a.nxml")) == [31]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"hello", "broken"),
        (make_docx(PARAGRAPH)[:-100], "broken"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "password-protected"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "older Office"),
        (make_zip({"a.txt": "x"}), "not a readable Word document"),
    ],
)
def test_what_is_no_word_document_says_so(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        read_office(data, uri="a.docx", name="a.docx")


@pytest.mark.parametrize("name", ["a.doc", "a.xls", "a.ppt", "a.msg", "a.rtf"])
def test_broken_files_of_an_older_office_end_no_more_than_their_own_process(name: str) -> None:
    with pytest.raises(SourceError, match=r"not a readable|no text"):
        read_office(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\xff" * 2_000, uri=name, name=name)


def test_rich_text_is_read_in_a_process_of_its_own() -> None:
    found = read_office(rb"{\rtf1\ansi Keys rotate weekly.\par}", uri="a.rtf", name="a.rtf")
    assert found.text == "Keys rotate weekly."


def test_a_panic_is_a_source_error_and_an_interrupt_is_not() -> None:
    class PanicException(BaseException):
        pass

    with (
        pytest.raises(SourceError, match="index out of bounds"),
        wrap_library_errors("a.docx", format_name="Word document"),
    ):
        raise PanicException("index out of bounds")
    with (
        pytest.raises(SourceError, match="picture: ValueError: 3 channels"),
        wrap_library_errors("a.png", format_name="picture"),
    ):
        raise OSError("Traceback (most recent call last):\n  File ocr.py\nValueError: 3 channels")
    with pytest.raises(KeyboardInterrupt), wrap_library_errors("a.docx", format_name="Word document"):
        raise KeyboardInterrupt


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.index.read.office.docling.importlib.util.find_spec", lambda _name: None)
    with pytest.raises(DriverMissing, match=r"clew\[documents\]"):
        read_office(b"= Vault", uri="a.adoc", name="a.adoc")


def test_docling_core_is_not_imported() -> None:
    read_office(b"= Vault\n\nKeys.", uri="a.adoc", name="a.adoc")
    assert "docling_core" not in sys.modules


def test_the_state_of_a_file_changes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert get_file_state(path) == ()
    path.write_text("a")
    before = get_file_state(path)
    assert before == get_file_state(path) != ()
    path.write_text("ab")
    assert get_file_state(path) != before


def test_a_file_that_changes_while_it_is_read_is_to_be_added_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.md"
    path.write_text("# Keys")

    def load_slowly(path: Path, *, uri: str, max_bytes: int) -> bytes:
        data = read_bytes_within_limit(path, uri=uri, max_bytes=max_bytes)
        path.write_text("# Keys and locks")
        return data

    monkeypatch.setattr("clew.index.read.read_bytes_within_limit", load_slowly)
    with pytest.raises(SourceError, match="changed while it was read"):
        read_file(path, uri="a.md")


def test_every_rich_format_is_read_by_its_suffix(tmp_path: Path) -> None:
    for name, data in {"a.HTML": b"<p>Keys.</p>", "b.csv": b"Keys.", "c.docx": make_docx(PARAGRAPH)}.items():
        (tmp_path / name).write_bytes(data)
        assert "Keys." in read_file(tmp_path / name, uri=name).text
