"""A connection with labels of access: damage is an error to it too, and no function of the tables tells more."""

from datetime import timedelta

import psycopg
import pytest

from clew import Document, Engine, Message
from clew.core.errors import CollectionDamaged
from clew.core.facets import collect_facets
from clew.drivers.store.postgres import pool
from clew.drivers.store.rows import hash_facet, pack_terms
from tests.engine.access.test_access_labels import LABELS, as_app, open_part, open_whole
from tests.engine.histories import NOON
from tests.engine.upkeep.changes import make_change

PAGES = [Document("menu", "Soup on Monday"), Document("pay", "Salaries rise", access={"hr"})]
MESSAGES = [
    Message("the pier opens", id="m0", author="ana", at=NOON, channel="ops"),
    Message("a zebrafish", id="m1", author="boss", at=NOON + timedelta(hours=1), channel="ops", access={"hr"},
            reply_to="m0"),
    Message("the pier closes", id="m2", author="ana", at=NOON + timedelta(hours=2), channel="ops", reply_to="m0"),
    Message("they are fired", id="m3", author="boss", at=NOON, channel="board", access={"hr"}),
]  # fmt: skip


@pytest.fixture
def url(postgres: str) -> str:
    with open_whole(as_app(postgres)) as whole:
        whole.add_documents(PAGES)
        whole.add_messages(MESSAGES)
    return as_app(postgres)


def read_chunks(engine: Engine) -> list[str]:
    return [chunk.text for record in engine.list() for chunk in engine.opened.store.chunks(record.id)]


def test_the_chunks_of_a_thread_are_those_that_are_seen(url: str) -> None:
    with open_part(url, *LABELS) as part:
        assert sorted(read_chunks(part)) == ["Soup on Monday", "the pier closes", "the pier opens"]
        (thread,) = (record for record in part.list() if record.kind == "thread")
        assert [chunk.index for chunk in part.opened.store.whole.chunks(thread.id)] == [0, 2]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE chunks SET text = 'the peer closes' WHERE text = 'the pier closes'",
        "UPDATE chunks SET stop = stop - 1 WHERE text = 'the pier closes'",
        "UPDATE chunks SET text = 'Soap on Monday' WHERE text = 'Soup on Monday'",
        "UPDATE chunks SET sum = '\\x00' WHERE text = 'the pier closes'",
        "UPDATE pieces SET text = replace(text, 'closes', 'loses ') WHERE message = 'm2'",
        "UPDATE pieces SET text = 'Soap on Monday' WHERE text = 'Soup on Monday'",
        "UPDATE documents SET title = 'Bill' WHERE id = 'menu'",
    ],
)
def test_damage_is_an_error_with_labels_too(url: str, damage: str, request: pytest.FixtureRequest) -> None:
    def read(engine: Engine) -> object:
        return [*read_chunks(engine), *(engine.read(record.id) for record in engine.list())]

    with open_whole(url) as whole, open_part(url, *LABELS) as part:
        change = make_change(request, whole)
        assert read(part)
        change(damage)
        with pytest.raises(CollectionDamaged):
            read(part)


def fetch(url: str, sql: str, *params: object) -> object:
    with pool.connect(url, "default", access=LABELS) as connection:
        ((value,),) = connection.execute(sql, params)
        return value


def test_no_function_confirms_a_hidden_name(url: str) -> None:
    with open_whole(url) as whole:
        (hidden,) = (record for record in whole.list() if "board" in record.meta.get("channel", ""))
        (chunk,) = whole.opened.store.chunks(hidden.id)
        facets = [hash_facet(facet) for facet in collect_facets(whole.read(hidden.id), chunk)]
    (word,) = pack_terms({"zebrafish": 1}).hashes
    with pool.connect(url, "default") as connection:
        known = [row for (row,) in connection.execute("SELECT word FROM clew.postings WHERE count = 0")]
    assert len(facets) > 3
    assert set(facets) <= set(known)
    assert [fetch(url, "SELECT clew.count_chunks(%s)", facet) for facet in facets] == [0] * len(facets)
    assert fetch(url, "SELECT clew.count_chunks(%s)", int(word)) == 1  # of a word it is counted over all


def test_sizes_are_told_of_documents_that_are_seen(url: str, postgres: str) -> None:
    with psycopg.connect(postgres) as owner:
        sql = "SELECT channel, doc, max(piece) FROM clew.chunks GROUP BY 1, 2 ORDER BY 1"
        (_, board, last), (_, ops, later), *_ = owner.execute(sql).fetchall()
        (pay,) = owner.execute("SELECT row FROM clew.documents WHERE id = 'pay'").fetchone() or ()
    for document, count in ((board, 0), (pay, 0), (ops, 3)):
        assert fetch(url, "SELECT count(*) FROM clew.piece_sizes(%s)", document) == count
    assert fetch(url, "SELECT clew.sizes_before(%s, %s)", board, last) is None
    assert fetch(url, "SELECT clew.sizes_before(%s, %s)", ops, later - 1) is None  # of a message that is hidden
    assert isinstance(fetch(url, "SELECT clew.sizes_before(%s, %s)", ops, later), list)
    with pytest.raises(psycopg.errors.UndefinedFunction):  # its labels are those of the connection
        fetch(url, "SELECT clew.has_hidden(%s, '{1}'::bigint[])", ops)


@pytest.mark.parametrize("statement", ["SELECT drop_graph('signals')", "SELECT build_graph('signals')"])
def test_no_graph_is_built_or_dropped_with_labels(url: str, postgres: str, statement: str) -> None:
    def has_graph() -> bool:
        with psycopg.connect(postgres) as owner:
            (found,) = owner.execute("SELECT to_regclass('clew.signals_graph_1') IS NOT NULL").fetchone() or ()
            return bool(found)

    with pool.connect(url, "default") as connection:
        connection.execute("SELECT build_graph('signals')" if "drop" in statement else "SELECT 1")
    before = has_graph()
    with pool.connect(url, "default", access=LABELS) as connection:
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="a connection with labels"):
            connection.execute(statement)
    assert has_graph() == before == ("drop" in statement)


def test_the_record_of_an_erasure_is_hidden(url: str) -> None:
    with open_whole(url) as whole:
        whole.opened.store.records.write("erasing", "boss")
        assert whole.opened.store.records.read("erasing") == "boss"
        assert fetch(url, "SELECT count(*) FROM clew.named") == 0
        assert "boss" not in str(fetch(url, "SELECT c::text FROM clew.collections c"))
        whole.opened.store.records.write("erasing", "")
        assert whole.opened.store.records.read("erasing") == ""
