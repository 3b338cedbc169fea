"""The seal of a shard: any change of its files breaks it, and holes are as good as zeros."""

import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from io import FileIO
from pathlib import Path

import pytest

from clew.drivers.store.sqlite.checkpoint import SEAL, Seal, has_right_seal
from clew.drivers.store.sqlite.files import BLOCK, copy_file, read_blocks

END = 4 * BLOCK + 100
AT = 2 * BLOCK + 7  # of the only data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of holes and some data, and a small one."""
    (tmp_path / "inside").mkdir()
    with (tmp_path / "inside" / "page.dat").open("wb") as file:
        file.seek(AT)
        file.write(b"data")
        file.truncate(END)
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def write_at(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_sealed_folder_is_right(folder: Path) -> None:
    assert not has_right_seal(folder)
    Seal(folder).write(nullcontext(), 0)
    assert has_right_seal(folder)
    assert set(json.loads((folder / SEAL).read_text())) == {"config.json", "inside/page.dat"}


@pytest.mark.parametrize("at", [0, BLOCK - 1, AT, AT + 4, 3 * BLOCK, 4 * BLOCK, END - 1])
def test_a_changed_byte_breaks_the_seal(folder: Path, at: int) -> None:
    Seal(folder).write(nullcontext(), 0)
    write_at(folder / "inside" / "page.dat", at, b"x")
    assert not has_right_seal(folder)


def test_lost_data_and_other_sizes_break_the_seal(folder: Path) -> None:
    page = folder / "inside" / "page.dat"
    Seal(folder).write(nullcontext(), 0)
    write_at(page, AT, bytes(4))
    assert not has_right_seal(folder)
    write_at(page, AT, b"data")
    assert has_right_seal(folder)
    for size in (END - 1, END + 1):
        with page.open("r+b") as file:
            file.truncate(size)
        assert not has_right_seal(folder)


def test_data_at_another_place_breaks_the_seal(folder: Path) -> None:
    Seal(folder).write(nullcontext(), 0)
    page = folder / "inside" / "page.dat"
    write_at(page, AT, bytes(4))
    write_at(page, AT - BLOCK, b"data")
    assert not has_right_seal(folder)


def test_a_copy_without_holes_is_right(folder: Path) -> None:
    Seal(folder).write(nullcontext(), 0)
    page = folder / "inside" / "page.dat"
    page.write_bytes(page.read_bytes())
    assert has_right_seal(folder)


def test_a_missing_or_new_file_breaks_the_seal(folder: Path) -> None:
    Seal(folder).write(nullcontext(), 0)
    (folder / "new.dat").touch()
    assert not has_right_seal(folder)
    (folder / "new.dat").unlink()
    (folder / "config.json").unlink()
    assert not has_right_seal(folder)


@pytest.mark.parametrize("text", ["", "[]", "7", '{"config.json": 7}', '{"config.json": "blocks:0"}'])
def test_a_seal_that_is_none_is_not_right(folder: Path, text: str) -> None:
    (folder / SEAL).write_text(text)
    assert not has_right_seal(folder)


def test_a_copy_has_the_holes_of_the_file(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    Seal(folder).write(nullcontext(), 0)
    copy = tmp_path_factory.mktemp("copies") / "copy"
    shutil.copytree(folder, copy, copy_function=copy_file)
    assert has_right_seal(copy)
    page, copied = (each / "inside" / "page.dat" for each in (folder, copy))
    assert copied.read_bytes() == page.read_bytes()
    assert copied.stat().st_blocks * 512 <= 2 * BLOCK


def test_a_folder_that_is_changed_while_its_seal_is_made_is_not_sealed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = Seal(folder)

    def change_meanwhile(file: FileIO, buffer: bytearray) -> Iterator[tuple[int, bytearray]]:
        seal.break_()
        return read_blocks(file, buffer)

    monkeypatch.setattr("clew.drivers.store.sqlite.checkpoint.read_blocks", change_meanwhile)
    seal.write(nullcontext(), seal.breaks)
    assert not (folder / SEAL).exists()
    monkeypatch.undo()
    seal.write(nullcontext(), seal.breaks)
    assert has_right_seal(folder)
