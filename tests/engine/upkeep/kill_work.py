"""The work that a process is killed in; each writes a line for every step that was done when it came back."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from clew import Engine, Settings
from clew.core.settings import IngestionConfig
from clew.core.types import Document
from clew.drivers.store.sqlite import shards

SETTINGS = Settings(ingestion=IngestionConfig(summaries="extractive"))
SHARD = replace(SETTINGS, store=replace(SETTINGS.store, exact_below=0))


def make_document(number: int, version: int = 0) -> Document:
    """A page of its own words."""
    text = " ".join(f"page{number} says{number * 7 + place} version{version}." for place in range(60))
    return Document(f"d{number}", text, ())


def open_engine(root: Path, settings: Settings = SETTINGS) -> Engine:
    """The collection that is worked on."""
    return Engine.open(root / "team", embedder="hashed:32", settings=settings)


def add(root: Path, say: Callable[[str], None]) -> None:
    """Adds pages in small batches."""
    with open_engine(root) as engine:
        for start in range(0, 40, 4):
            engine.add_documents([make_document(start + place) for place in range(4)])
            say(f"added {start + 4}")


def change(root: Path, say: Callable[[str], None]) -> None:
    """Changes and drops pages."""
    with open_engine(root) as engine:
        for number in range(20):
            engine.add_documents([make_document(number, 1)])
            say(f"changed {number + 1}")
            engine.drop(f"d{number + 20}")
            say(f"dropped {number + 1}")


def restore(root: Path, say: Callable[[str], None]) -> None:
    """Restores an export into an empty collection."""
    with open_engine(root) as engine:
        engine.restore(root / "all.zip", on_progress=lambda _: None)
        say("restored 40")


def index(root: Path, say: Callable[[str], None]) -> None:
    """Adds, searches and builds a graph, with the index on disk."""
    shards.MIN_ROWS = 20
    with open_engine(root, SHARD) as engine:
        for start in range(0, 40, 8):
            engine.add_documents([make_document(start + place) for place in range(8)])
            say(f"added {start + 8}")
            engine.search("version0")
        engine.opened.store.flush()
        say("built 40")


WORK: dict[str, Callable[[Path, Callable[[str], None]], None]] = {
    "add": add,
    "change": change,
    "restore": restore,
    "index": index,
}


def run(kind: str, root: Path) -> None:
    """Does the work, with its lines in a file that survives the process."""
    os.setpgid(0, 0)  # what it starts is killed with it
    with (root / "said").open("a", buffering=1) as file:
        file.write("begun\n")

        def say(line: str) -> None:
            file.write(f"{line}\n")

        WORK[kind](root, say)
        file.write("done\n")
