"""Private channels and direct conversations of a Slack export: their members see them, and nobody else."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Filter
from tests.engine.chosen import OpenEngine

SAID = {
    "general": "Lunch is at noon.",
    "hr-private": "The salary of Ben rises to 70k.",
    "D1": "Please keep my illness secret.",
    "mpdm-ana--ben--cho-1": "The three of us found a firm.",
    "listed-as-public": "The merger is called off.",
    "stray": "A folder of which nobody knows the members.",
}
TABLES: dict[str, Any] = {
    "users.json": [{"id": f"U{n}", "name": name} for n, name in enumerate(("ana", "ben", "cho", "dee"), 1)],
    "channels.json": [
        {"id": "C1", "name": "general", "members": ["U1"]},
        {"id": "C2", "name": "listed-as-public", "is_private": True, "members": ["U4"]},
    ],
    "groups.json": [{"id": "G1", "name": "hr-private", "members": ["U1", "U3"]}],
    "dms.json": [{"id": "D1", "members": ["U1", "U2"]}],
    "mpims.json": [{"id": "G2", "name": "mpdm-ana--ben--cho-1", "members": ["U1", "U2", "U3"]}],
}


def write_export(path: Path, tables: Mapping[str, Any] = TABLES, *, is_zip: bool = False) -> Path:
    days = {
        f"{folder}/2026-01-01.json": [{"type": "message", "ts": f"{n}.0", "user": "U1", "text": text}]
        for n, (folder, text) in enumerate(SAID.items(), 1)
    }
    for name, value in {**tables, **days}.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(json.dumps(value))
    return Path(shutil.make_archive(str(path), "zip", path)) if is_zip else path


def list_seen(engine: Engine, *labels: str) -> set[str]:
    """The folders of which somebody with these labels finds a message and reads the thread."""
    inner = engine.within(Filter(access=set(labels)))
    found = {hit.chunk.text for hit in inner.search(" ".join(SAID.values()), k=20, strategy="semantic")}
    read = {inner.read(record.id).text.strip() for record in inner.list()}
    assert found == read
    return {folder for folder, text in SAID.items() if text in found}


@pytest.mark.parametrize("is_zip", [False, True])
def test_only_members_see_private_channels_and_direct_conversations(
    tmp_path: Path, open_engine: OpenEngine, *, is_zip: bool
) -> None:
    export = write_export(tmp_path / "export", is_zip=is_zip)
    engine = open_engine(embedder="hashed")
    report = engine.add(export)
    assert [(note.source, note.reason) for note in report.noted] == [
        (
            str(export),
            "only members may see: 2 private channels, 2 direct conversations, "
            "1 channel that no table lists (no members known) (access labels: user ids)",
        )
    ]
    group = "mpdm-ana--ben--cho-1"
    assert list_seen(engine, "U1") == {"general", "hr-private", "D1", group}
    assert list_seen(engine, "U2") == {"general", "D1", group}
    assert list_seen(engine, "U3") == {"general", "hr-private", group}
    assert list_seen(engine, "U4") == {"general", "listed-as-public"}
    assert list_seen(engine, "ana", "everybody") == {"general"}
    assert len(list(engine.list())) == len(SAID)  # the engine without labels sees all of it


def test_a_newer_export_changes_who_sees_it(tmp_path: Path, engine: Engine) -> None:
    export = write_export(tmp_path / "export")
    engine.add(export)
    newer = {**TABLES, "groups.json": [{"id": "G1", "name": "hr-private", "members": ["U3", "U4"]}]}
    report = engine.add(write_export(export, newer))
    assert (report.added, len(report.changed), report.embedded) == ((), 1, 0)
    assert "hr-private" not in list_seen(engine, "U1")
    assert "hr-private" in list_seen(engine, "U3") & list_seen(engine, "U4")
    private = {**newer, "channels.json": [], "groups.json": [{"id": "C1", "name": "general", "members": ["U2"]}]}
    engine.add(write_export(export, private))
    assert list_seen(engine, "U1") == {"D1", "mpdm-ana--ben--cho-1"}
    assert "general" in list_seen(engine, "U2")


def test_what_was_added_without_labels_gets_them_with_the_next_export(tmp_path: Path, engine: Engine) -> None:
    everything = [{"id": f"C-{folder}", "name": folder} for folder in SAID]
    public = {"users.json": TABLES["users.json"], "channels.json": everything}
    export = write_export(tmp_path / "export", public)
    report = engine.add(export)
    assert report.noted == ()
    assert "hr-private" in list_seen(engine, "U2")
    engine.add(write_export(export))
    assert "hr-private" not in list_seen(engine, "U2")


def test_a_row_without_members_is_seen_by_no_label(tmp_path: Path) -> None:
    tables = {**TABLES, "groups.json": [{"id": "G1", "name": "hr-private"}], "dms.json": [{"id": "D1", "members": 7}]}
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(write_export(tmp_path / "export", tables))
        assert list_seen(engine, "U1", "U2", "U3", "G1", "D1") == {"general", "mpdm-ana--ben--cho-1"}


@pytest.mark.parametrize("is_zip", [False, True])
@pytest.mark.parametrize("content", ["", "{}", "null", "["])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_cannot_be_read_is_a_failure(tmp_path: Path, table: str, content: str, *, is_zip: bool) -> None:
    export = write_export(tmp_path / "export")
    (export / table).write_text(content)
    if is_zip:
        export = Path(shutil.make_archive(str(export), "zip", export))
    with Engine.open(":memory:", embedder="hashed") as engine:
        report = engine.add(export)
        assert [failure.source for failure in report.failed] == [f"{export}/{table}"]
        assert not list(engine.list())


@pytest.mark.parametrize("is_zip", [False, True])
@pytest.mark.parametrize("kept", [(), ("users.json",), ("dms.json",), ("groups.json",)])
def test_a_channel_that_no_table_lists_is_seen_by_no_label(tmp_path: Path, kept: tuple[str, ...], is_zip: bool) -> None:
    export = write_export(tmp_path / "export", {name: TABLES[name] for name in kept}, is_zip=is_zip)
    listed = {"dms.json": {"D1"}, "groups.json": {"hr-private"}}
    with Engine.open(":memory:", embedder="hashed") as engine:
        report = engine.add(export)
        assert list_seen(engine, "U1") == set[str]().union(*(listed.get(name, set()) for name in kept))
        assert list_seen(engine, "U4") == set()
        assert sorted(record.kind for record in engine.list()) == ["thread"] * len(SAID)
        assert all("that no table lists" in note.reason for note in report.noted)
        assert report.noted


@pytest.mark.parametrize("part", ["D1", "D1/2026-01-01.json"])
def test_a_part_of_an_export_is_read_with_its_tables(tmp_path: Path, part: str) -> None:
    export = write_export(tmp_path / "export")
    link = tmp_path / "link.json"
    link.symlink_to(export / part)
    for path in (export / part, link):
        with Engine.open(":memory:", embedder="hashed") as engine:
            report = engine.add(path)
            assert [note.reason for note in report.noted] == [
                "only members may see: 1 direct conversation (access labels: user ids)"
            ]
            assert (list_seen(engine, "U2"), list_seen(engine, "U3")) == ({"D1"}, set())
            assert [record.title for record in engine.list()] == ["#ana, ben: Please keep my illness secret."]


def test_a_day_by_itself_deletes_no_message_of_another_day(tmp_path: Path) -> None:
    export = write_export(tmp_path / "export")
    first = {"type": "message", "ts": "1767225600.0", "user": "U1", "text": "Who brings the tent?"}
    reply = {**first, "ts": "1767312000.0", "text": "Cho brings it.", "thread_ts": first["ts"]}
    (export / "D1" / "2026-01-01.json").write_text(json.dumps([first]))
    (export / "D1" / "2026-01-02.json").write_text(json.dumps([reply]))
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(export / "D1")
        engine.add(export / "D1" / "2026-01-02.json")
        assert "Who brings the tent?" in "".join(engine.read(record.id).text for record in engine.list())


def test_files_by_day_of_other_programs_are_pages(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "2026-01-01.json").write_text('[{"ts": 17672, "type": "start", "text": "The pump starts."}]')
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(tmp_path)
        assert "pump" in engine.search("pump")[0].chunk.text


@pytest.mark.parametrize(
    "row",
    [
        *({"is_private": 1}, {"is_private": "true"}, {"is_group": True}, {"is_im": True}, {"is_mpim": True}),
        *({"id": "D7"}, {"id": "G7"}),
    ],
)
def test_marks_of_a_private_channel(tmp_path: Path, row: dict[str, Any]) -> None:
    marked = {"id": "C7", "name": "hr-private", "members": ["U3"], **row}
    public = {"id": "C7", "name": "hr-private"}
    for rows in ([marked], [marked, public], [public, marked]):
        tables = {**TABLES, "channels.json": rows, "groups.json": []}
        with Engine.open(":memory:", embedder="hashed") as engine:
            engine.add(write_export(tmp_path / "export", tables))
            assert "hr-private" in list_seen(engine, "U3")
            assert "hr-private" not in list_seen(engine, "U1")


def test_a_user_or_member_without_an_id_is_nobody(tmp_path: Path) -> None:
    tables = {**TABLES, "users.json": [{"name": "ghost"}], "dms.json": [{"id": "D1", "members": ["U1", ""]}]}
    export = write_export(tmp_path / "export", tables)
    sent = {"type": "message", "ts": "1.0", "text": "Deployed.", "username": "deploybot", "bot_id": "B1"}
    (export / "general" / "2026-01-01.json").write_text(json.dumps([sent]))
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(export)
        assert engine.search("deployed", k=1)[0].chunk.meta["author"] == "deploybot"
        assert "D1" not in list_seen(engine, "")
