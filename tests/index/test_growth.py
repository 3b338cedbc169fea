"""Work grows with the size of the input and no faster, in every reader, chunker and analyser, and for every query.

The ratios of CPU time are measured by `make soak` alone; elsewhere the work itself is counted.
"""

import time
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from types import SimpleNamespace

import pytest

from clew.core.sentences import split_sentences
from clew.core.settings import IngestionConfig
from clew.core.small_talk import is_small_talk
from clew.core.text import extract_terms, tokenize_words
from clew.core.types import Document
from clew.core.unicode import MAX_MARKS, compose
from clew.drivers.embed.hashed import HashedEmbedder
from clew.index.chat.mbox import strip_quoted_lines
from clew.index.chunk import make_chunker
from clew.index.enrich.context import make_heading_enricher
from clew.index.enrich.summary import make_extractive_summary
from clew.index.read import READERS
from clew.index.read.text import markdown, plain
from clew.query.rewrite.route import route_question
from tests.soak import choose_runs

COUNT = HashedEmbedder().count
CHUNK = make_chunker(IngestionConfig(), COUNT)
ENRICH = make_heading_enricher()


def read_and_chunk(suffix: str) -> Callable[[str], object]:
    def run(text: str) -> object:
        document = READERS[suffix](text.encode(), uri="u", name=f"u{suffix}")
        return ENRICH(document, CHUNK(document))

    return run


PATHS: dict[str, Callable[[str], object]] = {
    **{suffix: read_and_chunk(suffix) for suffix in (".md", ".txt", ".py", ".js", ".toml", ".html", ".eml", ".csv")},
    "terms": extract_terms,
    "words": tokenize_words,
    "sentences": split_sentences,
    "summary": lambda text: make_extractive_summary(Document("d", text)),
    "quotes": strip_quoted_lines,
    "route": route_question,
    "talk": is_small_talk,
}
UNITS = (
    *(
        "a",
        " ",
        "\n",
        "a ",
        "a\n\n",
        "a.",
        "a, ",
        "[",
        "<a",
        "<p>",
        "<b>",
        "<option>a",
        "# a\n",
        "# a\n\n",
        "- a\n",
        "> ",
    ),
    *("| a |\n", "```\n", "~~~\n", "// a\n", "@a\n", "(", "\u0301", "\u0301\u0323", "a\u0301", "漢", "1,", "a-", "aB"),
    *("Ann B. Le ", "etc. a ", "{#", "![", " \t", "[a](", "*a"),
    *("a and ", "a vs ", "compare a ", "keys of vault rotate ", "difference between ", "def a():\n pass\n\n", "a\n=\n"),
)


def measure(path: Callable[[str], object], text: str) -> float:
    markdown.parse_markdown_blocks.cache_clear()
    plain.find_underlined_titles.cache_clear()
    start = time.process_time()
    with suppress(Exception):  # it may be refused
        path(text)
    return time.process_time() - start


@pytest.mark.soak
@pytest.mark.skipif(not choose_runs(0, 1), reason="measures time: make soak")
@pytest.mark.parametrize("name", PATHS)
def test_time_grows_no_faster_than_the_text(name: str) -> None:
    path, size = PATHS[name], 10_000
    for first, unit in product(("", "# ", '"'), UNITS):
        short, long = (first + unit * (times * size // len(unit)) + "b" for times in (1, 4))
        small = max(measure(path, short), 0.02)
        large = measure(path, long)
        if large > 9 * small:  # 4 times is linear, 16 times quadratic; once more, as others use the machine too
            large = min(large, measure(path, long))
        assert large <= 9 * small, f"{name}: {first + unit!r} takes {small:.2f} s, four times as much {large:.2f} s"


def test_splitting_a_word_looks_at_each_combining_mark_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    def count_look(char: str) -> int:
        nonlocal looked
        looked += 1
        return unicodedata.combining(char)

    monkeypatch.setattr("clew.index.chunk.atoms.unicodedata", SimpleNamespace(combining=count_look))
    text = "\u0301" * 20_000
    assert CHUNK(Document("d", text, meta={"format": "text"}))
    assert looked < 10 * len(text)


def test_a_sentence_is_not_looked_at_again_for_each_of_its_full_stops() -> None:
    assert len(split_sentences("Ann B. Le " * 20_000)) == 1
    assert len(split_sentences('"' * 100_000 + "Etc. a " * 20_000)) == 1


def test_a_heading_of_thousands_of_marks_is_a_title_as_it_stands() -> None:
    (section,) = READERS[".md"](b"# " + b"![" * 20_000, uri="u", name="u.md").sections
    assert section.label == "![" * 500
    (section,) = READERS[".md"](b"# a" + b" \t" * 20_000 + b"b {#c}", uri="u", name="u.md").sections
    assert section.label == "a"


def test_more_combining_marks_than_any_script_needs_are_dropped() -> None:
    assert compose("e\u0301" + "ﬁ") == "éfi"
    assert len(compose("q" + "\u0323\u0307" * 5_000)) == 1 + MAX_MARKS
    assert compose("…—" * 100) == "...—" * 100  # only marks
    assert extract_terms("q" + "\u0323\u0307" * 5_000 + " keys")["key"] == 1


def test_a_long_question_is_routed_by_its_beginning() -> None:
    assert route_question("use rerank: " + "keys of vault " * 1_000).strategy == "rerank"
    assert route_question("keys " * 1_000 + "use rerank").strategy == "self_reflective"
