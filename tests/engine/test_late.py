"""Late interaction through the engine, in a folder and on PostgreSQL: token vectors kept, matched, told, and gone."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from clew import Document, DriverFailed, Engine, Filter, KeepsTokens, Message, Settings, SettingsError, record
from clew.core.settings import IngestionConfig, SearchConfig, StoreConfig
from clew.drivers.late.colbert import NAME
from clew.drivers.store.embedded.tables import PART_BITS
from clew.drivers.store.embedded.tokens import PART_SIZE
from clew.engine.opened import open_token_encoder

if TYPE_CHECKING:
    from clew import TokenEncoder

OpenEngine = Callable[..., Engine]
LATE = Settings(ingestion=IngestionConfig(late=True, summaries=False), search=SearchConfig(cache=0))
PAGES = {
    "deploys": "# Releases\n\nThe duty engineer must approve every rollback within ten minutes.\n",
    "keys": "# Vault\n\nSigning keys are rotated every ninety days, and revoked if nobody does.\n",
    "lunch": "# Lunch\n\nSoup is served at noon in the canteen; bring your badge.\n",
    "hr": "# Salaries\n\nPayments of wages leave on the last working day.\n",
}
LONG = "The duty engineer approves a rollback; whoever is on call carries the pager for a week. "
QUESTION = "who approves undoing a deployment?"
OTHER = "is a rollback allowed on every working day?"  # whose words are more those of "hr"


def add_pages(engine: Engine, *names: str, settings: Settings | None = None) -> None:
    wanted = names or tuple(PAGES)
    made = [Document(name, PAGES[name], uri=name, access={"hr"} if name == "hr" else None) for name in wanted]
    engine.add_documents(made, settings=settings)


def count_missing(engine: Engine) -> int:
    assert isinstance(engine.opened.store, KeepsTokens)
    return engine.opened.store.count_missing_tokens(open_token_encoder().name)


@pytest.mark.slow
def test_the_text_whose_tokens_match_comes_first_and_says_what_matched(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=LATE)
    add_pages(engine)
    with record() as trace:
        hits = engine.search(QUESTION, k=2, strategy="late")
    best = hits[0]
    assert best.chunk.doc_id == "deploys"
    assert {"approve", "rollback"} <= {best.chunk.text[start:end] for start, end in best.highlights}
    step = trace.find("late")
    assert step is not None
    assert str(step.notes["model"]).startswith(NAME)
    hybrid = {hit.chunk.id: hit for hit in engine.search(QUESTION, k=9, strategy="hybrid")}
    assert hybrid[best.chunk.id].highlights == ()
    assert [hit.relevance for hit in hits] == pytest.approx([hybrid[hit.chunk.id].relevance for hit in hits])
    matched = {hit.chunk.id: hit.scores["max_sim"] for hit in engine.search(QUESTION, k=9, strategy="late")}
    for hit in hits:  # half the score of the search, half MaxSim, each over all hits
        shares = [
            (values[hit.chunk.id] - min(values.values())) / (max(values.values()) - min(values.values()))
            for values in (matched, {name: each.scores["hybrid"] for name, each in hybrid.items()})
        ]
        assert hit.score == pytest.approx(sum(shares) / 2)
    only = Filter(documents={"lunch", "keys"})
    assert {hit.chunk.doc_id for hit in engine.search(QUESTION, strategy="late", where=only)} == {"lunch", "keys"}
    history = [Message("tell me about deployments and rollbacks", role="user")]
    assert engine.search("who signs it off?", k=1, strategy="late", history=history)[0].chunk.doc_id == "deploys"
    floor = replace(LATE, search=replace(LATE.search, min_relevance=0.99))
    assert engine.search(QUESTION, strategy="late", settings=floor) == []
    orders = [[hit.chunk.doc_id for hit in engine.search(OTHER, strategy=name)][:2] for name in ("hybrid", "late")]
    assert orders == [["hr", "deploys"], ["deploys", "hr"]]
    assert engine.why_not(OTHER, "hr", k=1, strategy="late").stage == "rerank"
    assert engine.explain(QUESTION, strategy="late", k=1).hits[0].scores["late"] == best.score


def test_a_question_in_a_language_that_the_model_does_not_know_is_ranked_as_by_hybrid(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=LATE)
    add_pages(engine)
    thai = [
        "ทีมปฏิบัติการเปลี่ยนกุญแจของเซิร์ฟเวอร์ทุกเก้าสิบวัน",
        "แมวนอนอยู่บนหลังคาบ้าน",
        "ซุปเสิร์ฟตอนเที่ยง",
        "วันหยุดคือวันศุกร์",
        "ประตูปิดแล้ว",
    ]
    engine.add_documents([Document(f"th{n}", text) for n, text in enumerate(thai)])
    for question, is_known in (
        ("ใครเปลี่ยนกุญแจ", False),
        ("Wer muss es wann und wo genehmigen?", False),
        (QUESTION, True),
    ):
        explained = engine.explain(question, strategy="late")
        step = explained.trace.find("late")
        assert step is not None
        assert ("does not know the language" in str(step.notes.get("not used"))) is not is_known
        assert any("max_sim" in hit.scores for hit in explained.hits) is is_known
        by_hybrid = [hit.chunk.id for hit in engine.search(question, strategy="hybrid")]
        assert is_known or [hit.chunk.id for hit in explained.hits] == by_hybrid
    (found,) = [defect for defect in engine.doctor().defects if defect.area == "languages"]
    assert "5 of 9 chunks are in languages that answerai-colbert-small" in found.problem


def test_chunks_without_token_vectors_are_counted_and_made_good(
    open_engine: OpenEngine, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    engine = open_engine(embedder="hashed", settings=LATE)
    off = replace(LATE, ingestion=replace(LATE.ingestion, late=False))
    add_pages(engine, "keys", "lunch", settings=off)
    with pytest.raises(SettingsError, match="2 chunks of the collection have none; set ingestion"):
        engine.search(QUESTION, strategy="late")
    assert "2 chunks of 2 have no token vectors" in "\n".join(each.problem for each in engine.doctor().defects)
    assert engine.backfill().failed == ()
    assert count_missing(engine) == 0
    add_pages(engine, "deploys", settings=off)
    with caplog.at_level(logging.WARNING, "clew"), record() as trace:
        assert engine.search(QUESTION, strategy="late")[0].chunk.doc_id == "deploys"
    assert "1 of 3 hits have no token vectors" in caplog.text
    assert "clew backfill" in caplog.text
    step = trace.find("late")
    assert step is not None
    assert step.notes["without token vectors"] == 1
    before = engine.opened.store.change_number()
    add_pages(engine)  # the next add encodes what lacks them
    assert count_missing(engine) == 0
    assert engine.opened.store.change_number() > before
    assert engine.doctor().is_sound
    assert not [each for each in engine.doctor().defects if "token" in each.problem]
    engine.export(tmp_path / "all.clew")
    with Engine.open(tmp_path / "copy.clew", embedder="hashed", settings=LATE) as copy:
        copy.restore(tmp_path / "all.clew")
        assert count_missing(copy) == 0
        assert copy.search(QUESTION, k=1, strategy="late")[0].chunk.doc_id == "deploys"


def test_token_vectors_change_and_go_with_their_text(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=LATE)
    add_pages(engine)
    store, model = engine.opened.store, open_token_encoder().name
    assert isinstance(store, KeepsTokens)
    ids = {doc_id: store.chunks(doc_id)[0].id for doc_id in PAGES}
    tokens = store.tokens(list(ids.values()), model)
    assert set(tokens) == set(ids.values())
    assert store.tokens(list(ids.values()), "another") == {}
    assert all(len(data) <= 48 * 250 for data in tokens.values())
    engine.add_documents([Document("keys", PAGES["keys"].replace("ninety", "thirty"), uri="keys")])
    (changed,) = store.chunks("keys")
    assert store.tokens([changed.id], model)[changed.id] != tokens[ids["keys"]]
    assert count_missing(engine) == 0
    engine.drop("lunch")
    assert store.tokens([ids["lunch"]], model) == {}
    receipt = engine.erase(["deploys"])
    assert not receipt.found
    assert not receipt.undone
    left = b"".join(data for _, data in store.eraser().stored_bytes())
    assert tokens[ids["hr"]][:400] in left
    for erased in ("deploys", "lunch"):
        data = tokens[ids[erased]]
        assert not [at for at in range(0, len(data) - 48, 48) if data[at : at + 48] in left and at >= 48 * 3]
    said = [
        Message("the pager rang at night", "kay", channel="ops", id="m1"),
        Message("who rang?", "li", channel="ops"),
    ]
    for message in said:
        engine.add_messages([message])
    assert count_missing(engine) == 0
    engine.drop_messages("m1")
    assert count_missing(engine) == 0


def test_who_sees_a_part_matches_only_that(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed", settings=LATE)
    add_pages(engine)
    part = open_engine(embedder="hashed", collection="c0", settings=replace(LATE, store=StoreConfig(access=("sales",))))
    for seen in (part, engine.within(Filter(access={"sales"}))):
        hits = seen.search("when are wages paid?", k=9, strategy="late")
        assert {hit.chunk.doc_id for hit in hits} == {"deploys", "keys", "lunch"}
        assert all("max_sim" in hit.scores for hit in hits)
    assert engine.search("when are wages paid?", k=1, strategy="late")[0].chunk.doc_id == "hr"
    bare = open_engine(embedder="hashed")
    add_pages(bare)
    with pytest.raises(SettingsError, match="none of the 3 hits has token vectors, and 3 chunks"):  # and not four
        bare.search(QUESTION, strategy="late", where=Filter(access={"sales"}))


def test_a_store_without_token_vectors_says_so_before_anything_is_added(tmp_path: Path) -> None:
    with Engine.open(f"lance://{tmp_path}/team", embedder="hashed", settings=LATE) as engine:
        with pytest.raises(SettingsError, match="this store keeps no token vectors; use a collection in a folder"):
            add_pages(engine)
        assert engine.status().documents == 0
        add_pages(engine, settings=Settings())
        with pytest.raises(SettingsError, match="this store keeps no token vectors, so there is no strategy late"):
            engine.search(QUESTION, strategy="late")
        with pytest.raises(SettingsError, match="this store keeps no token vectors"):
            engine.search(QUESTION, strategy="late", where=Filter(documents={"keys"}))


def test_damaged_token_vectors_are_found_and_deleted(tmp_path: Path) -> None:
    path = tmp_path / "team.clew"
    with Engine.open(path, embedder="hashed", settings=LATE) as engine:
        add_pages(engine)
    with sqlite3.connect(path / "default" / "clew.db") as db:
        db.execute("UPDATE token_parts SET data = zeroblob(96) WHERE place = (SELECT min(place) FROM token_parts)")
    db.close()
    with Engine.open(path, embedder="hashed", settings=LATE) as engine:
        with pytest.raises(DriverFailed, match="the token vectors of the chunk"):
            engine.search(QUESTION, strategy="late")
        assert [each.problem for each in engine.doctor().defects if each.severity == "damage"] == [
            "the record of a chunk's tokens is damaged"
        ]
        engine.doctor(repair=True)
        assert count_missing(engine) == 1
        engine.backfill()
        assert engine.search(QUESTION, k=1, strategy="late")[0].chunk.doc_id == "deploys"


def test_token_vectors_of_an_earlier_version_are_read_and_those_of_dropped_chunks_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "team.clew"

    def count_parts() -> int:
        with closing(sqlite3.connect(path / "default" / "clew.db")) as db:
            return int(db.execute("SELECT count(*) FROM token_parts").fetchone()[0])

    with Engine.open(path, embedder="hashed", settings=LATE) as engine:
        add_pages(engine)
        engine.add_documents([Document("long", 6 * LONG)])
        hits = [(hit.chunk.id, hit.score) for hit in engine.search(QUESTION, strategy="late")]
    with closing(sqlite3.connect(path / "default" / "clew.db")) as db:
        parts: dict[int, bytes] = {}
        for place, data in db.execute("SELECT place, data FROM token_parts ORDER BY place"):
            parts[place >> PART_BITS] = parts.get(place >> PART_BITS, b"") + data
        assert max(map(len, parts.values())) > PART_SIZE
        db.executemany("UPDATE tokens SET data = ? WHERE row = ?", [(data, row) for row, data in parts.items()])
        db.execute("DROP TRIGGER tokens_gone")
        db.execute("DROP TABLE token_parts")
        db.execute("PRAGMA user_version = 9")
        db.commit()
    with Engine.open(path, embedder="hashed", settings=LATE) as engine:
        assert [(hit.chunk.id, hit.score) for hit in engine.search(QUESTION, strategy="late")] == hits
        assert engine.doctor().is_sound
        assert count_parts() == 0
        engine.add_documents([Document("new", 5 * LONG)])
        assert count_parts() > 1
        engine.drop("new")
        assert count_parts() == 0


def test_token_vectors_fill_their_pages(tmp_path: Path) -> None:
    class Encoder:
        name, languages = "tokens", frozenset[str]()

        def encode(self, texts: Sequence[str]) -> list[bytes]:
            return [bytes((11_000 + 97 * len(text)) // 48 * 48) for text in texts]  # about 250 tokens, and more

    path = tmp_path / "team.clew"

    def measure() -> int:
        return (path / "default" / "clew.db").stat().st_size  # closed: all that was in the log is in it

    with Engine.open(path, embedder="hashed:32") as engine:
        engine.add_documents([Document(f"d{n}", f"page {'x' * (n % 9)} {n}") for n in range(200)])
    before = measure()
    with Engine.open(path, embedder="hashed:32") as engine:
        store = engine.opened.store
        assert isinstance(store, KeepsTokens)
        store.add_missing_tokens(cast("TokenEncoder", Encoder()))
        data = sum(map(len, store.tokens([chunk.id for chunk in store.scan()], "tokens").values()))
    assert data < measure() - before < 1.06 * data
