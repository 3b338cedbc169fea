"""Small documents and the chunks that they must give.

When a change of the chunks is meant, `CLEW_REGENERATE=1 pytest tests/index/test_chunk_golden.py` writes them anew; read
the difference before it goes in.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from clew.core.types import Document
from clew.index.chunk.pages import estimate_token_counts, make_structure_chunker
from clew.index.read.text.code import read_code
from clew.index.read.text.markdown import read_markdown
from clew.index.read.text.plain import read_plain_text

GOLDEN = Path(__file__).parents[2] / "golden"
REGENERATE = os.environ.get("CLEW_REGENERATE") == "1"


def chunks_of(document: Document) -> list[dict[str, Any]]:
    return [
        {
            "id": chunk.id,
            "start": chunk.start,
            "end": chunk.end,
            "headings": list(chunk.headings),
            "context": chunk.context,
            "at": chunk.at and chunk.at.isoformat(),
            "meta": dict(chunk.meta),
            "text": chunk.text.split("\n"),
        }
        for chunk in make_structure_chunker(size=64, overlap=12, count=estimate_token_counts)(document)
    ]


@pytest.mark.parametrize(
    ("name", "reader"), [("handbook.md", read_markdown), ("notes.txt", read_plain_text), ("vault.py.txt", read_code)]
)
def test_the_chunks_are_those_that_were_agreed(name: str, reader: Any) -> None:
    text = (GOLDEN / name).read_text(encoding="utf-8")
    chunks = chunks_of(reader(text, uri=name, name=name.removesuffix(".txt") if reader is read_code else name))
    expected = GOLDEN / f"{name}.json"
    if REGENERATE:
        expected.write_text(json.dumps(chunks, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert chunks == json.loads(expected.read_text(encoding="utf-8"))


def test_nothing_is_regenerated_where_it_is_checked() -> None:
    assert not (REGENERATE and os.environ.get("CI"))
