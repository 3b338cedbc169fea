"""The front door: every verb and every setting through Engine, on the real store, with no model."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from clew import (
    Document,
    DriverFailed,
    Engine,
    Filter,
    NotFound,
    Section,
    Settings,
    SettingsError,
    StoreMismatch,
    record,
)
from clew.core.protocols import Role
from clew.core.report import Progress
from clew.core.settings import ContextConfig, EmbedderConfig, IngestionConfig, SearchConfig, StoreConfig
from clew.core.types import Hit, Matrix, Query
from clew.drivers.embed.hashed import HashedEmbedder
from clew.query.search.evidence import EvidenceSource, Gathered
from tests.loopback import LoopbackHandler, LoopbackServer, serving

PAGES = {
    "vault.md": "# Vault\n\nSecrets live in the vault.\n\n"
    "## Rotation\n\nSigning keys are rotated every ninety days by Dan.\n",
    "oncall.md": "# On call\n\nThe pager rotation changes every Monday.\n\n"
    "## Escalation\n\nAfter ten minutes the lead is called.\n",
    "lunch.md": "---\ntitle: Lunch\ntags: [food, office]\nowner: ines\n---\n\n"
    "Soup is served at noon. The error E-4417 means no soup.\n",
    "notes.txt": "Plain notes about the tide gauge calibration in Lowport harbour.\n",
}


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "team.clew", embedder="hashed") as opened:
        yield opened


@pytest.fixture
def filled(engine: Engine, pages: Path) -> Engine:
    engine.add(pages)
    return engine


def uris(engine: Engine, hits: Sequence[Hit]) -> list[str]:
    return [hit.document.uri for hit in hits]


class Counting(HashedEmbedder):
    """Counts the texts it embeds, by role."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Role, int]] = []

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        self.calls.append((role, len(texts)))
        return super().embed(texts, role=role)


# -- add


def test_add_reports_what_it_did(engine: Engine, pages: Path) -> None:
    report = engine.add(pages)
    assert report.added == ("pages/lunch.md", "pages/notes.txt", "pages/oncall.md", "pages/vault.md")
    assert (report.changed, report.skipped, report.failed) == ((), 0, ())
    assert report.chunks == report.embedded == engine.status().chunks > 0


def test_adding_again_changes_nothing(filled: Engine, pages: Path) -> None:
    before = filled.status()
    report = filled.add(pages)
    assert (report.skipped, report.embedded, report.added) == (4, 0, ())
    assert filled.status() == before


def test_a_touched_file_is_read_but_not_embedded(filled: Engine, pages: Path) -> None:
    os.utime(pages / "vault.md", ns=(10**18, 10**18))
    report = filled.add(pages)
    assert (report.skipped, report.embedded) == (4, 0)


def test_only_changed_chunks_are_embedded(tmp_path: Path) -> None:
    counting = Counting()
    page = tmp_path / "long.md"
    parts = [f"## Part {number}\n\nWords about subject number {number} and nothing else.\n" for number in range(30)]
    page.write_text("# Long\n\n" + "\n".join(parts), encoding="utf-8")
    with Engine.open(tmp_path / "team.clew", embedder=counting) as engine:
        first = engine.add(page)
        parts[17] = "## Part 17\n\nSomething else altogether.\n"
        page.write_text("# Long\n\n" + "\n".join(parts), encoding="utf-8")
        second = engine.add(page)
        assert (second.changed, second.embedded) == (("long.md",), 1)
        assert second.reused == first.chunks - 1
        assert "Something else" in engine.search("something else altogether", k=1)[0].chunk.text
        assert not any("number 17" in hit.chunk.text for hit in engine.search("subject number 17", k=40))


def test_passages_are_embedded_together_and_queries_as_queries(tmp_path: Path, pages: Path) -> None:
    counting = Counting()
    with Engine.open(tmp_path / "team.clew", embedder=counting) as engine:
        report = engine.add(pages)
        engine.search("keys")
    assert counting.calls == [("passage", report.chunks), ("query", 1)]


def test_one_bad_file_is_reported_and_the_rest_added(engine: Engine, pages: Path) -> None:
    (pages / "empty.md").write_text("", encoding="utf-8")
    (pages / "binary.txt").write_bytes(b"\x00\x01\x02" * 50)
    (pages / "latin.md").write_bytes("Caf\xe9 au lait".encode("latin-1"))
    report = engine.add(pages, pages / "missing.md")
    assert len(report.added) == 5
    reasons = {failure.source.rsplit("/", 1)[-1]: failure.reason for failure in report.failed}
    assert set(reasons) == {"binary.txt", "missing.md"}
    assert all(reasons.values())


