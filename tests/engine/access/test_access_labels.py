"""An engine opened with labels of access: on a server row-level security shows it nothing else, by any statement."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from random import Random

import psycopg
import pytest

from clew import Document, Engine, Filter, Message
from clew.core.errors import ClewError, NotFound, SettingsError
from clew.core.settings import EmbedderConfig, IngestionConfig, RerankerConfig, Settings, StoreConfig
from clew.core.types import Section
from clew.drivers import make_embedder
from clew.drivers.store.postgres import pool
from clew.drivers.store.rows import pack_terms
from tests.backends import get_server
from tests.engine.histories import CHANNELS, NOON, QUESTION, History, admits, make_history

LABELS = ("staff",)
SEEDS = (3, 8)
STRATEGIES = ("semantic", "lexical", "hybrid", "document_boost")


def settings(access: tuple[str, ...] | None = None) -> Settings:
    return Settings(
        ingestion=IngestionConfig(chunk_size=32, chunk_overlap=4, summaries="extractive"),
        reranker=RerankerConfig(name="overlap"),
        store=StoreConfig(access=access),
    )


def as_app(url: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}options=-c%20role%3Dclew_app"


@pytest.fixture(params=["folder", "postgres", "clew_app"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "team.clew")
    url: str = request.getfixturevalue("postgres")
    return as_app(url) if request.param == "clew_app" else url


def open_whole(path: str) -> Engine:
    return Engine.open(path, embedder="hashed", settings=settings())


def open_part(path: str, *labels: str) -> Engine:
    return Engine.open(path, embedder="hashed", settings=settings(labels))


def fill(engine: Engine, history: History) -> None:
    engine.add_documents(history.documents)
    engine.add_messages(history.messages)
    engine.backfill()


def list_verbs(history: History) -> Iterator[Callable[[Engine], object]]:
    """Verbs that read, as functions of an engine."""
    yield lambda engine: list(engine.list())
    yield lambda engine: engine.status().chunks
    yield lambda engine: engine.channels()
    yield lambda engine: [engine.read(record.id) for record in engine.list()]
    yield lambda engine: [engine.links(record.id) for record in engine.list()]
    for strategy in STRATEGIES:
        yield lambda engine, name=strategy: engine.search(QUESTION, k=30, strategy=name)  # type: ignore[misc]
    yield lambda engine: engine.context(QUESTION, k=20).text
    yield lambda engine: engine.ask(QUESTION).text
    for channel in CHANNELS:
        yield lambda engine, name=channel: engine.window(name, QUESTION, now=NOON + timedelta(days=1)).text  # type: ignore[misc]
    for document in history.documents:
        yield lambda engine, name=document.id: engine.read(name)  # type: ignore[misc]
        yield lambda engine, name=document.id: engine.why_not(QUESTION, name).stage  # type: ignore[misc]


def call(verb: Callable[[Engine], object], engine: Engine) -> object:
    try:
        return verb(engine)
    except ClewError as error:
        return str(error)


@pytest.mark.slow
def test_it_shows_what_an_engine_within_the_labels_shows(path: str) -> None:
    history = make_history(Random(SEEDS[0]))
    with open_whole(path) as whole:
        fill(whole, history)
        for labels in (LABELS, ("hr", "board"), ()):
            within = whole.within(Filter(access=set(labels)))
            with open_part(path, *labels) as part:
                for number, verb in enumerate(list_verbs(history)):
                    assert call(verb, part) == call(verb, within), (labels, number)
                assert bool(list(part.list())) == bool(labels)


@pytest.mark.slow
def test_places_in_a_long_thread_are_those_of_the_whole(path: str) -> None:
    messages = [
        Message(
            f"number {n} of the pier", author="ana", at=NOON + timedelta(minutes=n), id=f"m{n}", channel="ops",
            reply_to=f"m{n - 1}" if n else None, access={"hr"} if n % 3 == 0 else None,
        )
        for n in range(150)
    ]  # fmt: skip
    with open_whole(path) as whole, open_part_after(path, whole, messages) as part:
        (record,) = part.list()
        shown, kept = part.read(record.id), whole.read(record.id)
        hits = part.search("pier", k=200, strategy="lexical")
        assert len(hits) == record.chunks == 100
        for hit in hits:
            assert shown.text[hit.chunk.start : hit.chunk.end] == kept.text[hit.chunk.start : hit.chunk.end]
            assert hit.chunk.text == shown.text[hit.chunk.start : hit.chunk.end]
        assert len(shown.text) == len(kept.text)


def open_part_after(path: str, whole: Engine, messages: list[Message]) -> Engine:
    whole.add_messages(messages)
    return open_part(path, *LABELS)


def test_it_only_reads_and_makes_no_collection(path: str) -> None:
    with pytest.raises(NotFound, match="there is no collection"):
        open_part(path, *LABELS)
    with open_whole(path) as whole:
        whole.add_documents([Document("plan", "The oven")])
        with open_part(path, *LABELS) as part:
            for change in (
                lambda: part.add_documents([Document("new", "text")]),
                lambda: part.drop("plan"),
                lambda: part.jobs(),
            ):
                with pytest.raises(SettingsError, match="change the whole collection"):
                    change()
            part.chat().ask("oven?")
            assert [record.id for record in part.list()] == ["plan"]
        with pytest.raises(ClewError):  # closed with its engine, and not with an engine within it
            part.read("plan")
        assert whole.read("plan").text == "The oven"


def test_a_single_text_is_no_list_of_labels() -> None:
    with pytest.raises(SettingsError, match=r"store.access is the text 'hr'"):
        StoreConfig(access="hr")  # type: ignore[arg-type]


# -- by raw statements, as the role of a program


def dump(connection: psycopg.Connection) -> dict[str, list[str]]:
    """Every row of every table and view of Clew that a connection sees, all columns as text; of no partition alone."""
    tables = connection.execute(
        "SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class c JOIN pg_namespace n"
        " ON n.oid = relnamespace WHERE nspname LIKE 'clew%' AND relkind IN ('r', 'p', 'v', 'm', 'f')"
        " AND NOT relispartition ORDER BY 1"
    ).fetchall()
    return {name: [row for (row,) in connection.execute(f"SELECT t::text FROM {name} t")] for (name,) in tables}


class Canaries:
    """What a reader with labels may not see of a collection: words and their hashes."""

    def __init__(self, history: History) -> None:
        where = Filter(access=set(LABELS))
        hidden = [item for item in history.items if not admits(where, item)]
        shown = [item for item in history.items if admits(where, item)]
        words = {word for item in hidden for word in item.canaries if word != item.id}
        answered = {m.reply_to for m in history.messages if m.id in {item.id for item in shown}}
        words |= {item.id for item in hidden if item.kind == "thread" and item.id not in answered}
        self.words = frozenset(words)
        self.hashes = frozenset(str(pack_terms({word: 1}).hashes[0]) for word in words)

    def find(self, rows: list[str]) -> set[str]:
        return {word for word in self.words | self.hashes if any(word in row for row in rows)}


@pytest.fixture
def filled(postgres: str) -> tuple[str, History]:
    """The address of a server for `clew_app`, with something hidden in every table."""
    url, history = as_app(postgres), make_history(Random(SEEDS[1]))
    with open_whole(url) as whole:
        fill(whole, history)
        hidden = next(item for item in history.items if not admits(Filter(access=set(LABELS)), item))
        whole.chat("secret").ask(f"what is {hidden.canaries[0]}?")
        whole.enqueue_add(f"{hidden.canaries[0]}.md")
        whole.opened.store.stage_vectors(make_embedder(EmbedderConfig(name="hashed:64")))
        whole.opened.store.claim([record.id for record in whole.list()], owner="me", seconds=60)
        whole.opened.store.records.write("erasing", json.dumps({"authors": hidden.canaries[0]}))
        assert whole.opened.records is not None
        whole.opened.records.append("evaluations", hidden.canaries[0], name="run")
    return url, history


def connect(url: str, *labels: str) -> psycopg.Connection:
    return pool.connect(url, "default", access=labels)


def test_no_statement_shows_what_labels_hide(filled: tuple[str, History], postgres: str) -> None:
    url, history = filled
    with pool.connect(url, "default") as connection:
        whole = dump(connection)
    canaries = Canaries(history)
    leaky = {table for table, rows in whole.items() if canaries.find(rows)}
    assert {f"clew.{name}" for name in ("documents", "pieces", "chunks", "postings", "named")} <= leaky
    with connect(url, *LABELS) as connection:
        seen = dump(connection)
        assert {table: found for table, rows in seen.items() if (found := canaries.find(rows))} == {}
        shown = {item.canaries[0] for item in history.items if admits(Filter(access=set(LABELS)), item)}
        assert all(any(word in row for row in seen["clew.chunks"]) for word in shown)
    # What has no text: a row of a hidden chunk or document must not be there either.
    with psycopg.connect(postgres) as everything:
        chunk_rows = {row for (row,) in everything.execute("SELECT row FROM clew.chunks")}
    with connect(url, *LABELS) as connection:
        visible = {row for (row,) in connection.execute("SELECT row FROM clew.chunks")}
        assert 0 < len(visible) < len(chunk_rows)
        for table, column in (("signals", "row"), ("postings", "chunk")):
            assert {row for (row,) in connection.execute(f"SELECT {column} FROM clew.{table}")} == visible
        documents = {row for (row,) in connection.execute("SELECT row FROM clew.documents")}
        assert {row for (row,) in connection.execute("SELECT row FROM clew.summaries")} <= documents
        for table in ("blocks", "staged"):
            assert whole[f"clew.{table}"]
            assert seen[f"clew.{table}"] == []
        kinds = {kind for (kind,) in connection.execute("SELECT kind FROM clew.named")}
        assert kinds <= {"tuned", "calibration"}
    with pool.connect(url, "default") as connection:
        kinds = {kind for (kind,) in connection.execute("SELECT kind FROM clew.named")}
        assert kinds >= {"jobs", "sessions", "claims", "erasing", "evaluations"}


def test_every_table_hides_by_its_own_policy(filled: tuple[str, History], postgres: str) -> None:
    url, history = filled
    canaries = Canaries(history)
    with psycopg.connect(postgres, autocommit=True) as owner:
        listed = "SELECT relname FROM pg_class WHERE relnamespace = 'clew'::regnamespace AND relkind IN ('r', 'p')"
        tables = {name for (name,) in owner.execute(f"{listed} AND NOT relispartition")}
        policies: dict[str, dict[str, str]] = {}
        for table, name, expression in owner.execute(
            "SELECT tablename, policyname, coalesce(qual, with_check) FROM pg_policies"
            " WHERE schemaname = 'clew' AND permissive = 'RESTRICTIVE'"
        ):
            policies.setdefault(table, {})[name] = expression
        assert policies.keys() == tables - {"format"}
        for table, own in policies.items():
            assert own.keys() | {"seen"} == {"seen", "added", "changed", "removed"}, table
            if table == "collections":
                continue
            with connect(url, *LABELS) as connection:
                before = dump(connection)
                owner.execute(f"ALTER POLICY seen ON clew.{table} USING (true)")
                after = dump(connection)
                owner.execute(f"ALTER POLICY seen ON clew.{table} USING ({own['seen']})")
                assert len(after[f"clew.{table}"]) > len(before[f"clew.{table}"]), table
                if table in ("documents", "pieces", "chunks", "postings", "named"):
                    assert canaries.find(after[f"clew.{table}"]), table
                assert dump(connection) == before


def test_a_connection_with_labels_changes_nothing(filled: tuple[str, History]) -> None:
    url, _ = filled
    with connect(url, *LABELS) as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM clew.documents")
        connection.execute("SET default_transaction_read_only = off")  # row-level security holds by itself
        for table in dump(connection):
            if table.startswith("clew.") and table != "clew.format":
                assert connection.execute(f"DELETE FROM {table}").rowcount == 0
                if table != "clew.collections":
                    assert connection.execute(f"UPDATE {table} SET collection = collection").rowcount == 0
        assert connection.execute("UPDATE clew.collections SET change = 0").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(
                "INSERT INTO clew.named(collection, kind, name, value) VALUES (clew.mine(), 'x', '', '')"
            )


def test_without_labels_a_connection_sees_its_collection(filled: tuple[str, History], postgres: str) -> None:
    url, _ = filled
    with psycopg.connect(postgres) as everything:
        whole = {name: len(rows) for name, rows in dump(everything).items() if name.startswith("clew.")}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT set_config('clew.collection', 'default', false)")
        for given in (None, ""):
            if given is not None:
                connection.execute("SELECT set_config('clew.access', %s, false)", (given,))
            assert {name: len(rows) for name, rows in dump(connection).items() if name in whole} == whole
        connection.execute("SELECT set_config('clew.access', '{}', false)")
        assert {name for name, rows in dump(connection).items() if rows} == {"clew.collections", "clew.format"}
        connection.execute("SELECT set_config('clew.access', 'not an array', false)")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            connection.execute("SELECT * FROM clew.chunks")


def test_labels_stay_with_their_engine(filled: tuple[str, History]) -> None:
    url, _ = filled
    with open_whole(url) as whole, open_part(url, "staff") as staff, open_part(url, "hr") as hr:
        engines = {"whole": whole, "staff": staff, "hr": hr}
        alone = {name: [hit.chunk.id for hit in engine.search(QUESTION, k=50)] for name, engine in engines.items()}
        assert len({json.dumps(ids) for ids in alone.values()}) == 3
        with ThreadPoolExecutor(6) as threads:
            names = [*engines] * 6
            found = threads.map(lambda name: [hit.chunk.id for hit in engines[name].search(QUESTION, k=50)], names)
            assert all(ids == alone[name] for name, ids in zip(names, found, strict=True))
    with connect(url, "staff") as connection:  # as a pooler hands it to another program
        few = dump(connection)["clew.chunks"]
        pool.configure_connection(connection, "default")
        assert connection.execute("SHOW clew.access").fetchone() == ("",)
        assert len(dump(connection)["clew.chunks"]) > len(few)


def test_messages_of_a_labelled_thread_have_its_labels_in_contexts(path: str) -> None:
    texts = ("the zebrafish is sold\n\n", "who knows?\n\n")
    cut = len(texts[0])
    sections = (
        Section(0, cut, id="m1", author="boss"),
        Section(cut, sum(map(len, texts)), id="m2", author="ana", access=frozenset({"staff"})),
    )
    document = Document("t", "".join(texts), sections, kind="thread", meta={"channel": "ops"}, access={"hr"})
    with open_whole(path) as whole:
        assert whole.add_documents([document]).added == ("t",)
        with open_part(path, *LABELS) as part:
            assert part.read("t").text.split() == ["who", "knows?"]
            assert part.search("zebrafish", strategy="lexical") == []
            if "clew_app" in path:
                assert "zebrafish" not in repr(get_server(part.opened.store.whole)._pool.run_read(dump))
