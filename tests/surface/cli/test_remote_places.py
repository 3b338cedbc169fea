"""What goes wrong with collections elsewhere: each command says so in one line, and nothing that is stored is lost."""

import re
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.s3_server import make_address
from tests.soak import choose_runs
from tests.surface.cli.conftest import Clew, Done

COMMANDS = (
    ("add", "pages"),
    ("search", "keys"),
    ("list",),
    ("collections",),
    ("jobs", "maintain"),
    ("export", "team.zip"),
)


def check_refused(done: Done, said: str, code: int = 6) -> None:
    """Fails unless a command ended with a code and one line that matches, and told no secret."""
    assert (done.code, done.out) == (code, ""), done
    assert re.fullmatch(rf"clew: [^\n]*{said}[^\n]*\n", done.err), done.err
    assert "secret" not in done.err


def at(place: str) -> tuple[str, ...]:
    return ("--path", place, "--embedder", "hashed")


def test_object_storage_that_cannot_be_used_is_said_by_every_command(fresh: Clew, s3_server: str, s3: str) -> None:
    assert fresh(*at(s3), "add", "pages/vault.md").code == 0
    bucket = s3.removeprefix("s3://").partition("/")[0]
    strange, missing = make_address(s3_server, bucket, key="stranger"), make_address(s3_server, "nowhere")
    for words in COMMANDS[: choose_runs(1, len(COMMANDS))]:  # the library tries again for two seconds each
        check_refused(fresh(*at(strange), *words), "refuses these credentials")
        check_refused(fresh(*at(missing), *words), "there is no such bucket; create it")
    assert not Path("team.zip").exists()
    assert set(fresh.hits("signing keys", *at(s3))) == {"vault.md"}


def test_a_server_that_refuses_is_said_by_every_command(fresh: Clew, postgres: str) -> None:
    assert fresh(*at(postgres), "add", "pages/vault.md").code == 0
    host = urlsplit(postgres)
    strange = host._replace(netloc=f"stranger:secret@{host.netloc.rpartition('@')[2]}").geturl()
    missing = host._replace(path="/nowhere").geturl()
    for words in COMMANDS:
        for place in (strange, missing):
            check_refused(fresh(*at(place), *words), "there is no such database or role")
    assert set(fresh.hits("signing keys", *at(postgres))) == {"vault.md"}


def demand_password(server: Any) -> str:
    """The address of a database of the server, for a role that needs the password `secret-1`."""
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE ROLE keeper LOGIN SUPERUSER PASSWORD 'secret-1'")
        (place,) = connection.execute("SHOW hba_file").fetchone() or ()
        rules = Path(place)
        rules.write_text(f"local all keeper scram-sha-256\nhost all keeper all scram-sha-256\n{rules.read_text()}")
        connection.execute("SELECT pg_reload_conf()")
    return str(urlsplit(server.get_uri())._replace(netloc="keeper:secret-1@").geturl())


def test_a_refused_password_is_said_by_every_command(fresh: Clew, postgres_to_kill: Any) -> None:
    right = demand_password(postgres_to_kill)
    assert fresh(*at(right), "add", "pages/vault.md").code == 0
    for words in COMMANDS:
        for login in ("keeper:secret-2@", "keeper@"):
            place = urlsplit(right)._replace(netloc=login).geturl()
            check_refused(fresh(*at(place), *words), "the password is wrong, or none was given; check the address")
    assert not Path("team.zip").exists()
    assert set(fresh.hits("signing keys", *at(right))) == {"vault.md"}
    assert fresh(*at(right), "add", "pages").code == 0
    assert len(fresh(*at(right), "list", "--json").json["documents"]) == 4


def test_a_full_disk_of_the_server_is_said_and_what_is_stored_stays(fresh: Clew, postgres: str) -> None:
    assert fresh(*at(postgres), "add", "pages/vault.md").code == 0
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left' USING ERRCODE = '53100'; END $$;"
            " CREATE TRIGGER full_disk BEFORE INSERT ON clew.chunks FOR EACH ROW EXECUTE FUNCTION public.full()"
        )
        done = fresh(*at(postgres), "add", "pages")
        assert done.code == 6
        assert "the server's disk is full; make room and try again" in done.err
        assert "Traceback" not in done.err
        assert set(fresh.hits("signing keys", *at(postgres))) == {"vault.md"}
        connection.execute("DROP TRIGGER full_disk ON clew.chunks")
    assert fresh(*at(postgres), "add", "pages").code == 0
    assert len(fresh(*at(postgres), "list", "--json").json["documents"]) == 4


def test_a_version_that_was_cleaned_cannot_be_read_and_one_that_is_there_not_changed(
    fresh: Clew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.drivers.store.lance.indexes.KEPT", timedelta(0))  # also for those who read just now
    place = at(f"lance://{fresh.folder}/lake")
    assert fresh(*place, "add", "pages/vault.md").code == 0
    time.sleep(0.002)  # times of versions are kept to the microsecond
    then = ("--as-of", datetime.now(UTC).isoformat())
    assert fresh(*place, "add", "pages/oncall.md").code == 0
    assert "vault.md" in fresh(*place, *then, "list").out
    for words in (("jobs", "maintain"), ("add", "--background", "pages/lunch.md")):
        check_refused(fresh(*place, *then, *words), "the past stays as it is")
    assert fresh(*place, "jobs", "--json").json == {"jobs": []}
    assert fresh(*place, "add", "pages/lunch.md", CLEW_STORE__KEEP_VERSIONS="0").code == 0
    for command in ("list", "status"):
        check_refused(fresh(*place, *then, command), "has no version of", code=3)
    assert {row["title"] for row in fresh(*place, "list", "--json").json["documents"]} == {"Vault", "On call", "Lunch"}


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are POSIX")
@pytest.mark.parametrize("scheme", ["", "lance://"])
def test_a_full_disk_is_said_and_what_is_stored_stays(fresh: Clew, scheme: str) -> None:
    import resource

    place = at(f"{scheme}{fresh.folder}/team")
    assert fresh(*place, "add", "pages/vault.md").code == 0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))  # a longer file cannot be written, as on a full disk
    try:
        done = fresh(*place, "add", "pages")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.code != 0
    assert "disk" in done.err + done.out, done
    assert "Traceback" not in done.err
    assert set(fresh.hits("signing keys", *place)) == {"vault.md"}
    assert fresh(*place, "add", "pages").code == 0
    assert len(fresh(*place, "list", "--json").json["documents"]) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are POSIX")
@pytest.mark.parametrize("size", [0, 4096, 40_000, 80_000, 160_000])
def test_a_new_collection_on_a_full_disk_says_so(fresh: Clew, size: int) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        done = fresh("add", "pages")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.code == 6
    assert "the disk is full" in done.err
    assert "cannot rollback" not in done.err
    assert fresh("add", "pages").code == 0
