"""Contexts, summaries, plans and costs through Engine, with a language model that is scripted."""

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from clew import Document, DriverFailed, Engine, Section, Settings
from clew.core.settings import EmbedderConfig, IngestionConfig, LLMConfig
from clew.drivers.llm.scripted import ScriptedLLM

CONTEXTUAL = Settings(ingestion=IngestionConfig(use_contextual_enrichment=True, chunk_size=40, chunk_overlap=0))
EXTRACTED = Settings(ingestion=IngestionConfig(summaries="extractive"))
WRITTEN = Settings(ingestion=IngestionConfig(summaries="llm"))
PLAIN = Settings(ingestion=IngestionConfig(chunk_size=40, chunk_overlap=0))


def long_page(parts: int, *, changed: int | None = None) -> str:
    texts = [
        f"## Part {number}\n\nThe {'altered' if number == changed else 'usual'} story of subject {number} goes on.\n"
        for number in range(parts)
    ]
    return "# Chronicle\n\n" + "\n".join(texts)


def describe(prompt: str) -> str:
    return "Summary of it." if "Summary:" in prompt else f"Context of {len(prompt)} characters."


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "pages" / "chronicle.md"
    path.parent.mkdir()
    path.write_text(long_page(30), encoding="utf-8")
    return path


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "team.clew", embedder="hashed") as opened:
        yield opened


# -- contexts


def test_without_a_model_a_context_names_the_place(engine: Engine, page: Path) -> None:
    engine.add(page, settings=CONTEXTUAL)
    hit = engine.search("subject 7 story", k=1)[0]
    assert hit.chunk.context.startswith("Chronicle > Part 7")
    assert hit.chunk.text in page.read_text(encoding="utf-8")
    assert "Chronicle >" not in hit.chunk.text
    assert "Chronicle >" not in engine.context("subject 7 story").passages[0].text


def test_a_context_is_searched_but_not_cited(engine: Engine) -> None:
    page = Document("d", "An introduction.\n\n## Limits\n\nAt most nine at once.\n", title="Osprey manual")
    engine.add_documents([page], settings=PLAIN)
    assert not engine.search("osprey", strategy="lexical")
    engine.add_documents([page], settings=CONTEXTUAL)
    found = engine.search("osprey limits", strategy="lexical", k=1)[0].chunk
    assert found.headings == ("Limits",)
    assert "sprey" not in found.text


def test_a_later_chunk_of_a_section_is_told_how_it_begins(engine: Engine) -> None:
    body = " ".join(f"Then happened the event of number {number}." for number in range(30))
    engine.add_documents([Document("d", f"# Log\n\nThe keeper of Skerry light writes. {body}")], settings=CONTEXTUAL)
    last = engine.search("event of number 29", k=1)[0].chunk
    assert "The keeper of Skerry light writes." in last.context
    assert "keeper" not in last.text


def test_a_chunk_of_code_is_told_the_definitions_around_it(engine: Engine, tmp_path: Path) -> None:
    steps = "".join(f"        self.step_{number}(wind={number})\n" for number in range(60))
    (tmp_path / "buoy.py").write_text(f"class Buoy(Float):\n    def drift(self, miles):\n{steps}", encoding="utf-8")
    engine.add(tmp_path / "buoy.py", settings=CONTEXTUAL)
    last = engine.search("step_59", strategy="lexical", k=1)[0].chunk
    assert last.context.startswith("buoy.py > class Buoy > def drift")
    assert "drift" not in last.text


def test_code_without_a_title_or_sections_is_named_by_what_it_defines_first(engine: Engine) -> None:
    parts = ["/* A licence. */\n", "public class Harbour {\n  void open() {\n", "    unbar();\n", "  }\n}\n"]
    marks = [sum(map(len, parts[:number])) for number in range(len(parts) + 1)]
    sections = tuple(Section(start, end) for start, end in pairwise(marks))
    engine.add_documents([Document("d", "".join(parts), sections, meta={"format": "code"})], settings=CONTEXTUAL)
    found = {hit.chunk.text: hit.chunk.context for hit in engine.search("harbour", strategy="lexical", k=9)}
    assert found["/* A licence. */"] == "public class Harbour"
    assert found["unbar();"] == "public class Harbour > void open()"


def test_an_edited_line_of_code_embeds_at_most_three_chunks(engine: Engine, tmp_path: Path) -> None:
    source = tmp_path / "long.py"
    methods = [f"    def method_{number}(self):\n        return {number}\n\n" for number in range(200)]
    source.write_text("class Long:\n" + "".join(methods), encoding="utf-8")
    assert engine.add(source, settings=CONTEXTUAL).embedded >= 200
    methods[100] = methods[100].replace("return", "yield")
    source.write_text("class Long:\n" + "".join(methods), encoding="utf-8")
    assert 1 <= engine.add(source, settings=CONTEXTUAL).embedded <= 3


