"""export, restore and reembed through the command line."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from clew import Document, DriverFailed, Engine
from clew.drivers.store.sqlite import backend, schema
from clew.surface.cli.app import app
from tests.surface.cli.conftest import Clew


def test_export_and_restore(clew: Clew) -> None:
    done = clew("export", "all.zip")
    assert done.code == 0, done.err
    assert done.out == "5 documents with 7 chunks exported to all.zip\n"
    shape = clew("export", "all.zip", "--json").json
    assert (shape["documents"], shape["embedder"], shape["dim"]) == (5, "hashed", 256)
    restored = clew("restore", "all.zip", "--path", "other")
    assert restored.out.startswith("5 added, 0 changed, 0 skipped, 0 failed; 7 chunks, 0 embedded, 7 reused")
    assert clew.hits("keys") == clew.hits("keys", "--path", "other")
    again = clew("restore", "all.zip", "--path", "other", "--json").json
    assert (again["added"], again["skipped"]) == ([], 5)


def test_a_new_collection_takes_the_embedder_of_the_file(fresh: Clew) -> None:
    assert fresh("add", "pages", "--embedder", "hashed:64").code == 0
    assert fresh("export", "all.zip", CLEW_EMBEDDER__NAME="").code == 0
    restored = fresh("restore", "all.zip", "--path", "other", CLEW_EMBEDDER__NAME="")
    assert restored.code == 0, restored.err
    assert fresh("status", "--path", "other", "--json", CLEW_EMBEDDER__NAME="").json["embedder"] == "hashed:64"
    refused = fresh("restore", "all.zip", "--path", "third", "--embedder", "hashed")
    assert refused.code == 7
    assert "hashed:64 (64 dimensions)" in refused.err


def test_a_damaged_file_makes_no_collection(fresh: Clew) -> None:
    assert fresh("add", "pages").code == 0
    assert fresh("export", "all.zip").code == 0
    file = fresh.folder / "all.zip"
    data = bytearray(file.read_bytes())
    data[500] ^= 1
    file.write_bytes(data)
    refused = fresh("restore", "all.zip", "--path", "other")
    assert refused.code == 4
    assert "the part documents-00001.parquet is damaged" in refused.err
    assert not (fresh.folder / "other").exists()
    assert fresh("export", "all.zip", "--path", "nowhere").code == 3


def test_reembed_and_back(fresh: Clew) -> None:
    assert fresh("add", "pages").code == 0
    before = fresh.hits("keys")
    done = fresh("reembed", "hashed:64")
    assert done.code == 0, done.err
    assert re.fullmatch(
        r"\d+ texts embedded \(chunks and summaries\); the collection uses hashed:64 \(64 dimensions\); "
        r"the former vectors are kept until `clew reembed --discard`\n",
        done.out,
    )
    assert fresh("search", "keys").code == 7  # the environment still names the old one
    assert fresh.hits("keys", CLEW_EMBEDDER__NAME="hashed:64")
    shape = fresh("reembed", "--back", "--json").json
    assert (shape["embedder"], shape["dim"], shape["embedded"]) == ("hashed", 256, 0)
    assert fresh.hits("keys") == before
    assert fresh("reembed", "--discard").out == "no unused vectors are left; the collection uses hashed\n"
    assert fresh("reembed", "--discard").code == 3
    for options in ((), ("--back", "--discard"), ("hashed:64", "--back")):
        refused = fresh("reembed", *options)
        assert (refused.code, "exactly one of MODEL, --back and --discard" in refused.err) == (2, True)
    stopped = fresh("reembed", "hashed:64", "--max-cost", "0", CLEW_EMBEDDER__PRICE="1")
    assert stopped.code == 4
    assert "stopped at 0.0000 spent" in stopped.err
    assert "are kept" not in stopped.out
    assert fresh("reembed", "hashed:64").code == 0
    (fresh.folder / "pages" / "new.md").write_text("A new page on buoys.")
    assert fresh("add", "pages/new.md", CLEW_EMBEDDER__NAME="hashed:64").code == 0
    assert " embedded (chunks and summaries), the others were there; " in fresh("reembed", "--back").out


def test_room_that_could_not_be_given_back_is_given_back_by_the_next_discard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "a.clew")
    with Engine.open(place, embedder="hashed:1024") as engine:
        engine.add_documents([Document(f"{n}", f"The vault is opened on day {n}.") for n in range(100)])
        engine.reembed("hashed:64")
    run, file = CliRunner().invoke, next(tmp_path.rglob(schema.FILE))
    monkeypatch.setattr(schema, "WRITE_TIMEOUT", 0.2)

    def fail(folder: Path) -> None:
        raise DriverFailed("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(backend, "schema", SimpleNamespace(**{**vars(schema), "connect": fail}))
        failed = run(app, ["-p", place, "reembed", "--discard"])
    assert failed.exit_code == 4
    assert re.search(r"failed: free room: the vectors are deleted, but .*the disk is full", failed.stderr)
    before = file.stat().st_size
    with closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM chunks").fetchone()
        refused = run(app, ["-p", place, "reembed", "--discard", "--json"])
        assert refused.exit_code == 4
        assert "there were no unused vectors, but" in json.loads(refused.stdout)["failed"][0]["reason"]
        reader.execute("ROLLBACK")
        again = run(app, ["-p", place, "reembed", "--discard"])
    assert again.exit_code == 0
    assert "note: free room: there were no unused vectors; the room that was free" in again.stderr
    assert file.stat().st_size < 0.7 * before
    assert run(app, ["-p", place, "reembed", "--discard"]).exit_code == 3


def test_a_model_whose_name_is_wrong_is_refused(fresh: Clew) -> None:
    assert fresh("add", "pages").code == 0
    for name in ("hashed#int8", "hashed#64", "hashed+nonsense"):
        refused = fresh("reembed", name)
        assert (refused.code, "there is no embedder" in refused.err) == (3, True), name
