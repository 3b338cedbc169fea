"""A small collection of pages whose facts are told apart by their words, and questions that are judged on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew import Document, Engine
from clew.evaluation import Evidence, JudgedQuestion

THINGS = [
    "anchor",
    "buoy",
    "chain",
    "davit",
    "eyebolt",
    "flare",
    "gauge",
    "hatch",
    "inverter",
    "jetty",
    "keel",
    "lantern",
    "mast",
    "net",
    "oar",
    "pump",
]
PLACES = [
    "harbour",
    "attic",
    "cellar",
    "workshop",
    "garage",
    "office",
    "kitchen",
    "barn",
    "tower",
    "shed",
    "hut",
    "dock",
    "stable",
    "archive",
    "loft",
    "vault",
]


def make_page(at: int) -> Document:
    thing, place = THINGS[at], PLACES[at]
    text = f"# The {thing}\n\nThe spare {thing} is kept in the {place}. Ask the crew before you take it from there.\n"
    return Document(f"page-{at}", text, title=f"The {thing}", uri=f"pages/{thing}.md")


def make_question(at: int) -> JudgedQuestion:
    thing, place = THINGS[at], PLACES[at]
    quote = f"The spare {thing} is kept in the {place}."
    return JudgedQuestion(
        f"where is the spare {thing}?", {f"pages/{thing}.md": 1.0}, (Evidence(f"pages/{thing}.md", quote),), id=thing
    )


QUESTIONS = [make_question(at) for at in range(len(THINGS))]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An engine over the pages, in a folder."""
    with Engine.open(tmp_path / "store", embedder="hashed") as opened:
        opened.add_documents([make_page(at) for at in range(len(THINGS))])
        yield opened