def test_a_model_writes_contexts_at_most_so_many_at_once(tmp_path: Path, page: Path) -> None:
    model = ScriptedLLM(describe)
    with Engine.open(tmp_path / "team.clew", embedder="hashed", llm=model) as engine:
        report = engine.add(page, settings=CONTEXTUAL)
        chunk = engine.search("subject 7 story", k=1)[0].chunk
        assert chunk.context.startswith("Context of")
        assert chunk.embed_text.startswith(f"{chunk.context}\n\n")
        assert model.usage.calls == report.chunks
        assert model.max_active <= 5


def test_one_call_at_a_time_where_that_is_asked(tmp_path: Path, page: Path) -> None:
    model = ScriptedLLM(describe)
    one = replace(CONTEXTUAL, ingestion=replace(CONTEXTUAL.ingestion, max_concurrent=1))
    with Engine.open(tmp_path / "team.clew", embedder="hashed", llm=model) as engine:
        engine.add(page, settings=one)
    assert model.max_active == 1


def test_a_second_ingest_asks_nothing_and_an_edit_little(tmp_path: Path, page: Path) -> None:
    model = ScriptedLLM(describe)
    with Engine.open(tmp_path / "team.clew", embedder="hashed", llm=model) as engine:
        engine.add(page, settings=CONTEXTUAL)
        asked = model.usage.calls
        os.utime(page, ns=(10**18, 10**18))
        assert engine.add(page, settings=CONTEXTUAL).skipped == 1
        assert model.usage.calls == asked
        page.write_text(long_page(30, changed=15), encoding="utf-8")
        report = engine.add(page, settings=CONTEXTUAL)
        assert report.embedded <= 3
        assert model.usage.calls - asked <= 3  # the chunk and its two neighbours


@pytest.mark.parametrize("settings", [PLAIN, CONTEXTUAL], ids=["plain", "contextual"])
def test_an_edited_paragraph_embeds_at_most_three_chunks(engine: Engine, page: Path, settings: Settings) -> None:
    page.write_text(long_page(300), encoding="utf-8")
    first = engine.add(page, settings=settings)
    page.write_text(long_page(300, changed=150), encoding="utf-8")
    second = engine.add(page, settings=settings)
    assert first.embedded >= 300
    assert 1 <= second.embedded <= 3


def test_a_failed_context_falls_back_and_is_reported(tmp_path: Path, page: Path) -> None:
    def moody(prompt: str) -> str:
        if "subject 7 " in prompt.split("<chunk>")[-1]:
            raise DriverFailed("out of tokens")
        return describe(prompt)

    with Engine.open(tmp_path / "team.clew", embedder="hashed", llm=ScriptedLLM(moody)) as engine:
        report = engine.add(page, settings=CONTEXTUAL)
        assert not report.failed
        assert [note.reason for note in report.noted if "out of tokens" in note.reason]
        chunk = next(hit.chunk for hit in engine.search("subject 7 story", k=40) if "subject 7 " in hit.chunk.text)
        assert chunk.context == "This chunk is from the document 'Chronicle' (pages/chronicle.md)."


def test_a_model_sees_what_stands_around_a_chunk_far_into_the_document(tmp_path: Path) -> None:
    prompts: list[str] = []

    def note(prompt: str) -> str:
        prompts.append(prompt)
        return "Context."

    text = "# Big\n\n" + "\n".join(f"## Part {n}\n\nMarker {n} {{braces}} $& and words.\n" for n in range(400))
    settings = replace(CONTEXTUAL, llm=LLMConfig(window=2000))
    with Engine.open(tmp_path / "team.clew", embedder="hashed", llm=ScriptedLLM(note)) as engine:
        engine.add_documents([Document("d", text)], settings=settings)
    late = next(prompt for prompt in prompts if "Marker 390 {braces} $&" in prompt.split("<chunk>")[-1])
    assert "Marker 389" in late
    assert "Marker 391" in late
    assert "Marker 10 " not in late
    assert all(len(prompt) < 4000 for prompt in prompts if "<chunk>" in prompt)


# -- summaries


def test_without_a_model_a_summary_is_taken_from_the_text(engine: Engine) -> None:
    text = (
        "# Moorings\n\nA mooring holds a buoy in its place at sea. Chains of a mooring are checked each spring. "
        "Lunch is at noon. The mooring chain of a buoy wears where it touches the sea bed.\n\n| a | b |\n|---|---|\n"
    )
    engine.add_documents([Document("d", text)])
    assert not next(engine.list()).summary
    engine.add_documents([Document("d", text)], settings=EXTRACTED)
    summary = next(engine.list()).summary
    assert summary.startswith("Moorings: ")
    assert "mooring" in summary
    assert "Lunch" not in summary
    assert "|" not in summary


def test_a_model_writes_the_summary_and_sees_no_more_than_its_share(tmp_path: Path) -> None:
    prompts: list[str] = []

    def note(prompt: str) -> str:
        prompts.append(prompt)
        return "It is about x."

    with Engine.open(tmp_path / "team.clew", embedder="hashed", llm=ScriptedLLM(note)) as engine:
        engine.add_documents([Document("short", "x" * 50_000), Document("long", "x" * 50_001)], settings=WRITTEN)
        assert {each.summary for each in engine.list()} == {"It is about x."}
    short, long = sorted(prompts, key=len)
    assert "[truncated]" not in short
    assert "x" * 50_000 + "...[truncated]" in long


