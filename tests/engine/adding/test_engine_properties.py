"""Laws that hold for any pages: adding twice is a no-op, and any history equals a fresh build of what is left."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew import Document, Engine

WORDS = st.sampled_from(["tide", "gauge", "buoy", "harbour", "rotation", "key", "pager", "soup", "Monday", "vault"])
PARAGRAPH = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)
PAGE = st.lists(st.one_of(PARAGRAPH, PARAGRAPH.map("## {}".format)), min_size=1, max_size=6).map("\n\n".join)
NAMES = st.sampled_from(["a", "b'c", "d\u00e9", "\u6e2f"])
HISTORY = st.lists(st.tuples(NAMES, st.one_of(st.none(), PAGE)), max_size=12)
ASKED = ("tide gauge", "key rotation on Monday", "soup")


def answers(engine: Engine) -> list[list[tuple[str, float]]]:
    return [
        [(hit.chunk.id, round(hit.score, 5)) for hit in engine.search(asked, k=50, strategy=strategy)]
        for asked in ASKED
        for strategy in ("semantic", "lexical", "hybrid")
    ]


@pytest.mark.slow
@settings(max_examples=30)
@given(HISTORY)
def test_any_history_equals_a_fresh_build(history: list[tuple[str, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        left: dict[str, str] = {}
        with Engine.open(Path(folder) / "lived", embedder="hashed") as lived:
            for name, page in history:
                if page is not None:
                    lived.add_documents([Document(name, page)])
                    left[name] = page
                elif name in left:
                    lived.drop(name)
                    del left[name]
            with Engine.open(":memory:", embedder="hashed") as fresh:
                fresh.add_documents([Document(name, page) for name, page in left.items()])
                assert answers(lived) == answers(fresh)
                assert lived.status().chunks == fresh.status().chunks


@settings(max_examples=30)
@given(st.lists(PAGE, min_size=1, max_size=4))
@pytest.mark.slow
def test_adding_twice_is_a_no_op(pages: list[str]) -> None:
    documents = [Document(str(number), page) for number, page in enumerate(pages)]
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(documents)
        once = answers(engine), engine.status()
        report = engine.add_documents(documents)
        assert (report.embedded, report.skipped) == (0, len(pages))
        assert (answers(engine), engine.status()) == once
