"""A collection that this user may not read: an error of Clew that names the file."""

import multiprocessing
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from clew import Document, Engine

NOBODY = 65534


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody may enter."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def try_to_read(path: Path, results: Any) -> None:
    """What opening and listing say to another user."""

    with Engine.open(path / "mine", embedder="hashed:32") as engine:  # what is imported late must be, before the switch
        engine.search("vault")
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    found: dict[str, Any] = {}
    for name in ("closed", "locked"):
        try:
            Engine.open(path / name, embedder="hashed:32")
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    found["listed"] = [(each.name, bool(each.problem)) for each in Engine.collections(path / "locked")]
    results.put(found)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="needs another user to read as")
@pytest.mark.slow
def test_a_folder_that_may_not_be_read_is_named(shared: Path) -> None:
    for name in ("mine", "closed", "locked"):
        with Engine.open(shared / name, embedder="hashed:32") as engine:
            engine.add_documents([Document("a", "The vault is locked.", ())])
    (shared / "closed").chmod(0)
    (shared / "locked").chmod(0o755)
    (shared / "locked" / "default").chmod(0)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=try_to_read, args=(shared, results))
    child.start()
    found = results.get(timeout=120)
    child.join()
    for name in ("closed", "locked"):
        assert found[name].startswith(f"DriverFailed: {shared / name}")
        assert "this user may not read it" in found[name]
        assert "give the user the rights" in found[name]
    assert found["listed"] == [("default", True)]
