"""An export of which one file cannot be read: that file fails, the rest is added, nothing counts as deleted."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew import Engine
from tests.hostile import make_archive

REALM = {
    "zerver_stream": [{"id": 1, "name": "yard"}],
    "zerver_recipient": [{"id": 1, "type": 2, "type_id": 1}],
    "zerver_userprofile": [{"id": 1, "full_name": "Ann"}],
}


def make_zulip(texts: dict[str, str]) -> dict[str, str]:
    files = {"realm.json": json.dumps(REALM)}
    for number, (name, text) in enumerate(texts.items(), 1):
        row = {"id": number, "sender": 1, "recipient": 1, "subject": name, "date_sent": 1704100000, "content": text}
        files[f"messages-{number:06}.json"] = json.dumps({"zerver_message": [row]})
    return files


def make_discord(texts: dict[str, str]) -> dict[str, str]:
    files = {}
    for number, (name, text) in enumerate(texts.items(), 1):
        row: dict[str, Any] = {"id": f"{number}0", "content": text, "timestamp": "2024-01-01T10:00:00Z"}
        head = {"guild": {"id": "1"}, "channel": {"id": str(number), "name": name}}
        files[f"{number}-{name}.json"] = json.dumps(head | {"messages": [row]})
    return files


def make_slack(texts: dict[str, str]) -> dict[str, str]:
    tables = {"users.json": [{"id": "U1", "name": "ann"}], "channels.json": [{"id": "C1", "name": "general"}]}
    files = {name: json.dumps(table) for name, table in tables.items()}
    for number, text in enumerate(texts.values(), 1):
        row = {"type": "message", "ts": f"17041{number}0000.000100", "user": "U1", "text": text}
        files[f"general/2024-01-0{number}.json"] = json.dumps([row])
    return files


@pytest.mark.parametrize(
    ("make", "is_zip"),
    [(make_zulip, False), (make_zulip, True), (make_discord, True), (make_slack, False), (make_slack, True)],
)
@pytest.mark.parametrize("damage", ["cut", "", "\0\0", "[" * 100_000])
def test_one_broken_file_costs_that_file_alone(tmp_path: Path, make: Any, damage: str, *, is_zip: bool) -> None:
    files = make({"cranes": "The crane lifts.", "winches": "The winch pulls.", "soup": "Soup at noon."})
    path = tmp_path / ("export.zip" if is_zip else "export")

    def write(files: dict[str, str]) -> None:
        if is_zip:
            path.write_bytes(make_archive(files))
        for name, text in files.items() if not is_zip else ():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)

    broken = next(name for name, text in files.items() if "winch pulls" in text)
    with Engine.open(":memory:", embedder="hashed") as engine:
        write(files)
        engine.add(path)
        whole = sum(record.chunks for record in engine.list())
        assert whole == 3
        write(files | {broken: files[broken][:-8] if damage == "cut" else damage})
        again = engine.add(path)
        assert [broken in each.source for each in again.failed] == [True]
        assert sum(record.chunks for record in engine.list()) == whole
    with Engine.open(":memory:", embedder="hashed") as engine:
        assert len(engine.add(path).failed) == 1
        found = "\n".join(engine.read(record.id).text for record in engine.list())
        assert ("crane" in found, "Soup" in found, "winch" in found) == (True, True, False)


def test_a_text_that_looks_like_a_broken_address_is_stored(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Addresses\n\nThe crane is at http://[a](http://b and at (http://[::).\n")
    with Engine.open(":memory:", embedder="hashed") as engine:
        assert not engine.add(tmp_path).failed
        assert engine.search("where is the crane? http://[a")
