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


def test_a_newer_export_changes_who_sees_it(tmp_path: Path, open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed")
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


def test_what_was_added_without_labels_gets_them_with_the_next_export(tmp_path: Path, open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed")
    everything = [{"id": folder, "name": folder} for folder in SAID]
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
