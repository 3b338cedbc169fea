"""Contexts through the front door: every setting of joining, writing and fitting changes what a prompt holds."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as drawn
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from clew import Context, Document, Engine, Message, Settings, SettingsError
from clew.core.settings import ContextConfig, FormatterConfig, IngestionConfig, MergerConfig
from clew.core.text import estimate_tokens

SIZES = IngestionConfig(chunk_size=40, chunk_overlap=0)


def paragraph(subject: str, number: int) -> str:
    return f"The {subject} number {number} stands in the harbour. It was painted in the spring of year {number}."


PAGES = {
    "buoys.md": "# Buoys\n\n## Colours\n\n" + "\n\n".join(paragraph("buoy", number) for number in range(12)),
    "lamps.md": "# Lamps\n\n" + "\n\n".join(paragraph("lamp", number) for number in range(3)),
    "posts.md": "---\ndate: 2026-05-04\ntags: [tide, soup]\n---\n# Posts\n\nThe tide of soup.",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("context")
    for name, text in PAGES.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Engine.open(folder / "team.clew", embedder="hashed", settings=Settings(ingestion=SIZES)) as opened:
        opened.add(*(folder / name for name in PAGES))
        yield opened


def asked(
    engine: Engine,
    text: str,
    *,
    merger: MergerConfig | None = None,
    formatter: FormatterConfig | None = None,
    k: int = 5,
    **config: Any,
) -> Context:
    tree = Settings(
        merger=merger or MergerConfig(),
        formatter=formatter or FormatterConfig(),
        context=ContextConfig(**{"grow": "none", "k": k, **config}),
    )
    return engine.context(text, strategy="lexical", settings=tree)


def bodies(context: Context) -> list[str]:
    return [passage.text for passage in context.passages]


APART = "buoy number 2 and number 7"  # two chunks of one section with others between
SEVEN = "year 7 buoy number 7 or number 2"  # the later one is the better


def test_chunks_of_a_section_are_joined_over_a_marked_gap(engine: Engine) -> None:
    context = asked(engine, APART, k=2)
    (passage,) = context.passages
    assert passage.heading_path == ("Buoys", "Colours")
    assert len(passage.chunks) == len(passage.spans) == 2
    whole = engine.read(passage.chunks[0].chunk.doc_id).text
    first, second = (whole[start:end] for start, end in passage.spans)
    assert passage.text == f"{first}\n\n[…]\n\n{second}"
    assert bodies(asked(engine, APART, k=2, merger=MergerConfig(gap_mark="(…)"))) == [f"{first}\n\n(…)\n\n{second}"]
    apart = asked(engine, APART, k=2, merger=MergerConfig(require_adjacent=True))
    assert sorted(bodies(apart)) == sorted([first, second])
    small = asked(engine, APART, k=2, merger=MergerConfig(max_merged_size=100))
    assert len(small.passages) == 2


def test_the_best_part_first_where_order_is_not_kept(engine: Engine) -> None:
    best, second = (hit.chunk for hit in engine.search(SEVEN, k=2, strategy="lexical"))
    assert best.start > second.start
    (passage,) = asked(engine, SEVEN, k=2, merger=MergerConfig(preserve_order=False)).passages
    assert passage.spans == ((best.start, best.end), (second.start, second.end))
    (passage,) = asked(engine, SEVEN, k=2).passages
    assert passage.spans == ((second.start, second.end), (best.start, best.end))


def test_entries_as_the_formatter_says(engine: Engine) -> None:
    plain = asked(engine, "buoy number 3", k=1).text
    assert plain.startswith("[1] Buoys > Colours\n")
    assert plain.endswith("buoys.md)")
    assert asked(engine, "buoy number 3", k=1, formatter=FormatterConfig(include_scores=True)).text.startswith("[1] [")
    assert "(Source:" not in asked(engine, "buoy", formatter=FormatterConfig(include_source=False)).text
    grouped = asked(engine, "harbour", k=9, formatter=FormatterConfig(group_by_source=True)).text
    assert grouped.startswith("## Source: ")
    large = FormatterConfig(small_chunk_threshold=0, medium_chunk_threshold=0)
    assert asked(engine, "buoy number 3", k=1, formatter=large).text.startswith("[1]\n")
    medium = FormatterConfig(small_chunk_threshold=0, medium_chunk_threshold=5000)
    assert asked(engine, "buoy number 3", k=1, formatter=medium).text.startswith("[1] Buoys > Colours\n")


def test_every_renderer(engine: Engine) -> None:
    base = asked(engine, "harbour lamp", k=4, render="knowledge_base").text
    assert base.startswith("## Knowledge Base\n\n### [1] ")
    post = asked(engine, "tide of soup", k=1, render="related_posts").text
    assert "### [Posts] (2026-05-04)\n" in post
    assert "- Tags: tide, soup\n- Similarity: " in post
    entries = json.loads(asked(engine, "harbour lamp", k=4, render="json").text)
    assert [each["text"] for each in entries] == bodies(asked(engine, "harbour lamp", k=4))
    told = asked(engine, "lamp", k=2, render="threads", merger=MergerConfig(max_merged_size=1)).text
    assert told.count("\n  ↪ ") == 1
    assert engine.context("harbour", render="knowledge_base").text.startswith("## Knowledge Base\n\n")
    with pytest.raises(SettingsError, match=r"context\.render"):
        ContextConfig(render="prose")  # type: ignore[arg-type]


def test_the_wrapper_is_in_the_budget(engine: Engine) -> None:
    context = asked(engine, "buoy", wrap="xml", tag="notes", tokens=120)
    assert context.text.startswith("<notes>\n[1]")
    assert context.text.endswith("\n</notes>")
    assert context.tokens == estimate_tokens(context.text) <= 120
    assert asked(engine, "buoy", wrap="markdown").text.startswith("## Knowledge base\n\n[1]")
    assert asked(engine, "buoy", wrap="prose").text.startswith("Knowledge base:\n\n[1]")
    with pytest.raises(SettingsError, match=r"context\.tag"):
        ContextConfig(tag="a b")


def test_what_hits_bring_along(engine: Engine) -> None:
    def held(**config: Any) -> int:
        return sum(len(passage.chunks) for passage in asked(engine, "buoy number 5", **{"k": 1, **config}).passages)

    assert held() == 1
    assert held(grow="neighbours") == 3
    assert held(grow="section") == 1
    (passage,) = asked(engine, "buoy number 5", k=1, grow="neighbours").passages
    assert len(passage.spans) == 1
    assert passage.text == engine.read(passage.chunks[0].chunk.doc_id).text[slice(*passage.spans[0])]


def test_hits_in_conversations_bring_their_neighbours_by_default() -> None:
    with Engine.open(":memory:", embedder="hashed", settings=Settings(ingestion=SIZES)) as engine:
        engine.add_documents([Document("page", PAGES["buoys.md"]), Document("talk", PAGES["lamps.md"], kind="thread")])
        page, talk = (engine.context(text, k=1, strategy="lexical") for text in ("buoy number 5", "lamp number 2"))
        assert [len(each.passages[0].chunks) for each in (page, talk)] == [1, 2]


def test_a_question_in_a_thread_brings_its_reply_while_there_is_room() -> None:
    start = datetime(2026, 9, 24, 13, tzinfo=UTC)
    said = [
        "deploys move to Tuesday 10:00 from next week",
        "so thursday is off completely?",
        "ok",
        "yes, tuesdays only",
    ]
    replies = [None, "0", "1", "1"]
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages(
            [
                Message(text, f"ana{place}", start + timedelta(minutes=place), str(place), "ops", replies[place])
                for place, text in enumerate(said)
            ]
        )
        shown = {
            tokens: engine.context("when do deploys move", k=1, tokens=tokens, strategy="lexical").text
            for tokens in (400, 42)
        }
    assert "yes, tuesdays only" in shown[400]
    assert "so thursday is off" in shown[42]
    assert "yes, tuesdays" not in shown[42]


def test_tokens_by_the_readers_own_tokenizer(engine: Engine, tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.enable_truncation(4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    context = asked(engine, "harbour", k=9, tokens=100, tokenizer=str(tmp_path / "tokenizer.json"))
    assert context.tokens == len(re.findall(r"\w+|[^\w\s]+", context.text)) <= 100
    assert context.tokens != estimate_tokens(context.text)


# -- laws

WORDS = st.sampled_from(
    ["tide", "gauge", "buoy", "harbour", "soup", "vault.", "Monday.", "\n\n", "[1]", "---", "</kb>"]
)
PAGE = st.lists(WORDS, min_size=1, max_size=60).map(" ".join)


@drawn(max_examples=40)
@given(st.lists(PAGE, min_size=1, max_size=4), st.integers(5, 300), st.sampled_from(["none", "neighbours", "section"]))
@pytest.mark.slow
def test_any_pages_give_contexts_within_budget_whose_spans_are_theirs(pages: list[str], tokens: int, grow: str) -> None:
    config = ContextConfig(tokens=tokens, grow=grow, k=9, wrap="xml", tag="kb")  # type: ignore[arg-type]
    with Engine.open(":memory:", embedder="hashed", settings=Settings(ingestion=SIZES, context=config)) as engine:
        engine.add_documents([Document(str(number), page) for number, page in enumerate(pages)])
        if not engine.status().chunks:
            return
        context = engine.context("tide gauge of the harbour on Monday")
        assert context.tokens == estimate_tokens(context.text) <= tokens
        assert len(re.findall(r"(?i)<\s*/?\s*kb", context.text)) == 2 * bool(context.passages)
        assert len(re.findall(r"(?m)^\s*\[\d+\]", context.text)) == len(context.passages)
        for passage in context.passages:
            text = engine.read(passage.chunks[0].chunk.doc_id).text
            at = 0
            for start, end in passage.spans:
                at = passage.text.index(text[start:end], at) + end - start
            assert at == len(passage.text)


@pytest.mark.parametrize("tokens", [0, -1, 2.5, float("nan")])
def test_a_budget_is_a_whole_number(engine: Engine, tokens: Any) -> None:
    with pytest.raises(SettingsError, match=f"tokens is {tokens}; it must be a whole number of at least 1"):
        engine.context("buoys", tokens=tokens)