def test_a_name_that_is_not_unicode_is_reported(engine: Engine, pages: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(pages) + b"/bad\xff.md")).write_text("A page.", encoding="utf-8")
    except OSError:
        return  # this file system has only Unicode names
    report = engine.add(pages)
    assert len(report.added) == 4
    assert "not UTF-8" in report.failed[0].reason


def test_a_file_over_the_limit_is_refused_unread(engine: Engine, tmp_path: Path) -> None:
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(200_000_000)  # a hole: no disk is filled
    report = engine.add(huge)
    assert report.failed[0].source == "huge.txt"
    assert "200" in report.failed[0].reason
    small = Settings(ingestion=IngestionConfig(max_file_bytes=10))
    (tmp_path / "small.md").write_text("more than ten bytes", encoding="utf-8")
    assert engine.add(tmp_path / "small.md", settings=small).failed
    assert not engine.add(tmp_path / "small.md").failed


def test_a_web_page_by_its_address(engine: Engine, tmp_path: Path) -> None:
    class Page(LoopbackHandler):
        def answer(self) -> None:
            page = b"<title>Tides</title><nav>menu</nav><h1>Tides</h1><p>High water is at noon.</p>"
            self.reply(200, {"Content-Type": "text/html"}, page)

    with serving(LoopbackServer(Page)) as server:
        url = f"{server.url}/tides"
        refused = engine.add(url)
        assert "private" in refused.failed[0].reason
        allowed = Settings(ingestion=IngestionConfig(allow_private=True))
        assert engine.add(url, settings=allowed).added == (url,)
        assert engine.add(url, settings=allowed).skipped == 1
    assert "High water" in engine.search("high water", k=1)[0].chunk.text
    assert engine.read(url).title == "Tides"


def test_a_loop_of_folders_ends(engine: Engine, pages: Path) -> None:
    (pages / "loop").symlink_to(pages, target_is_directory=True)
    assert len(engine.add(pages).added) == 4


def test_files_of_one_name_do_not_collide(engine: Engine, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "readme.md").write_text(f"This is the page of {folder}.", encoding="utf-8")
    assert len(engine.add(tmp_path / "a", tmp_path / "b").added) == 2
    assert engine.status().documents == 2


def test_other_chunk_settings_cut_again(filled: Engine, pages: Path) -> None:
    before = filled.status().chunks
    report = filled.add(pages, settings=Settings(ingestion=IngestionConfig(chunk_size=8, chunk_overlap=0)))
    assert len(report.changed) == 4
    assert filled.status().chunks > before


def test_overlap_is_shared_by_neighbours(engine: Engine, tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text(" ".join(f"This is sentence number {number}." for number in range(40)), encoding="utf-8")

    def shared(overlap: int) -> int:
        engine.add(page, settings=Settings(ingestion=IngestionConfig(chunk_size=40, chunk_overlap=overlap)))
        hits = sorted(engine.search("sentence number", k=50), key=lambda hit: hit.chunk.start)
        return sum(max(0, a.chunk.end - b.chunk.start) for a, b in pairwise(hits))

    assert shared(0) == 0
    assert shared(15) > 0


def test_plain_windows_ignore_structure(engine: Engine, pages: Path) -> None:
    engine.add(pages / "vault.md")
    assert len(list(engine.search("keys vault secrets", k=50))) > 1
    engine.add(pages / "vault.md", settings=Settings(ingestion=IngestionConfig(use_semantic_chunking=False)))
    assert engine.status().chunks == 1


def test_language_of_the_words(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "de.md").write_text("Die Häuser stehen am Hafen.", encoding="utf-8")
    german = Settings(ingestion=IngestionConfig(language="de"))
    english = Settings(ingestion=IngestionConfig(language="en"))
    engine.add(tmp_path / "de.md", settings=english)
    assert not engine.search("Haus", strategy="lexical", settings=english)
    engine.add(tmp_path / "de.md", settings=german)
    assert engine.search("Haus", strategy="lexical", settings=german)
    with pytest.raises(SettingsError, match="klingon"):
        engine.add(tmp_path / "de.md", settings=Settings(ingestion=IngestionConfig(language="klingon")))


def test_documents_of_a_program(engine: Engine) -> None:
    report = engine.add_documents(
        [
            Document("it's", "# Quoted\n\nAn id with a quote.", uri="mem://quoted"),
            Document("other", "Another text.", meta={"team": "blue"}),
            Document("void", "  "),
        ]
    )
    assert report.added == ("mem://quoted", "other")
    assert [failure.source for failure in report.failed] == ["void"]
    assert engine.read("it's").sections[0].label == "Quoted"
    assert engine.search("text", where=Filter(meta={"team": "blue"}), k=9)[0].chunk.doc_id == "other"


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ((Section(0, 4), Section(5, 10)), "do not cover"),
        ((Section(0, 4),), "end at 4"),
        ((Section(0, 10, parent=3),), "a parent that does not exist"),
        ((Section(0, 10, parent=0),), "its own ancestor"),
        ((Section(0, 4, parent=1), Section(4, 10, parent=0)), "its own ancestor"),
    ],
)
def test_sections_that_cannot_be_are_refused(engine: Engine, sections: tuple[Section, ...], says: str) -> None:
    report = engine.add_documents([Document("d", "0123456789", sections), Document("e", "good")])
    assert report.added == ("e",)
    assert says in report.failed[0].reason


