"""A Slack export of which one day cannot be read: that file fails, the rest is added, nothing counts as deleted."""

import json
import shutil
from pathlib import Path

import pytest

from clew import Engine

DAYS = {
    "general/2024-01-01.json": [("1704100000.000100", "The crane lifts."), ("1704100060.000100", "The winch pulls.")],
    "general/2024-01-02.json": [("1704190000.000100", "The pulley turns.")],
    "random/2024-01-01.json": [("1704100100.000100", "Soup at noon.")],
}


@pytest.mark.parametrize("is_zip", [False, True])
@pytest.mark.parametrize("broken", ['[{"type": "message", "ts"', "", "\0\0", "[" * 100_000])
def test_one_broken_day_costs_that_day_alone(tmp_path: Path, broken: str, *, is_zip: bool) -> None:
    folder = tmp_path / "export"
    rows = {
        name: [{"type": "message", "ts": ts, "user": "U1", "text": text} for ts, text in day]
        for name, day in DAYS.items()
    }
    tables = {"users.json": [{"id": "U1", "name": "ann"}], "channels.json": [{"id": "C1", "name": "general"}]}
    for name, value in {**tables, **rows}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(value))

    def give() -> Path:
        return Path(shutil.make_archive(str(folder), "zip", folder)) if is_zip else folder

    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(give())
        whole = sum(record.chunks for record in engine.list())
        (folder / "general" / "2024-01-01.json").write_text(broken)
        again = engine.add(give())
        assert sum(record.chunks for record in engine.list()) == whole
        assert ["2024-01-01.json" in each.source for each in again.failed] == [True]
        assert engine.search("crane lifts")
    with Engine.open(":memory:", embedder="hashed") as engine:
        first = engine.add(give())
        assert len(first.failed) == 1
        found = "\n".join(engine.read(record.id).text for record in engine.list())
        assert "pulley" in found
        assert "Soup" in found
        assert "crane" not in found
