"""A folder of pages and a chat export, two collections of one database, and Ray clusters on this machine."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew import Engine

BUSY_MS = "60000"  # a node is not lost because the machine is busy; Ray's own 10 s end its drivers, too
CHAT = "\n".join(
    f'{{"id": "m{number}", "channel": "c{number % 3}", "author": "ada", "at": "2026-01-0{1 + number // 30}T10:'
    f'{number % 30:02}:00Z", "text": "the kettle {number} is on"}}'
    for number in range(90)
)


def make_pages(folder: Path, count: int) -> Path:
    """A folder of pages, each of its own words."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        text = "\n\n".join(f"## Gauge {number}.{part}\n\nIt is read at {part} o'clock." for part in range(3))
        page = folder / f"{number:03}.md"
        page.write_text(f"# Page {number}\n\n{text}\n")
        os.utime(page, (1_700_000_000, 1_700_000_000))  # one that was changed just now is always read again
    return folder


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Seventy pages and a chat of three channels."""
    folder = make_pages(tmp_path / "pages", 70)
    (folder / "chat.jsonl").write_text(CHAT)
    return folder


@pytest.fixture
def open_collection(postgres: str) -> Iterator[Callable[..., Engine]]:
    """Opens collections of one database by name; all are closed in the end."""
    opened: list[Engine] = []

    def open_(name: str, **options: Any) -> Engine:
        opened.append(Engine.open(postgres, collection=name, **{"embedder": "hashed", **options}))
        return opened[-1]

    yield open_
    for engine in opened:
        engine.close()


def list_rows(engine: Engine) -> dict[str, str]:
    """What is stored of each document, as a fingerprint of all of it."""
    return {stored.document.id: stored.fingerprint() for stored in engine.opened.store.stored_documents()}


def list_words(engine: Engine) -> dict[str, str]:
    """What is stored of each document besides vectors, which may still be pending, as a fingerprint."""
    return {
        stored.document.id: replace(stored, vectors=np.zeros_like(stored.vectors), summary_vector=None).fingerprint()
        for stored in engine.opened.store.stored_documents()
    }
