"""Upkeep as a job: what it does in each store, that a worker takes it, and that searches find the same after it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import connect
from typer.testing import CliRunner

from clew import Document, DriverFailed, Engine, Filter, Settings, SettingsError
from clew.surface.cli.app import app

DEFAULTS = Settings()
INDEXED = replace(DEFAULTS, store=replace(DEFAULTS.store, exact_below=0))
Check = Callable[[list[str]], bool]


def fill(engine: Engine, count: int = 12) -> None:
    for number in range(count):
        engine.add_documents([Document(f"d{number}", f"The gauge {number} is read at noon.")])
    engine.drop(*(f"d{number}" for number in range(0, count, 2)))


def keep_up(engine: Engine) -> list[str]:
    """What the job has done; searches find the same after it."""
    before = engine.search("gauge 7", k=6)
    queued = engine.enqueue_maintenance()
    assert engine.enqueue_maintenance().id == queued.id, "one that waits is enough"
    (ended,) = engine.run_jobs()
    assert (ended.id, ended.kind, ended.state, ended.error) == (queued.id, "maintain", "done", "")
    assert engine.search("gauge 7", k=6) == before
    assert (ended.done, ended.total) == (1, 1)
    assert ended.message == "; ".join(ended.result["done"])
    return list(ended.result["done"])


def test_fragments_of_lance_are_joined_and_indexes_kept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.drivers.store.lance.indexes.MIN_TRAINING", 1 << 30)
    with Engine.open(f"lance://{tmp_path}", embedder="hashed:8", settings=INDEXED) as engine:
        fill(engine, 4)
        store = engine.opened.store
        store.set_stamp("d1", "touched")
        store.set_stamp("d3", "touched")
        done = keep_up(engine)
        assert any(line.startswith("joined ") for line in done)
        assert any(line.startswith("indexes kept up: ") and "terms" in line for line in done)


@pytest.mark.slow
def test_partitions_that_were_outgrown_are_learnt_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine.open(f"lance://{tmp_path}", embedder="hashed:8", settings=INDEXED) as engine:
        engine.add_documents([Document(f"d{number}", f"The gauge {number} is read.") for number in range(300)])
        assert "anew" not in "; ".join(keep_up(engine))
        monkeypatch.setattr("clew.drivers.store.lance.indexes.PARTITION", 75)
        assert "made the index of vectors anew: 1 partitions became 4" in keep_up(engine)


def test_tables_are_vacuumed_and_a_graph_of_deleted_rows_is_built_anew(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine.open(postgres, embedder="hashed:8", settings=INDEXED) as engine:
        fill(engine)
        done = keep_up(engine)
        assert [line.split(",")[0] for line in done] == [done[0].split(",")[0]]
        assert done[0].startswith("vacuumed ")
        monkeypatch.setattr("clew.drivers.store.postgres.upkeep.MIN_REBUILT_BYTES", 0)
        monkeypatch.setattr("clew.drivers.store.postgres.upkeep.MAX_GRAPH_GROWTH", 0.0)
        assert any(line.startswith("built the graph of signals anew: ") for line in keep_up(engine))


def leave_index(url: str, name: str) -> None:
    """An index as a rebuild leaves it that was cut off: invalid, yet every new row goes into it."""
    with connect(url, autocommit=True) as connection:
        (made,) = connection.execute("SELECT pg_get_indexdef('clew.signals_graph_1'::regclass)").fetchone() or ("",)
        connection.execute(made.replace("signals_graph_1", name))
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (f"clew.{name}",))


def list_graphs(url: str) -> list[str]:
    with connect(url) as connection:
        found = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^signals_graph' ORDER BY 1")
        return [name for (name,) in found]


def test_what_a_rebuild_left_that_was_cut_off_is_dropped(postgres: str) -> None:
    with Engine.open(postgres, embedder="hashed:8", settings=INDEXED) as engine:
        fill(engine, 4)
        engine.opened.store.flush()
        leave_index(postgres, "signals_graph_1_ccnew")
        leave_index(postgres, "signals_graph_1_ccold1")
        leave_index(postgres, "signals_graph_11_ccold")  # of another collection
        assert "dropped 2 indexes that rebuilds of graphs had left" in keep_up(engine)
        assert list_graphs(postgres) == ["signals_graph_1", "signals_graph_11_ccold"]


def test_vectors_of_another_width_are_switched_to_beside_the_rest_of_a_rebuild(postgres: str) -> None:
    with Engine.open(postgres, embedder="hashed:8", settings=INDEXED) as engine:
        fill(engine, 4)
        engine.opened.store.flush()
        leave_index(postgres, "signals_graph_1_ccold")
        engine.reembed("hashed:16")
        assert "signals_graph_1_ccold" not in list_graphs(postgres)
        assert engine.search("gauge 3", k=1)


def test_a_role_that_may_not_drop_the_rest_of_a_rebuild_is_told_who_may(postgres: str) -> None:
    with Engine.open(postgres, embedder="hashed:8", settings=INDEXED) as engine:
        fill(engine, 4)
        engine.opened.store.flush()
        leave_index(postgres, "signals_graph_1_ccold")
        app_role = f"{postgres}{'&' if '?' in postgres else '?'}options=-c%20role%3Dclew_app"
        with Engine.open(app_role, embedder="hashed:8", settings=INDEXED) as limited:
            with pytest.raises(
                DriverFailed,
                match=r"signals_graph_1_ccold, which this role may not drop; run `Engine.enqueue_maintenance`",
            ):
                limited.reembed("hashed:16")
            keep_up(engine)
            limited.reembed("hashed:16")


def test_one_upkeep_of_a_database_runs_at_a_time(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[list[str]] = []
    with (
        Engine.open(postgres, embedder="hashed:8", settings=INDEXED) as engine,
        Engine.open(postgres, collection="other", embedder="hashed:8", settings=INDEXED) as other,
    ):

        def count(_: object) -> int:  # in the midst of it
            told.append(other.opened.store.maintain())
            return 0

        monkeypatch.setattr("clew.drivers.store.postgres.upkeep._count_dead_rows", count)
        engine.add_documents([Document("d1", "The gauge 7 is read at noon.")])
        assert keep_up(engine)[0].startswith("vacuumed ")
        assert told == [["nothing done: the upkeep of this database is under way in another program"]]
        monkeypatch.undo()
        assert keep_up(other)[0].startswith("vacuumed ")


def test_a_folder_is_kept_up_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path / "team")
    with Engine.open(folder, embedder="hashed") as engine:
        fill(engine, 2)
        with pytest.raises(SettingsError, match="sees a part of the collection"):
            engine.within(Filter(documents=frozenset({"d1"}))).enqueue_maintenance()
    started: list[object] = []
    monkeypatch.setattr("clew.surface.cli.commands.jobs.start_worker", started.append)  # the worker is the one below
    run = CliRunner().invoke
    own = ["--path", folder, "--embedder", "hashed"]
    queued = run(app, [*own, "jobs", "maintain", "--json"])
    assert queued.exit_code == 0, queued.output
    assert len(started) == 1
    worked = run(app, [*own, "jobs", "work", "--json"])
    assert worked.exit_code == 0, worked.output
    assert json.loads(worked.stdout)["jobs"][0]["result"]["done"] == ["index kept up: exact, in memory"]
    listed = run(app, [*own, "jobs"])
    assert listed.exit_code == 0, listed.output
    assert json.loads(queued.stdout)["id"] in listed.stdout
    assert "maintain" in listed.stdout