def test_progress_counts_up_and_ends_at_the_total(engine: Engine, pages: Path) -> None:
    seen: list[Progress] = []
    engine.add(pages, on_progress=seen.append)
    for stage, total in (("adding", 4), ("embedding", engine.status().chunks)):
        told = [each for each in seen if each.stage == stage]
        assert told[-1].done == told[-1].total == total
        assert [each.done for each in told] == sorted(each.done for each in told)


@pytest.mark.slow
def test_progress_is_told_again_while_one_document_takes_long(engine: Engine) -> None:
    seen: list[Progress] = []
    told_again = threading.Event()

    def note(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            told_again.set()

    def make_documents() -> Iterator[Document]:
        yield Document("a", "Keys rotate weekly.")
        assert told_again.wait(20), "nothing was told"
        yield Document("b", "Doors open at nine.")

    assert engine.add_documents(make_documents(), on_progress=note).added == ("a", "b")


def test_the_error_that_ended_an_add_is_raised_though_the_indexes_cannot_be_built_either(
    tmp_path: Path, pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(HashedEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            return super().embed(texts[1:], role=role)

    def cannot_flush(_: object, **__: object) -> None:
        raise DriverFailed("the disk is full")

    monkeypatch.setattr("clew.drivers.store.store.Store.flush", cannot_flush)
    down = pytest.raises(DriverFailed, match="count mismatch")
    full = pytest.raises(DriverFailed, match=r"everything is stored, but the indexes .*: the disk is full")
    with Engine.open(tmp_path / "team.clew", embedder=Broken()) as engine, down:
        engine.add(pages)
    with Engine.open(tmp_path / "other.clew", embedder="hashed") as engine, full:
        engine.add(pages)


@pytest.mark.parametrize(("passed_over", "pending"), [("", 0), ("Another", 1)])
def test_too_few_vectors_are_an_error_and_cost_only_the_texts_without_one(
    tmp_path: Path, passed_over: str, pending: int
) -> None:
    class Short(HashedEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            kept = [text for text in texts if passed_over not in text] if passed_over else texts[:1]
            return super().embed(kept, role=role)

    with Engine.open(tmp_path / "team.clew", embedder=Short()) as engine:
        with pytest.raises(DriverFailed, match="count mismatch"):
            engine.add_documents(
                [Document("a", "One text."), Document("b", "Another text."), Document("c", "A third.")]
            )
        assert (engine.status().documents, engine.status().pending) == (3, pending)


def test_odd_documents_cost_only_themselves(engine: Engine) -> None:
    report = engine.add_documents(
        [
            Document("half", "half a pair \ud800"),
            Document("keys", "Odd keys.", meta={1: 2, "when": object()}),  # type: ignore[dict-item]
            Document("fine", "All is fine."),
            Document("fine", "The same id again."),
        ]
    )
    assert report.added == ("keys", "fine")
    assert {failure.source for failure in report.failed} == {"half", "fine"}
    assert engine.read("fine").text == "All is fine."


def test_what_a_program_says_of_its_document_is_kept(engine: Engine) -> None:
    engine.add_documents([Document("a", "The text of it.", uri="one", summary="By hand.")])
    assert next(engine.list()).summary == "By hand."
    engine.add_documents([Document("a", "The text of it.", uri="two", summary="By hand, again.")])
    assert (next(engine.list()).uri, next(engine.list()).summary) == ("two", "By hand, again.")


def test_a_file_that_was_new_is_not_read_for_ever(engine: Engine, pages: Path) -> None:
    engine.add(pages)
    assert all(each.stamp.startswith("unsettled") for each in engine.list())
    for page in pages.iterdir():
        os.utime(page, (1_700_000_000, 1_700_000_000))
    change = engine.status().change
    assert engine.add(pages).skipped == 4
    assert all(each.stamp.startswith("1700000000") for each in engine.list())
    assert engine.status().change == change  # nothing that can be found has changed


def test_secrets_and_collections_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("A page.", encoding="utf-8")
    (tmp_path / "clew.toml").write_text('[embedder]\napi_key = "secret"', encoding="utf-8")
    (tmp_path / "outside.txt").write_text("outside", encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    with Engine.open(tmp_path / "odd name", embedder="hashed") as engine:
        (tmp_path / "odd name" / "default" / "notes.txt").write_text("inside a collection", encoding="utf-8")
        assert engine.add(folder).added == ()
        assert engine.add(tmp_path).added == ("outside.txt", "page.md")


def test_a_collection_reached_through_a_link_is_the_same(tmp_path: Path, pages: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for root in (tmp_path, tmp_path / "link"):
        with Engine.open(root / "team.clew", embedder="hashed") as engine:
            engine.add(root / "pages")
            assert engine.status().documents == 4


# -- drop, list, read


def test_drop_by_address_and_by_id(filled: Engine) -> None:
    vault = next(each for each in filled.list() if each.uri.endswith("vault.md"))
    assert filled.drop("pages/lunch.md", vault.id) == 2
    assert [each.uri for each in filled.list()] == ["pages/notes.txt", "pages/oncall.md"]
    assert not any("vault" in uri for uri in uris(filled, filled.search("secrets in the vault", k=10)))


def test_an_unknown_document_is_not_found_and_the_near_one_named(filled: Engine) -> None:
    with pytest.raises(NotFound, match=r"pages/vault\.md"):
        filled.read("pages/valt.md")
    with pytest.raises(NotFound):
        filled.drop("pages/lunch.md", "nothing like it")
    with pytest.raises(NotFound):
        filled.read("a\0b")
    assert filled.status().documents == 4


def test_read_gives_the_text_back(filled: Engine, pages: Path) -> None:
    assert filled.read("pages/vault.md").text == PAGES["vault.md"]
    assert filled.read(str(pages / "vault.md")).title == "Vault"


def test_list_filters_and_front_matter(filled: Engine) -> None:
    assert [each.uri for each in filled.list(Filter(meta={"tags": "food"}))] == ["pages/lunch.md"]
    assert [each.title for each in filled.list(Filter(meta={"owner": "ines"}))] == ["Lunch"]


# -- search


def test_search_three_ways(filled: Engine) -> None:
    for strategy in ("semantic", "lexical", "hybrid"):
        hits = filled.search("who rotates the signing keys?", k=3, strategy=strategy)
        assert uris(filled, hits)[0] == "pages/vault.md", strategy
        assert hits[0].chunk.headings == ("Vault", "Rotation")
        assert strategy in hits[0].scores
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {"semantic", "lexical", "hybrid"} <= filled.search("signing keys")[0].scores.keys()


def test_chunks_are_spans_of_their_document(filled: Engine) -> None:
    for hit in filled.search("the", k=50):
        assert filled.read(hit.chunk.doc_id).text[hit.chunk.start : hit.chunk.end] == hit.chunk.text


def test_an_identifier_is_found_by_its_word(filled: Engine) -> None:
    assert uris(filled, filled.search("E-4417", k=1)) == ["pages/lunch.md"]


def test_k(filled: Engine) -> None:
    assert len(filled.search("the keys", k=1)) == 1
    assert len(filled.search("the keys", settings=Settings(search=SearchConfig(k=2)))) == 2
    every = Settings(search=SearchConfig(min_similarity=-1))
    assert len(filled.search("the keys rotation", k=100, settings=every)) == filled.status().chunks


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda e: e.search("keys", k=10**30), "at most"),
        (lambda e: e.search("  "), "query is empty"),
        (lambda e: e.context("keys", tokens=0), "tokens is 0"),
        (lambda _: Settings(search=SearchConfig(depth=0)), "search.depth"),
        (lambda _: Settings(search=SearchConfig(mode="fast")), "search.mode"),  # type: ignore[arg-type]
        (lambda _: Settings(search=SearchConfig(semantic_weight=1.5)), "search.semantic_weight"),
        (lambda _: Settings(search=SearchConfig(document_weight=1.5)), "search.document_weight"),
        (lambda _: Settings(search=SearchConfig(fusion="sum")), "search.fusion"),  # type: ignore[arg-type]
        (lambda _: Settings(search=SearchConfig(overfetch=0)), "search.overfetch"),
        (lambda _: Settings(search=SearchConfig(nprobe=0)), "search.nprobe"),
        (lambda _: Settings(search=SearchConfig(min_similarity=2)), "search.min_similarity"),
        (lambda _: Settings(ingestion=IngestionConfig(chunk_size=100, chunk_overlap=100)), "chunk_overlap"),
        (lambda _: Settings(context=ContextConfig(render="prose")), "context.render"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused_by_name(filled: Engine, call: Callable[[Engine], object], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        call(filled)


def test_an_unknown_strategy_lists_those_there_are(filled: Engine) -> None:
    with pytest.raises(NotFound, match="semantic, lexical, hybrid"):
        filled.search("keys", strategy="magic")
    with pytest.raises(NotFound, match="numbered"):
        filled.context("keys", render="magic")


def search_with(engine: Engine, text: str, strategy: str, **search: object) -> list[tuple[str, float]]:
    settings = Settings(search=SearchConfig(**search))  # type: ignore[arg-type]
    return [(hit.chunk.id, round(hit.score, 9)) for hit in engine.search(text, strategy=strategy, settings=settings)]


@pytest.mark.parametrize(
    ("strategy", "one", "other"),
    [
        ("semantic", {"min_similarity": 0.0}, {"min_similarity": 0.99}),
        ("hybrid", {"fusion": "convex"}, {"fusion": "rrf"}),
        ("hybrid", {"semantic_weight": 1.0}, {"semantic_weight": 0.0}),
        ("hybrid", {"depth": 1, "k": 1}, {"depth": 50, "k": 5}),
    ],
)
def test_each_setting_changes_the_outcome(
    filled: Engine, strategy: str, one: dict[str, object], other: dict[str, object]
) -> None:
    asked = "rotation of the pager on Monday"
    assert search_with(filled, asked, strategy, **one) != search_with(filled, asked, strategy, **other)


@pytest.mark.parametrize(("k", "overfetch", "asked"), [(5, 5, 25), (5, 3, 15), (1, 5, 15), (10, 5, 50)])
@pytest.mark.parametrize("strategy", ["semantic", "lexical"])
def test_a_single_ranking_asks_for_a_few_times_k(
    filled: Engine, monkeypatch: pytest.MonkeyPatch, strategy: str, k: int, overfetch: int, asked: int
) -> None:
    seen, gather = list[int](), EvidenceSource.gather

    def note(source: EvidenceSource, queries: Sequence[Query], depth: int) -> list[Gathered]:
        seen.append(depth)
        return gather(source, queries, depth)

    monkeypatch.setattr(EvidenceSource, "gather", note)
    filled.search("keys", k=k, strategy=strategy, settings=Settings(search=SearchConfig(overfetch=overfetch)))
    assert seen == [asked]


def test_a_failed_search_raises(tmp_path: Path, pages: Path) -> None:
    with Engine.open(tmp_path / "team.clew", embedder="hashed") as engine:
        engine.add(pages)
    with pytest.raises(DriverFailed):
        engine.search("keys")


# -- context and explain


def test_context_is_numbered_cited_and_within_its_budget(filled: Engine) -> None:
    anything = Settings(context=ContextConfig(min_chance=0.0, min_relevance=0.0))
    context = filled.context("who rotates the signing keys?", tokens=120, settings=anything)
    assert context.text.startswith("[1] Vault > Rotation\n")
    assert "(Source: pages/vault.md)" in context.text
    assert 0 < context.tokens <= 120
    for passage in context.passages:
        text = next(filled.read(each.id).text for each in context.documents if each.uri == passage.source)
        assert "".join(text[start:end] for start, end in passage.spans) == passage.text
    tight = filled.context("who rotates the signing keys?", tokens=40, settings=anything)
    assert len(tight.passages) < len(context.passages)
    assert {each.reason for each in tight.dropped} == {"budget"}
    assert filled.context("keys", settings=Settings(context=ContextConfig(tokens=40))).tokens <= 40
    assert len(filled.context("keys", settings=Settings(context=ContextConfig(k=1))).passages) == 1


def test_an_empty_context_says_why(engine: Engine, pages: Path) -> None:
    assert engine.context("keys").reason == "the collection is empty"
    engine.add(pages)
    where = Filter(kinds=frozenset({"thread"}))
    assert engine.context("keys", where=where).reason == "there is no kind 'thread'; there are page"
    assert "fits in 1 token" in engine.context("keys", tokens=1).reason
    assert engine.context("keys", tokens=1).text == ""


def test_explain_shows_stages_and_scores(filled: Engine) -> None:
    explained = filled.explain("signing keys rotation", k=2)
    assert all(explained.trace.find(name) for name in ("embed", "candidates", "rank"))
    assert all(explained.trace.find_note(name) for name in ("semantic", "lexical"))
    shown = str(explained)
    assert "by hybrid: 2 hits" in shown
    assert "pages/vault.md > Vault > Rotation" in shown
    assert "lexical" in shown
    with record() as trace:
        filled.search("keys", strategy="lexical")
    assert trace.find_note("strategy") == "lexical"
    assert trace.find("rank")


# -- collections, models, processes


@pytest.mark.parametrize("name", ["", "../other", "a/b", ".hidden", "a\\b"])
def test_a_collection_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="plain name"):
        Engine.open(tmp_path / "team.clew", collection=name, embedder="hashed")


def test_another_model_is_refused_and_the_own_one_remembered(tmp_path: Path, pages: Path) -> None:
    with Engine.open(tmp_path / "team.clew", embedder="hashed:64") as engine:
        engine.add(pages)
    with pytest.raises(StoreMismatch, match="hashed"):
        Engine.open(tmp_path / "team.clew", embedder="wordllama")
    with Engine.open(tmp_path / "team.clew") as engine:
        assert engine.search("keys")
        assert engine.status().dim == 64
    with pytest.raises(StoreMismatch):
        Engine.open(tmp_path / "team.clew", settings=Settings(embedder=EmbedderConfig(name="hashed:32")))


def test_no_collection_is_not_found_unless_it_may_be_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no collection 'default'"):
        Engine.open(tmp_path / "team.clew", embedder="hashed", create=False)
    assert not (tmp_path / "team.clew").exists()


def test_in_memory(pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add("pages")
        assert uris(engine, engine.search("signing keys", k=1)) == ["pages/vault.md"]
    assert not [each for each in tmp_path.iterdir() if each.name != "pages"]


def test_addresses_do_not_depend_on_where_one_stands(
    filled: Engine, pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pages)
    assert filled.add(".", "vault.md").skipped == 4
    assert filled.status().documents == 4
    assert filled.read("vault.md").uri == "pages/vault.md"


def test_the_index_above_the_exact_limit_answers_alike(tmp_path: Path, pages: Path) -> None:
    answers = []
    for name, config in (("exact", StoreConfig()), ("shard", StoreConfig(exact_below=0))):
        with Engine.open(tmp_path / name, embedder="hashed", settings=Settings(store=config)) as engine:
            engine.add(pages)
            assert name in engine.status().index
            answers.append(
                [
                    [(hit.chunk.text, pytest.approx(hit.score, abs=1e-5)) for hit in engine.search(asked, k=9)]
                    for asked in ("signing keys", "soup E-4417", "rotation on Monday")
                ]
            )
    assert answers[0] == answers[1]


def test_threads_may_share_an_engine(filled: Engine, pages: Path) -> None:
    found: list[str] = []

    def work(number: int) -> None:
        (pages / f"extra{number}.md").write_text(f"Extra page {number} about whales.", encoding="utf-8")
        filled.add(pages / f"extra{number}.md")
        found.extend(uris(filled, filled.search(f"extra page {number} whales", k=1)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [f"pages/extra{number}.md" for number in range(8)]


def test_settings_of_a_call_do_not_stay(filled: Engine) -> None:
    settings = replace(Settings(), search=SearchConfig(strategy="lexical"))
    assert filled.search("keys", settings=settings)[0].scores.keys() == {"lexical", "match", "answer"}
    assert "hybrid" in filled.search("keys")[0].scores
