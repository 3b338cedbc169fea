"""Processes that are killed while they write: nothing that was done is lost, and `doctor` names every drift."""

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.engine.upkeep import kill_work
from tests.engine.upkeep.kill_work import SETTINGS, SHARD, make_document, open_engine
from tests.soak import choose_runs

CHECKS = {
    "documents": "SELECT documents <> (SELECT count(*) FROM documents) FROM meta",
    "chunks": "SELECT chunks <> (SELECT count(*) FROM signals) FROM meta",
    "parts": "SELECT count(*) FROM documents d WHERE chunks <> (SELECT count(*) FROM chunks c WHERE c.doc = d.row)",
    "summaries": "SELECT count(*) FROM documents WHERE summary = '' OR (vector IS NULL) <> (pending IS 1)",
    "pending": "SELECT pending <> (SELECT count(*) FROM chunks WHERE pending = 1) FROM meta",
    "vectors": "SELECT count(*) FROM chunks JOIN signals USING(row) WHERE (vector = x'') <> (pending IS 1)",
    "orphans": "SELECT count(*) FROM chunks WHERE doc NOT IN (SELECT row FROM documents)",
}


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder in memory where there is such a thing."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


def prepare(kind: str, root: Path) -> None:
    """What the work begins with."""
    if kind in ("change", "restore"):
        with open_engine(root) as engine:
            engine.add_documents([make_document(number) for number in range(40)])
            if kind == "restore":
                engine.export(root / "all.zip")
        if kind == "restore":
            shutil.rmtree(root / "team")


def find_drift(root: Path) -> list[str]:
    """What is not as it should be, by the tables alone."""
    file = root / "team" / "default" / "clew.db"
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as db:
        if not db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]:
            return []
        drift = [name for name, sql in CHECKS.items() if db.execute(sql).fetchone()[0]]
        return drift + [line for (line,) in db.execute("PRAGMA integrity_check") if line != "ok"]


def find_lost(kind: str, root: Path, said: list[str]) -> list[str]:
    """What was done when the process was killed and is not there."""
    done = Counter[str]()
    for line in said:
        name, _, count = line.partition(" ")
        done[name] = int(count or 1)
    with open_engine(root) as engine:
        texts = {record.id: engine.read(record.id).text for record in engine.list()}
        found = {hit.document.id for hit in engine.search("version0 version1", k=50)}
    lost = [f"d{n}" for n in range(max(done["added"], done["restored"])) if f"d{n}" not in texts]
    lost += [f"d{n} as it was" for n in range(done["changed"]) if "version1" not in texts[f"d{n}"]]
    lost += [f"d{n} is back" for n in range(20, 20 + done["dropped"]) if f"d{n}" in texts]
    lost += [f"{each} is not found" for each in texts.keys() - found] if len(texts) <= 20 else []
    for doc_id, text in texts.items():
        number = int(doc_id[1:])
        if text not in (make_document(number).text, make_document(number, 1).text):
            lost.append(f"{doc_id} is half written")
    return lost


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform == "win32", reason="kills by signal")
@pytest.mark.slow
def test_no_kill_loses_anything_or_leaves_a_drift_without_a_name(root: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.engine.upkeep.kill_work", "clew.drivers.store.sqlite.backend"])
    rng, outcomes = random.Random(29), Counter[str]()
    kinds, runs = ("add", "change", "restore", "index"), choose_runs(6, 320)
    lasts = dict.fromkeys(kinds, 0.5)  # seconds that each takes, about
    for trial in range(runs):
        kind = kinds[trial % len(kinds)]
        place = root / f"trial{trial}"
        place.mkdir()
        prepare(kind, place)
        process = context.Process(target=kill_work.run, args=(kind, place))
        process.start()
        while not (place / "said").exists() and process.is_alive():
            time.sleep(0.001)
        began = time.monotonic()
        process.join(rng.uniform(0, 1.1) * lasts[kind])
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        said = (place / "said").read_text().split("\n")[:-1]
        if "done" in said:
            lasts[kind] = 0.8 * lasts[kind] + 0.2 * (time.monotonic() - began)
        else:
            lasts[kind] = max(lasts[kind], 1.02 * (time.monotonic() - began))
        outcomes["ended" if "done" in said else "killed"] += 1
        drift = find_drift(place)
        assert find_lost(kind, place, said) == [], f"{kind}, killed after {said[-1:]}"
        with open_engine(place, SHARD if kind == "index" else SETTINGS) as engine:
            defects = engine.doctor().defects
            outcomes["defects named"] += len(defects)
            outcomes["drift"] += bool(drift)
            assert bool(drift) <= bool(defects), drift
            assert engine.doctor(repair=True).is_sound
            assert engine.doctor().defects == ()
            outcomes["pending"] += bool(engine.status().pending)
            engine.backfill()
            assert not engine.status().pending
        shutil.rmtree(place)
    sys.stdout.write(f"\nkills: {dict(outcomes)}, 0 lost, 0 drift without a name\n")
    assert outcomes["killed"]
