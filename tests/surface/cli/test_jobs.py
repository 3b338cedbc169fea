"""`clew add --background` and `clew jobs`, with real worker processes."""

import os
from pathlib import Path
from time import sleep

import pytest

from clew import Engine, Job
from clew.surface.cli.commands.jobs import make_environment
from clew.surface.settings.load import load_invocation
from tests.engine.conftest import STORES
from tests.surface.cli.conftest import Clew


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, fresh: Clew, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path that the command line is given by the environment: a folder, or the address of a database."""
    path = ".clew" if request.param == "folder" else str(request.getfixturevalue("postgres"))
    monkeypatch.setenv("CLEW_PATH", path)
    return path


def queue(clew: Clew, *sources: str) -> str:
    """Queues a job without starting a worker; its id."""
    with Engine.open(os.environ.get("CLEW_PATH", ".clew"), embedder="hashed") as engine:
        return engine.enqueue_add(*(clew.folder / source for source in sources)).id


@pytest.mark.usefixtures("place")
@pytest.mark.slow
def test_adding_in_the_background_prints_the_job_and_a_worker_does_it(fresh: Clew) -> None:
    command = ("add", "--background", "pages", "--chunk-size", "20", "--chunk-overlap", "0")
    done = fresh(*command)
    assert done.code == 0, done.err
    job_id = done.out.strip()
    watched = fresh("jobs", "watch", job_id, "--json")
    assert watched.code == 0, watched.err
    (job,) = watched.json["jobs"]
    assert (job["id"], job["state"], job["done"], job["attempts"]) == (job_id, "done", 4, 1)
    assert sorted(job["result"]["added"]) == sorted(r["uri"] for r in fresh("list", "--json").json["documents"])
    assert job["request"]["settings"]["ingestion"]["chunk_size"] == 20
    assert fresh("jobs", "--json").json["jobs"] == [job]
    again = fresh(*command, "--json")
    assert fresh("jobs", "watch", again.json["id"], "--json").json["jobs"][0]["result"]["skipped"] == 4


@pytest.mark.usefixtures("place")
def test_jobs_are_listed_shown_run_and_cancelled(fresh: Clew) -> None:
    first, second = queue(fresh, "pages/vault.md"), queue(fresh, "pages/lunch.md")
    listed = fresh("jobs")
    assert [line.split("\t")[:3] for line in listed.out.splitlines()[1:]] == [
        [first, "add", "queued"],
        [second, "add", "queued"],
    ]
    assert listed.err == "2 waiting, and no worker is at work: `clew jobs work` runs them\n"
    assert fresh("jobs", "cancel", second).out == f"{second} cancelled\n"
    worked = fresh("jobs", "work")
    assert worked.code == 0
    assert worked.out.splitlines()[1].split("\t")[2] == "done"
    assert worked.out.rstrip("\n").endswith("1 added, 0 changed, 0 skipped")
    assert fresh("jobs", "show", first, "--json").json["state"] == "done"
    assert "pages/vault.md" in fresh("jobs", "show", first).out
    assert fresh("jobs", "cancel", first, "--json").json["state"] == "done"
    assert fresh("jobs").err == ""
    missing = fresh("jobs", "watch", "nothing")
    assert (missing.code, missing.err) == (3, "clew: there is no job 'nothing'; `clew jobs` lists them\n")


def test_a_job_that_leaves_something_out_ends_with_4(fresh: Clew) -> None:
    job_id = queue(fresh, "pages/missing.md")
    worked = fresh("jobs", "work", "--json")
    assert worked.code == 4
    assert worked.json["jobs"][0]["result"]["failed"][0]["source"].endswith("missing.md")
    assert fresh("jobs", "watch", job_id).code == 4
    assert "1 failed" in fresh("jobs").out


def test_a_worker_stands_in_for_another_machine_only_when_told(fresh: Clew) -> None:
    with Engine.open(".clew", embedder="hashed") as engine:
        request = engine.enqueue_add(fresh.folder / "pages").request
        engine.opened.store.jobs.put(Job("far", "add", request, host="north"))
    assert [job["id"] == "far" for job in fresh("jobs", "work", "--json").json["jobs"]] == [False]
    assert [job["id"] for job in fresh("jobs", "work", "--host", "north", "--json").json["jobs"]] == ["far"]


def test_watching_and_the_background_exclude_each_other(fresh: Clew) -> None:
    done = fresh("add", "pages", "--background", "--watch")
    assert (done.code, "leave out --watch" in done.err) == (2, True)
    assert not Path(".clew").exists()


def test_the_lease_is_a_setting(fresh: Clew) -> None:
    job_id = queue(fresh, "pages")
    with Engine.open(".clew") as engine:
        host = engine.job(job_id).host
        assert engine.opened.store.jobs.claim("elsewhere/1/2", lease=60, max_attempts=1, host=host)
    assert fresh("jobs", "work", "--json").json["jobs"] == []  # the lease of a minute is not over
    sleep(0.2)
    done = fresh("jobs", "work", "--json", CLEW_JOBS__LEASE="0.1")
    assert [job["id"] for job in done.json["jobs"]] == [job_id]
    assert fresh("jobs", CLEW_JOBS__LEASE="0").code == 2


def test_a_worker_gets_the_collection_and_models_by_its_environment(tmp_path: Path) -> None:
    given = {"path": "postgresql://clew:secret@db/docs", "collection": "ops", "embedder.name": "hashed"}
    start = load_invocation(environ={}, overrides=given, folder=tmp_path)
    environ = make_environment(start, {"CLEW_PATH": "elsewhere", "CLEW_EMBEDDER": "wordllama", "HOME": "/home"})
    again = load_invocation(environ=environ, overrides={}, folder=tmp_path)
    assert (again.path, again.collection, again.settings) == (start.path, start.collection, start.settings)
    assert environ["HOME"] == "/home"


@pytest.mark.usefixtures("place")
def test_watching_without_an_id_shows_the_outcome_of_the_last_job(fresh: Clew) -> None:
    queue(fresh, "pages/vault.md")
    last = queue(fresh, "pages/missing.md")
    fresh("jobs", "work")
    watched = fresh("jobs", "watch")
    assert (watched.code, watched.out.splitlines()[1].split("\t")[0]) == (4, last)
    assert "1 failed" in watched.out
    good = queue(fresh, "pages/lunch.md")
    fresh("jobs", "work")
    watched = fresh("jobs", "watch", "--json")
    assert (watched.code, [job["id"] for job in watched.json["jobs"]]) == (0, [good])


def test_an_interrupted_watch_says_that_the_jobs_go_on(fresh: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    job_id = queue(fresh, "pages/vault.md")
    monkeypatch.setattr("clew.surface.cli.commands.jobs.sleep", interrupt)
    watched = fresh("jobs", "watch", job_id)
    assert watched.code == 130
    assert watched.err.splitlines()[-1] == "clew: watching ended; the jobs go on (`clew jobs` lists them)"
    assert "saved" not in watched.err
    assert fresh("jobs", "show", job_id, "--json").json["state"] == "queued"


@pytest.mark.slow
def test_hints_repeat_the_collection_that_was_given(fresh: Clew) -> None:
    given = ("--path", "my store", "--collection", "ops")
    added = fresh("add", "--background", "pages/vault.md", *given)
    job_id = added.out.strip()
    assert added.err == f"queued; `clew jobs watch {job_id} --path 'my store' --collection ops` follows it\n"
    assert fresh("jobs", "watch", job_id, *given).code == 0
    with Engine.open("my store", collection="ops", embedder="hashed") as engine:
        engine.enqueue_add(fresh.folder / "pages")
    assert "`clew jobs work --path 'my store' --collection ops` runs them" in fresh("jobs", *given).err
    assert "`clew jobs --path 'my store' --collection ops` lists them" in fresh("jobs", "show", "nothing", *given).err
    missing = fresh("collections", "drop", "nothing", *given)
    assert "`clew collections --path 'my store'` lists them" in missing.err


def test_a_missing_path_is_refused_before_it_is_queued(fresh: Clew) -> None:
    done = fresh("add", "pages", "nosuch", "--background")
    assert (done.code, done.out) == (4, "")
    assert done.err == "clew: nosuch: does not exist; nothing was queued\n"
    assert not Path(".clew").exists()


def test_cancelling_a_finished_job_says_that_it_has_finished(fresh: Clew) -> None:
    job_id = queue(fresh, "pages/vault.md")
    fresh("jobs", "work")
    assert fresh("jobs", "cancel", job_id).out == f"{job_id} has finished already: done\n"
