"""`doctor` on how well a collection serves: it names what would make results worse, and nothing where all is well."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from clew import Document, Engine, Extensions, Message, Settings
from clew.core.doctor import Defect
from clew.core.errors import DriverFailed
from clew.core.languages import detect_language
from clew.core.protocols import Role
from clew.core.settings import StoreConfig
from clew.core.types import Matrix, Section
from clew.drivers.embed.hashed import HashedEmbedder
from clew.engine.doctor import check_room, inspect_thread
from tests.engine.chosen import OpenEngine, split_paragraphs

WORDS = [
    "anchor",
    "barge",
    "cable",
    "dock",
    "engine",
    "ferry",
    "gauge",
    "harbour",
    "inlet",
    "jetty",
    "keel",
    "lamp",
    "mast",
    "net",
    "oar",
    "pier",
    "quay",
    "rope",
    "sail",
    "tide",
]


def make_pages(count: int, *, words: Sequence[str] = WORDS, length: int = 40) -> list[Document]:
    """Pages of random sentences, no two of them alike."""
    rng = random.Random(7)
    return [
        Document(f"d{n}", " ".join(f"{rng.choice(words)}{rng.randint(0, 99)}" for _ in range(length)) + ".")
        for n in range(count)
    ]


def find(engine: Engine, area: str) -> list[Defect]:
    return [defect for defect in engine.doctor().defects if defect.area == area]


def test_clean_collections_have_no_findings(open_engine: OpenEngine, tmp_path: Path) -> None:
    engine = open_engine(embedder="hashed:32")
    assert engine.doctor().defects == ()  # empty
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.md").write_text("# Keys\n\nThey rotate.\n\n## Who\n\nInes does it.\n", "utf-8")
    (pages / "b.py").write_text('"""Reads the gauge."""\n\n\ndef level():\n    return 4\n', "utf-8")
    (pages / "c.csv").write_text("port,depth\nLowport,4\nHighport,9\n", "utf-8")
    engine.add(pages)
    engine.add_documents([Document("ru", "Ключи лежат в сейфе, и никто их не видел."), Document("blank", " \n")])
    engine.add_documents(
        [Document("hr", "Wages rise in May.", access=frozenset({"hr"}), meta={"year": 2024, "of": ["a"]})]
    )
    at = datetime(2024, 5, 1, tzinfo=UTC)
    engine.add_messages([Message(f"part {n}", "ann", at + timedelta(hours=n), f"m{n}", "ops") for n in range(30)])
    engine.add_messages([Message("a late reply", "bo", at, "late", "ops", "m3", access=frozenset({"hr"}))])
    engine.drop_messages("m5")
    engine.drop("hr")
    engine.add_documents([Document("ru", "Ключи лежат в столе.")])
    report = engine.doctor(full=True)
    assert report.defects == ()
    assert report.checked["documents"] == len(list(engine.list()))


@pytest.mark.slow
def test_an_index_on_disk_and_a_calibrated_collection_are_clean(tmp_path: Path) -> None:
    settings = Settings(store=StoreConfig(exact_below=10))
    with Engine.open(tmp_path, embedder="hashed:64", settings=settings) as engine:
        engine.add_documents(make_pages(110))
        assert engine.status().index != "exact"
        assert engine.doctor(full=True).defects == ()


def test_a_large_collection_is_sampled_unless_all_of_it_is_asked_for(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("clew.engine.doctor.MAX_CHUNKS", 10)
    with Engine.open(tmp_path, embedder="hashed:64") as engine:
        engine.add_documents(make_pages(30))
        report = engine.doctor()
        assert report.is_sample
        assert report.checked == {"documents": 10, "chunks": 10}
        assert report.defects == ()
        whole = engine.doctor(full=True)
        assert (whole.is_sample, whole.checked) == (False, {"documents": 30, "chunks": 30})
        assert not engine.doctor(repair=True).is_sample


class EnglishEmbedder(HashedEmbedder):
    """A model that says which languages it knows, and how much it reads at once."""

    languages = frozenset({"en"})
    max_tokens = 60


class DullEmbedder(HashedEmbedder):
    """A model whose vectors are almost the same for every text."""

    is_local = False

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        vectors = 0.05 * super().embed(texts, role=role)
        vectors[:, 0] += 1
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def test_languages_that_the_model_does_not_know_are_named(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder=EnglishEmbedder(64))
    english = [Document(f"e{n}", f"The {word} was at the pier, and it is there now.") for n, word in enumerate(WORDS)]
    assert engine.add_documents(english).noted == ()
    assert find(engine, "languages") == []
    german = [
        Document(f"g{n}", f"Der {word} war nicht an dem Kai, und das ist auch gut so.") for n, word in enumerate(WORDS)
    ]
    (noted,) = engine.add_documents(german).noted
    assert "does not know (de); words still find them; for meaning run `clew reembed multilingual`" in noted.reason
    assert engine.add_documents(german).noted == ()
    (found,) = find(engine, "languages")
    assert (found.severity, "(de)" in found.problem, "reembed" in found.advice) == ("advice", True, True)
    assert engine.doctor().is_sound


def test_a_small_collection_is_advised_too_and_by_the_same_count(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder=EnglishEmbedder(64))
    texts = ["Der {} war nicht an dem Kai, und das ist gut so.", "Nhóm vận hành thay chìa khóa của máy chủ {} này."]
    german, vietnamese = [[Document(text.format(word), text.format(word)) for word in WORDS] for text in texts]
    assert engine.add_documents(german[:2]).noted == ()
    (noted,) = engine.add_documents(german[2:3]).noted
    assert noted.reason.startswith("3 of 3 chunks are in languages that hashed:64 does not know (de); ")
    engine.add_documents([Document("table", "4417 | 12 | 0x3f"), Document("keys", "The keys are in the vault.")])
    (noted,) = engine.add_documents(german[3:5]).noted
    (found,) = find(engine, "languages")
    assert noted.reason == f"{found.problem}; {found.next_step}"
    assert found.problem.startswith("5 of 7 chunks")
    (noted,) = engine.add_documents(vietnamese).noted
    assert "(vi, de); words still find them; for meaning run `clew reembed hf:NAME`" in noted.reason
    assert "reembed multilingual" not in noted.reason
    (noted,) = engine.add_documents(german).noted
    assert "clew reembed multilingual`, which does not know vi: for these, `clew reembed hf:NAME`" in noted.reason


def test_a_mixed_collection_is_advised_another_embedder(open_engine: OpenEngine) -> None:
    embedder = EnglishEmbedder(64)
    embedder.name = "bge-small"
    texts = {
        "e": "The {} was at the pier, and it is there now.",
        "g": "Der {} war nicht an dem Kai, und das ist gut so.",
    }
    mixed = [Document(f"{id_}{n}", text.format(word)) for id_, text in texts.items() for n, word in enumerate(WORDS)]
    engine = open_engine(embedder=embedder)
    (noted,) = engine.add_documents(mixed).noted
    assert "run `clew reembed multilingual`" in noted.reason
    assert "reembed multilingual" in find(engine, "languages")[0].advice


def test_languages_are_told_by_words_and_scripts() -> None:
    texts = {
        "en": "the keys are in the vault and nobody has seen them",
        "de": "die Schlüssel sind in dem Tresor und niemand hat sie gesehen",
        "ru": "ключи лежат в сейфе",
        "ja": "鍵は金庫にあります",
        "": "4417 0x3f max_skew_ms",
    }
    assert {code: detect_language(text) for code, text in texts.items()} == {code: code for code in texts}


def test_chunks_that_are_too_long_or_say_nothing_are_named(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder=EnglishEmbedder(64), extensions=Extensions(chunker=split_paragraphs))
    engine.add_documents(make_pages(24, length=100))
    assert [each.severity for each in find(engine, "sizes")] == ["advice"]
    engine = open_engine(embedder="hashed:64", extensions=Extensions(chunker=split_paragraphs))
    engine.add_documents([Document("crumbs", "\n\n".join(f"{word} {n}" for n, word in enumerate(WORDS * 2)))])
    (found,) = find(engine, "sizes")
    assert "fewer than" in found.problem


def test_copies_are_named(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed:64")
    pages = make_pages(20)
    engine.add_documents(pages)
    assert find(engine, "duplicates") == []
    engine.add_documents([replace(page, id=f"copy of {page.id}") for page in pages[:15]])
    (found,) = find(engine, "duplicates")
    assert (found.severity, "30 of 35" in found.problem) == ("advice", True)


def test_a_model_that_tells_nothing_apart_is_named(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder=DullEmbedder(64))
    engine.add_documents(make_pages(24))
    (found,) = find(engine, "embeddings")
    assert (found.severity, "mean cosine" in found.problem) == ("warning", True)


def test_vectors_of_another_model_are_named(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed:64")
    engine.add_documents(make_pages(6))
    foreign = DullEmbedder(64)
    for stored in list(engine.opened.store.stored_documents()):
        vectors = foreign.embed([chunk.text[::-1] for chunk in stored.chunks], role="passage")
        engine.opened.store.put_many([replace(stored, vectors=vectors)])
    (found,) = find(engine, "embeddings")
    assert "are not those that hashed:64 makes" in found.problem
    assert not engine.doctor(repair=True).is_sound


def test_vectors_that_are_still_to_be_made_are_no_fault(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed:64")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HashedEmbedder, "embed", _fail)
        assert engine.add_documents(make_pages(110)).failed
    assert engine.status().pending
    assert engine.doctor().defects == ()


def _fail(*_: object, **__: object) -> Matrix:
    raise DriverFailed("the model is away")


def test_an_index_that_a_kill_left_unfinished_is_a_warning(tmp_path: Path) -> None:
    settings = Settings(store=StoreConfig(exact_below=0))
    with Engine.open(tmp_path, embedder="hashed:64", settings=settings) as engine:
        engine.add_documents(make_pages(3))
    (tmp_path / "default" / "index" / "shard-0123456789ab").mkdir(parents=True)
    with Engine.open(tmp_path, embedder="hashed:64", settings=settings) as engine:
        (found,) = find(engine, "orphans")
        assert (found.severity, found.remedy) == ("warning", "rebuild")
        assert engine.doctor().is_sound
        assert engine.doctor(repair=True).defects[0].is_repaired
        assert engine.doctor().defects == ()


def test_a_collection_without_calibration_is_named_and_calibrated(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed:64")
    engine.add_documents(make_pages(110))
    engine.opened.store.set_calibration("")
    (found,) = find(engine, "calibration")
    assert (found.severity, found.remedy) == ("warning", "rebuild")
    assert engine.doctor(repair=True).is_sound
    assert engine.doctor().defects == ()


def test_sources_that_are_gone_or_changed_are_named(open_engine: OpenEngine, tmp_path: Path) -> None:
    import os

    engine = open_engine(embedder="hashed:64")
    files = [tmp_path / f"{word}.md" for word in WORDS[:4]]
    for file in files:
        file.write_text(f"# {file.stem}\n\nThe {file.stem} is old.\n", "utf-8")
        os.utime(file, (1_600_000_000, 1_600_000_000))  # settled
    engine.add(*files)
    assert engine.doctor().defects == ()
    files[0].unlink()
    files[1].write_text("# Other\n\nIt is new.\n", "utf-8")
    gone, changed = find(engine, "sources")
    assert (gone.severity, "1 of 4 files are gone" in gone.problem, "--sync" in gone.advice) == ("warning", True, True)
    assert "1 of 4 files have changed" in changed.problem
    engine.add(files[1])
    engine.drop(str(files[0]))
    assert engine.doctor().defects == ()


def test_messages_that_wait_for_one_that_is_there_or_come_twice_are_named() -> None:
    sections = (Section(0, 1, id="a"), Section(1, 2, id="b", awaits="a"), Section(2, 3, id="b"))
    found = list(inspect_thread(Document("t", "abc", sections, kind="thread")))
    assert [("more than once" in each.problem, "waits for" in each.problem) for each in found] == [
        (True, False),
        (False, True),
    ]


def test_a_guess_over_a_long_silence_is_named() -> None:
    def guess(hours: int) -> list[str]:
        asked = Section(0, 1, id="a", at=datetime(2026, 5, 1, 9, tzinfo=UTC))
        reply = Section(1, 2, id="b", parent=0, guessed=True, at=asked.at and asked.at + timedelta(hours=hours))
        return [each.problem for each in inspect_thread(Document("t", "ab", (asked, reply), kind="thread"))]

    assert guess(12) == []
    assert guess(13) == ["1 guessed reply of the thread 't' bridge more than twelve hours"]
    assert guess(-1) == ["1 guessed reply of the thread 't' answer one that was written later"]


def test_room_on_the_disk() -> None:
    assert list(check_room(10 << 30, 1 << 30)) == []
    (found,) = check_room(1 << 30, 2 << 30)
    assert (found.area, found.severity) == ("disk", "warning")
    assert [each.area for each in check_room(1 << 20, 0)] == ["disk"]
