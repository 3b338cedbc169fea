"""Adding through the engine: words are stored first and find at once, vectors follow, whatever fails or is killed."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from clew import Document, Engine, Extensions, Filter, Message, Progress, Settings, record
from clew.core.errors import DriverFailed
from clew.core.protocols import Role
from clew.core.settings import EmbedderConfig, IngestionConfig
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.store import embed
from clew.drivers.store.store import Store
from clew.index.add import embed as embed_first
from tests.engine.conftest import STORES

PAGES = [Document(f"p{number}", f"# Page {number}\n\nThe gauge {number} is read at noon.") for number in range(12)]


class Watched(HashedEmbedder):
    """Counts the texts that it embeds; `works` after so many fails."""

    def __init__(self, works: int | None = None) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.works = works

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        if role == "passage":
            if self.works is not None and len(self.texts) >= self.works:
                raise DriverFailed("the model is gone")
            self.texts += texts
        return super().embed(texts, role=role)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder, or the address of a database."""
    return str(tmp_path / "team.clew" if request.param == "folder" else request.getfixturevalue("postgres"))


def embed_by(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of the model take so many texts, so that few are many."""
    monkeypatch.setattr(embed, "SLICE", count)
    monkeypatch.setattr(embed_first, "SLICE", count)


def stored(engine: Engine) -> dict[str, Any]:
    return {each.document.id: each.fingerprint() for each in engine.opened.store.stored_documents()}


def test_words_are_stored_before_the_first_vector_is_made(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embed_by(11, monkeypatch)
    stages: list[str] = []
    with Engine.open(place, embedder="hashed") as engine, Engine.open(place, embedder="hashed") as other:

        def look(progress: Progress) -> None:
            stages.append(progress.stage)
            if progress.stage == "embedding" and not progress.done:
                assert other.status().pending == 12
                (hit, *_) = other.search("gauge 7")
                assert hit.chunk.doc_id == "p7"
                assert math.isnan(hit.similarity)
                assert 0 < hit.relevance <= 1

        report = engine.add_documents(PAGES, on_progress=look)
        assert (len(report.added), report.chunks, report.embedded) == (12, 12, 12)
        assert list(dict.fromkeys(stages))[:2] == ["adding", "embedding"]
        assert engine.status().pending == 0
        (hit, *_) = other.search("gauge 7")
        assert hit.chunk.doc_id == "p7"
        assert not math.isnan(hit.similarity)


def test_a_model_that_fails_loses_nothing_and_backfill_goes_on(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embed_by(2, monkeypatch)
    model = Watched(works=4)
    with Engine.open(place, embedder=model) as engine, Engine.open(":memory:", embedder="hashed") as plain:
        report = engine.add_documents(PAGES)
        assert (len(report.added), report.embedded) == (12, 4)
        (failure,) = report.failed
        assert failure.source == model.name
        assert "the model is gone" in failure.reason
        assert "4 of 12 chunks are searchable by meaning" in failure.reason
        assert engine.status().pending == 8
        assert {each.area for each in engine.doctor().defects} == {"embeddings"}  # what is pending is no damage
        assert engine.search("gauge 3")[0].chunk.doc_id == "p3"
        assert "gauge 3" in engine.context("When is gauge 3 read?").text
        model.works = None
        report = engine.backfill()
        assert (report.embedded, report.failed, engine.status().pending) == (8, (), 0)
        assert len(model.texts) == len(set(model.texts)) == 12
        plain.add_documents(PAGES)
        assert stored(engine) == stored(plain)


def test_a_few_texts_are_stored_with_their_vectors_by_one_commit(place: str) -> None:
    settings, stages = Settings(ingestion=IngestionConfig(summaries="extractive")), list[tuple[str, int, int | None]]()
    model = Watched()
    with (
        Engine.open(place, embedder=model, settings=settings) as engine,
        Engine.open(place, embedder="hashed") as other,
    ):

        def look(progress: Progress) -> None:
            stages.append((progress.stage, progress.done, progress.total))
            if progress.stage == "embedding":
                assert other.status().documents == 1

        (heading, *paragraphs) = ("# Gauges", *(f"The gauge {n} is read at {n}.\n" * 20 for n in range(12)))
        assert engine.add_documents([Document("log", "\n\n".join([heading, *paragraphs]))]).embedded > 9
        before, chunks = engine.status(), len(model.texts)
        paragraphs[5] = "The gauge 5 is gone.\n" * 20
        report = engine.add_documents([Document("log", "\n\n".join([heading, *paragraphs]))], on_progress=look)
        assert 0 < report.embedded == len(model.texts) - chunks < 4
        assert (report.embedded + report.reused, engine.status().pending) == (report.chunks, 0)
        assert engine.status().change == before.change + 1
        assert ("embedding", 0, report.embedded) in stages
        assert ("embedding", report.embedded, report.embedded) in stages
        assert all(each.summary_vector is not None for each in engine.opened.store.stored_documents())
        assert not engine.doctor().defects


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no memory"), DriverFailed("no answer")])
def test_a_few_texts_that_cannot_be_embedded_are_stored_all_the_same(place: str, error: BaseException) -> None:
    class Failing(Watched):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            if self.works == 0:
                raise error
            return super().embed(texts, role=role)

    model = Failing(works=0)
    with Engine.open(place, embedder=model) as engine:
        with suppress(KeyboardInterrupt):
            engine.add_documents(PAGES[:3])
        assert (engine.status().documents, engine.status().pending) == (3, 3)
        model.works = None
        assert engine.add_documents(PAGES[:3]).embedded == 3
        assert len(model.texts) == 3


def test_messages_are_kept_whatever_a_model_of_ones_own_raises(place: str) -> None:
    class Failing(Watched):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            if role == "passage":
                raise RuntimeError("no memory")
            return super().embed(texts, role=role)

    with Engine.open(place, embedder=Failing()) as engine:
        report = engine.add_messages([Message("The gauge is read at noon.", id="m", channel="yard")])
        assert (report.added, engine.status().pending) == (("m",), 1)
        (note,) = report.noted
        assert "failed with RuntimeError: no memory" in note.reason
        assert [hit.chunk.meta["message"] for hit in engine.search("gauge")] == ["m"]


@pytest.mark.parametrize("bad", [np.full((3, 256), math.nan), np.ones((3, 256)), np.ones((3, 255))])
def test_a_few_vectors_that_are_none_are_not_stored(place: str, bad: Matrix) -> None:
    class Wrong(HashedEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            return bad[: len(texts)].astype(np.float32) if role == "passage" else super().embed(texts, role=role)

    with Engine.open(place, embedder=Wrong()) as engine:
        report = engine.add_documents(PAGES[:3])
        assert (len(report.added), report.embedded, len(report.failed), engine.status().pending) == (3, 0, 3, 3)


def test_a_trace_and_a_reason_count_what_is_pending_within_the_filter(place: str) -> None:
    model = Watched()
    with Engine.open(place, embedder=model) as engine:
        engine.add_documents(PAGES[:4])
        model.works = 0
        engine.add_documents([Document("late", "The buoy is red.")])
        late, early = (Filter(documents=frozenset(each)) for each in (("late", "p0"), ("p0", "p1")))
        with record() as trace:
            engine.search("gauge 3")
        assert trace.find_note("pending") == "4 of 5 chunks are searchable by meaning, the others by words"
        with record() as trace:
            engine.search("gauge 3", where=late)
        assert trace.find_note("pending") == "1 of 2 chunks are searchable by meaning, the others by words"
        with record() as trace:
            engine.within(early).search("gauge 3")
        assert trace.find_note("pending") is None
        only = engine.within(Filter(documents=frozenset({"late"})))
        for reason in (only.context("xylophone").reason, only.ask("What is a xylophone?").context.reason):
            assert "0 of 1 chunks are searchable by meaning" in reason


def test_an_add_that_reads_for_long_is_known_to_be_at_work(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, is_read = Event(), Event()

    def read_slowly(data: bytes, uri: str) -> str:
        reads.set()
        assert is_read.wait(60)
        return f"{uri}: {data.decode()}"

    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "a.png").write_text("A buoy.")
    (folder / "b.pdf").write_text("A scan of a chart.")
    (folder / "c.md").write_text("The gauge is read at noon.")
    monkeypatch.chdir(tmp_path)
    slow = dict.fromkeys((".png", ".pdf"), read_slowly)
    with (
        Engine.open(place, embedder="hashed", extensions=Extensions(readers=slow)) as engine,
        Engine.open(place, embedder="hashed") as other,
        ThreadPoolExecutor() as pool,
    ):
        work = pool.submit(engine.add, folder)
        try:
            assert reads.wait(60)
            for _ in range(600):
                stats = other.status()
                if stats.pending and stats.is_embedding:
                    break
                time.sleep(0.1)
            assert [hit.document.uri for hit in other.search("gauge")] == ["pages/c.md"]  # what is slow is read last
            assert stats.pending == 1
            assert "an add is at work: it reads" in stats.explain_pending()
        finally:
            is_read.set()
        assert work.result().added == ("pages/c.md", "pages/b.pdf", "pages/a.png")
        assert (other.status().pending, other.status().is_embedding) == (0, False)


def test_an_add_beside_another_makes_its_own_vectors_and_the_last_one_the_rest(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "SIGN_SECONDS", 0.01)
    embed_by(11, monkeypatch)
    small = Watched()
    with Engine.open(place, embedder=Watched(works=0)) as broken:
        broken.add_documents([Document("early", "The mast is tall.")])
    with Engine.open(place, embedder="hashed") as big, Engine.open(place, embedder=small) as beside:

        def add_beside(progress: Progress) -> None:
            if small.texts or progress.done < 12:
                return
            while not beside.status().is_embedding:
                time.sleep(0.01)
            report = beside.add_documents([Document("small", "The buoy is red.")])
            assert (report.added, report.embedded, report.failed) == (("small",), 1, ())
            assert small.texts == ["The buoy is red."]
            assert beside.status().pending == 13

        assert big.add_documents(PAGES, on_progress=add_beside).embedded == 13
        assert small.texts
        assert big.status().pending == 0


def test_of_two_that_end_together_the_last_one_makes_the_rest(place: str) -> None:
    with Engine.open(place, embedder="hashed") as engine:
        store = engine.opened.store
        with store.at_work() as one, store.at_work() as two:
            assert not one.leave()
            assert two.has_others()
            assert two.leave()
            assert not one.has_others()
            assert not one.leave()
        assert not engine.status().is_embedding


def test_the_time_left_is_estimated_by_the_length_of_the_texts_and_agrees_with_the_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embed_by(8, monkeypatch)
    now, left = 0.0, dict[float, float]()

    class Slow(HashedEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            nonlocal now
            now += sum(map(len, texts))  # a second a character
            return super().embed(texts, role=role)

    def look(progress: Progress) -> None:
        if progress.stage == "embedding" and progress.seconds_left is not None:
            left[now] = progress.seconds_left
            remaining = (progress.total or 0) - progress.done
            assert remaining == pytest.approx(progress.rate * progress.seconds_left) or not remaining

    monkeypatch.setattr("clew.index.add.embed.monotonic", lambda: now)
    long = [Document(f"l{n}", f"The log of day {n}: {'rain and wind ' * 40}") for n in range(40)]
    with Engine.open(":memory:", embedder=Slow()) as engine:
        engine.add_documents([*PAGES, *long], on_progress=look)
    end = max(left)
    for moment, estimate in left.items():  # short texts are embedded first
        assert estimate == pytest.approx(end - moment, rel=0.2, abs=1)


def test_the_next_add_makes_what_is_left(place: str) -> None:
    model = Watched(works=0)
    with Engine.open(place, embedder=model) as engine:
        engine.add_documents(PAGES[:6])
        model.works = None
        report = engine.add_documents(PAGES)
        assert (len(report.added), report.skipped, report.embedded) == (6, 6, 12)
        assert engine.status().pending == 0


def test_an_add_that_is_killed_again_and_again_makes_each_vector_once(place: str, tmp_path: Path) -> None:
    done = tmp_path / "done"
    program = (
        "import os, sys; from clew import Engine, Document; from clew.drivers.store import embed\n"
        "from clew.index.add import embed as embed_first\n"
        "from clew.drivers.embed.hashed import HashedEmbedder\n"
        "embed.SLICE = embed_first.SLICE = 2; made, write = HashedEmbedder.embed, embed._write_vectors\n"
        "def kept(run, kind, rows, vectors):\n"
        "    count = write(run, kind, rows, vectors)\n"
        "    with open(sys.argv[2], 'a') as file: file.write(''.join(f'{row[\"text\"]!r}\\n' for row in rows))\n"
        "    os._exit(9)\n"
        "embed._write_vectors = kept\n"
        "pages = [Document(f'p{n}', f'# Page {n}\\n\\nThe gauge {n} is read at noon.') for n in range(12)]\n"
        "Engine.open(sys.argv[1], embedder='hashed').add_documents(pages)\n"
    )
    for _ in range(6):
        ended = subprocess.run([sys.executable, "-c", program, place, str(done)], capture_output=True, timeout=120)
        assert ended.returncode == 9, ended.stderr.decode()
    texts = done.read_text().splitlines()
    assert len(texts) == len(set(texts)) == 12
    with Engine.open(place, embedder="hashed") as engine:
        assert (engine.status().chunks, engine.status().pending) == (12, 0)
        assert engine.add_documents(PAGES).skipped == 12


def test_texts_that_cannot_be_embedded_stop_no_others(tmp_path: Path) -> None:
    class Picky(HashedEmbedder):
        def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
            if role == "passage" and any("bad" in text for text in texts):
                raise DriverFailed("cannot embed that")
            return super().embed(texts, role=role)

    bad = [Document(f"b{number}", f"bad {number}") for number in range(4)]  # the shortest come first
    with Engine.open(tmp_path, embedder=Picky()) as engine:
        report = engine.add_documents([*bad, *PAGES])
        assert (len(report.added), report.embedded, engine.status().pending) == (16, 12, 4)
        assert {failure.source for failure in report.failed} == {"b0", "b1", "b2", "b3"}


def test_the_limit_of_the_cost_leaves_words(tmp_path: Path) -> None:
    settings = Settings(embedder=EmbedderConfig(price=1_000_000.0))
    with Engine.open(tmp_path, embedder="hashed", settings=settings) as engine:
        report = engine.add_documents(PAGES, max_cost=1.0)
        assert (len(report.added), report.embedded) == (12, 0)
        assert "max_cost" in report.stopped or "limit" in report.stopped
        assert engine.search("gauge 7")[0].chunk.doc_id == "p7"


def test_a_restore_of_what_was_pending_keeps_vectors_that_were_made_since(place: str, tmp_path: Path) -> None:
    model, file = Watched(works=0), tmp_path / "early.clew"
    settings = Settings(ingestion=IngestionConfig(summaries="extractive"))
    with Engine.open(place, embedder=model, settings=settings) as engine:
        engine.add_documents(PAGES)
        engine.export(file)
        model.works = None
        engine.backfill()
        made = stored(engine)
        engine.restore(file)
        assert engine.status().pending == 0
        assert stored(engine) == made
        assert all(each.summary_vector is not None for each in engine.opened.store.stored_documents())


def test_claims_of_a_clock_that_is_far_ahead_hold_nobody_up(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embed_by(2, monkeypatch)
    model = Watched(works=0)
    with Engine.open(place, embedder=model) as engine:
        engine.add_documents(PAGES)
        store = engine.opened.store
        assert isinstance(store, Store)
        claims = store._backend.named("claims")
        ahead = claims.clock() + 86_400
        claims.change(lambda values: values.update({f"pending {n}": ["elsewhere/1/2", ahead] for n in range(9)}))
        assert not engine.status().is_embedding
        model.works = None
        assert engine.backfill().embedded == 12


def test_a_picture_without_words_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cv2 = pytest.importorskip("cv2")
    pytest.importorskip("rapidocr")
    monkeypatch.chdir(tmp_path)
    picture = tmp_path / "pages" / "sky.png"
    picture.parent.mkdir()
    cv2.imwrite(str(picture), np.full((64, 64, 3), 200, np.uint8))
    os.utime(picture, (1e9, 1e9))
    patient = Settings(ingestion=IngestionConfig(max_read_seconds=200))  # recognition is slow on a busy machine
    with Engine.open(":memory:", embedder="hashed", settings=patient) as engine:
        first = engine.add("pages")
        assert (first.added, first.failed) == (("pages/sky.png",), ())
        assert [note.reason for note in first.noted] == ["is a picture in which no text was recognised"]
        with monkeypatch.context() as patch:
            patch.delattr("clew.index.read.read_in_process")
            again = engine.add("pages")
        assert (again.skipped, again.failed, again.noted) == (1, (), ())
        assert engine.search("sky") == []
        cv2.putText(sky := np.full((80, 400, 3), 255, np.uint8), "A red buoy", (9, 55), 0, 2, (0, 0, 0), 3)
        cv2.imwrite(str(picture), sky)
        assert engine.add("pages").changed == ("pages/sky.png",)
        assert "buoy" in engine.search("buoy")[0].chunk.text
        picture.unlink()
        (tmp_path / "pages" / "sea.md").write_text("The sea is grey.")
        assert engine.add("pages", sync=True, allow_mass_drop=True).dropped == 1
