"""A chat export among other files: both are added, and what the rules keep out is kept out of the export too."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Settings
from clew.core.report import Report
from clew.core.settings import IngestionConfig

PAGE = "# Kelp\n\nKelp grows in cold water.\n"


def write(folder: Path, files: dict[str, Any]) -> None:
    """Writes files, those that are no text as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def write_slack(folder: Path) -> None:
    """Writes a Slack export with the channels general and hr."""
    day = {"type": "message", "user": "U1"}
    write(
        folder,
        {
            "users.json": [{"id": "U1", "name": "ann"}],
            "channels.json": [{"id": "C1", "name": "general"}, {"id": "C2", "name": "hr"}],
            "general/2024-01-01.json": [{**day, "ts": "1704100000.0001", "text": "The winch pulls."}],
            "general/2024-01-02.json": [{**day, "ts": "1704190000.0001", "text": "The anchor holds."}],
            "hr/2024-01-01.json": [{**day, "ts": "1704100001.0001", "text": "The salary list is secret."}],
        },
    )


def write_zulip(folder: Path) -> None:
    """Writes a Zulip export with one stream and one upload."""
    realm = {
        "zerver_stream": [{"id": 1, "name": "yard"}],
        "zerver_recipient": [{"id": 1, "type": 2, "type_id": 1}],
        "zerver_userprofile": [{"id": 1, "full_name": "Ann"}],
        "zerver_subscription": [],
    }
    row = {"id": 1, "sender": 1, "recipient": 1, "subject": "ropes", "content": "Ropes fray.", "date_sent": 1704100000}
    files = {
        "realm.json": realm,
        "messages-000001.json": {"zerver_message": [row]},
        "uploads/2/private.md": "# Private",
    }
    write(folder, files)


def write_telegram(folder: Path) -> None:
    """Writes a Telegram export of one chat."""
    row = {"id": 1, "type": "message", "date": "2024-01-01T10:00:00", "from": "Ann", "text": "Sails tear."}
    write(folder, {"result.json": {"name": "sailing", "type": "private_group", "id": 1, "messages": [row]}})


def write_whatsapp(folder: Path) -> None:
    """Writes a WhatsApp export of one chat."""
    write(folder, {"_chat.txt": "[01/01/2024, 10:00:00] Ann: Oars snap.\n[01/01/2024, 10:01:00] Bo: They do.\n"})


def add(folder: Path, **config: Any) -> tuple[Report, dict[str, str]]:
    """The report, and the texts of what was added by uri."""
    with Engine.open(":memory:", embedder="hashed", settings=Settings(ingestion=IngestionConfig(**config))) as engine:
        report = engine.add(folder)
        return report, {record.uri: engine.read(record.id).text for record in engine.list()}


@pytest.mark.parametrize(
    ("write_export", "said"),
    [
        (write_slack, "The winch pulls."),
        (write_zulip, "Ropes fray."),
        (write_telegram, "Sails tear."),
        (write_whatsapp, "Oars snap."),
    ],
)
def test_pages_beside_an_export_are_added_with_it(tmp_path: Path, write_export: Any, said: str) -> None:
    write_export(tmp_path)
    write(tmp_path, {"kelp.md": PAGE, "more/kelp.md": PAGE.replace("Kelp", "Algae"), "notes.txt": "Algae bloom."})
    report, texts = add(tmp_path)
    assert not report.failed
    assert any(said in text for text in texts.values())
    pages = {uri.split(f"{tmp_path.name}/")[-1] for uri in texts if uri.endswith((".md", ".txt"))}
    assert pages == {"kelp.md", "more/kelp.md", "notes.txt"}


def test_several_exports_in_one_folder_are_all_read(tmp_path: Path) -> None:
    for write_export in (write_slack, write_zulip, write_telegram, write_whatsapp):
        write_export(tmp_path)
    _, texts = add(tmp_path)
    every = "\n".join(texts.values())
    assert all(said in every for said in ("The winch pulls.", "Sails tear.", "Oars snap."))


def test_uploads_of_an_export_are_passed_over_and_counted(tmp_path: Path) -> None:
    write_zulip(tmp_path)
    report, texts = add(tmp_path)
    assert report.passed_over_counts == {"attachment of a chat export": 1}
    assert len(texts) == 1


@pytest.mark.parametrize("how", ["inside", "above", "exclude"])
def test_a_channel_that_the_rules_keep_out_is_not_read(tmp_path: Path, how: str) -> None:
    write_slack(tmp_path / "export")
    if how != "exclude":
        (tmp_path / ("export/.clewignore" if how == "inside" else ".clewignore")).write_text("hr/\n2024-01-02.json\n")
    report, texts = add(tmp_path, exclude=("hr/", "2024-01-02.json") if how == "exclude" else ())
    every = "\n".join(texts.values())
    assert "winch" in every
    assert "salary" not in every
    assert "anchor" not in every
    assert sum(each.files for each in report.passed_over if "hidden" not in each.reason) == 2


def test_an_export_without_its_tables_is_passed_over(tmp_path: Path) -> None:
    write_slack(tmp_path)
    write(tmp_path, {"kelp.md": PAGE})
    report, texts = add(tmp_path, include=("*.md",))
    assert [Path(uri).name for uri in texts] == ["kelp.md"]
    assert report.passed_over_counts == {"not included": 5}