def test_an_empty_answer_names_the_document(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "team.clew", embedder="hashed", llm=ScriptedLLM("")) as engine:
        engine.add_documents([Document("a", "All about alpha.", title="Alpha")], settings=WRITTEN)
        assert next(engine.list()).summary == "Document: Alpha"


def test_a_summary_that_was_left_out_is_made_when_it_is_wanted_again(engine: Engine, page: Path) -> None:
    engine.add(page)
    os.utime(page, ns=(10**18, 10**18))
    report = engine.add(page, settings=EXTRACTED)
    assert (len(report.changed), report.embedded) == (1, 0)
    assert next(engine.list()).summary
    assert engine.add(page, settings=EXTRACTED).skipped == 1


# -- plan, sync, cost


def test_a_plan_says_what_would_be_done_and_does_nothing(tmp_path: Path, page: Path) -> None:
    model = ScriptedLLM(describe)
    (page.parent / "bad.md").write_bytes(b"\xff\xfe\xfa")
    with Engine.open(tmp_path / "team.clew", embedder="hashed", llm=model) as engine:
        asking = replace(CONTEXTUAL, ingestion=replace(CONTEXTUAL.ingestion, summaries="llm"))
        priced = replace(asking, embedder=EmbedderConfig(price=1.0), llm=LLMConfig(prices=("scripted 10 20",)))
        planned = engine.plan(page.parent, settings=priced)
        assert model.usage.calls == 0
        assert engine.status().documents == 0
        assert planned.added == ("pages/chronicle.md",)
        assert [failure.source for failure in planned.failed] == ["pages/bad.md"]
        assert planned.embedded == planned.chunks > 0
        assert planned.calls == planned.chunks + 1
        assert planned.cost > 0
        report = engine.add(page.parent, settings=priced)
        assert (report.embedded, report.chunks) == (planned.embedded, planned.chunks)
        assert model.usage.calls == planned.calls
        again = engine.plan(page.parent, settings=priced)
        assert (again.unchanged, again.embedded, again.calls, again.cost) == (1, 0, 0, 0)


def test_sync_drops_what_has_vanished_and_nothing_else(engine: Engine, page: Path, tmp_path: Path) -> None:
    (page.parent / "gone.md").write_text("Soon gone.", encoding="utf-8")
    (tmp_path / "elsewhere.md").write_text("Elsewhere.", encoding="utf-8")
    engine.add(page.parent, tmp_path / "elsewhere.md")
    engine.add_documents([Document("made", "By a program."), Document("m2", "By another.", uri="pages/made.md")])
    (page.parent / "gone.md").unlink()
    (tmp_path / "elsewhere.md").unlink()
    assert engine.add(page.parent).dropped == 0
    assert engine.plan(page.parent, sync=True).dropped == ("pages/gone.md",)
    assert engine.add(page.parent, sync=True).dropped == 1
    assert {each.uri or each.id for each in engine.list()} == {
        "pages/chronicle.md",
        "elsewhere.md",
        "made",
        "pages/made.md",
    }


def test_a_ceiling_of_cost_too_low_for_a_call_still_makes_the_vectors_it_is_enough_for(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number:02}.md").write_text(long_page(4).replace("story", f"tale{number}"), encoding="utf-8")
    settings = Settings(embedder=EmbedderConfig(price=100.0))
    with Engine.open(tmp_path / "team.clew", embedder="hashed") as engine:
        first = engine.add(folder, settings=settings, max_cost=engine.plan(folder, settings=settings).cost)
        assert 0 < first.embedded < first.chunks  # a call reserves more than it costs, so the limit refuses all at once
        assert "limit" in first.stopped
        assert engine.add(folder, settings=settings).embedded == first.chunks - first.embedded


def test_a_ceiling_of_cost_is_never_passed_and_the_next_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number:02}.md").write_text(long_page(4).replace("story", f"tale{number}"), encoding="utf-8")
    prices = LLMConfig(prices=("scripted 1000 1000",))
    settings = replace(CONTEXTUAL, llm=prices, embedder=EmbedderConfig(price=100.0))
    with Engine.open(tmp_path / "team.clew", embedder="hashed", llm=ScriptedLLM(describe)) as engine:
        whole = engine.plan(folder, settings=settings).cost
        first = engine.add(folder, settings=settings, max_cost=whole / 4)
        assert 0 < first.cost <= whole / 4
        assert "limit" in first.stopped
        assert 0 < len(first.added) < 20
        assert engine.status().documents == len(first.added)
        second = engine.add(folder, settings=settings)
        assert not second.stopped
        assert second.skipped == len(first.added)
        assert len(second.added) == 20 - len(first.added)
        assert engine.add(folder, settings=settings, max_cost=0.0).skipped == 20
