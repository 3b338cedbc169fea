"""Slack exports: names, threads, edits and deletions, service notices, and detection."""

import io
import json
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.index.chat import ChatExport, detect_export
from clew.index.chat.normalise import DELETED, EDITED, EMPTY, NOTICES, REPEATED, UNREADABLE
from clew.index.chat.slack import WorkspaceNames, message_to_text, resolve_slack_markup

SAMPLE = Path(__file__).parents[3] / "examples" / "chat"
USERS = [
    {"id": "U1", "name": "ann", "profile": {"display_name": "Ann", "real_name": "Ann Lee"}},
    {"id": "U2", "name": "bob", "profile": {"display_name": "", "real_name": "Bob Ray"}},
]
CHANNELS = [{"id": "C1", "name": "general", "members": ["U1", "U2"]}, {"id": "C2", "name": "random"}]
DMS = [{"id": "D1", "members": ["U2", "U1"]}]


def make_entry(ts: str, text: str, user: str = "U1", **more: Any) -> dict[str, Any]:
    return {"type": "message", "ts": ts, "user": user, "text": text, **more}


def make_files(days: Mapping[str, object]) -> dict[str, str]:
    tables = {"users.json": USERS, "channels.json": CHANNELS, "dms.json": DMS}
    return {name: json.dumps(value) for name, value in {**tables, **days}.items()}


def write_folder(place: Path, days: Mapping[str, object]) -> Path:
    for name, text in make_files(days).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    return place


def write_zip(path: Path, days: Mapping[str, object], *, around: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in make_files(days).items():
            archive.writestr(around + name, text)
    return path


def open_export(path: Path) -> ChatExport:
    found = detect_export(path)
    assert found is not None
    assert found.kind == "slack"
    return found


def list_channels(path: Path) -> dict[str, list[Message]]:
    return {name: list(messages) for name, messages in open_export(path).read_channels()}


DAYS: dict[str, object] = {
    "general/2024-01-02.json": [
        make_entry("1704200000.000200", "Second day", user="U9"),
        make_entry("1704190000.000100", "Earlier that day, later in the file"),
    ],
    "general/2024-01-01.json": [
        make_entry("1704100000.000100", "<@U2> see <#C2|random>", thread_ts="1704100000.000100"),
        make_entry("1704100060.000100", "On it &amp; done", user="U2", thread_ts="1704100000.000100"),
    ],
    "D1/2024-01-01.json": [make_entry("1704100100.000100", "psst")],
}


def test_a_folder_becomes_messages_by_channel(tmp_path: Path) -> None:
    found = list_channels(write_folder(tmp_path, DAYS))
    assert list(found) == ["Ann, Bob Ray", "general"]
    first, reply, third, fourth = found["general"]
    assert first == Message(
        "@Bob Ray see #random",
        author="Ann",
        at=datetime(2024, 1, 1, 9, 6, 40, 100, tzinfo=UTC),
        id="general/1704100000.000100",
        channel="general",
    )
    assert (reply.text, reply.author, reply.reply_to) == ("On it & done", "Bob Ray", first.id)
    assert [third.text, fourth.author] == ["Earlier that day, later in the file", "U9"]
    assert found["Ann, Bob Ray"][0].id == "Ann, Bob Ray/1704100100.000100"


@pytest.mark.parametrize("around", ["", "Acme Slack export Jan 1 2024/"])
def test_a_zip_gives_the_same_as_a_folder_and_so_does_a_second_reading(tmp_path: Path, around: str) -> None:
    whole = open_export(write_zip(tmp_path / "acme.zip", DAYS, around=around))
    once = {name: list(messages) for name, messages in whole.read_channels()}
    assert once == list_channels(write_folder(tmp_path / "folder", DAYS))
    assert once == {name: list(messages) for name, messages in whole.read_channels()}


def test_edits_are_applied_and_deletions_and_notices_are_left_out(tmp_path: Path) -> None:
    days = {
        "general/2024-01-01.json": [
            make_entry("1.0", "has joined", subtype="channel_join"),
            make_entry("2.0", "set the topic", subtype="channel_topic"),
            make_entry("3.0", "final text", edited={"user": "U1", "ts": "3.5"}),
            make_entry("4.0", "first words"),
            make_entry("5.0", "regretted"),
            {"type": "message", "subtype": "message_changed", "ts": "6.0", "message": make_entry("4.0", "last words")},
            {"type": "message", "subtype": "message_deleted", "ts": "7.0", "deleted_ts": "5.0"},
            make_entry("8.0", "This message was deleted.", subtype="tombstone", user="USLACKBOT"),
            make_entry("9.0", "also to all", thread_ts="3.0"),
            make_entry("9.0", "also to all", thread_ts="3.0", subtype="thread_broadcast"),
            make_entry("10.0", ""),
            "no entry",
        ]
    }
    whole = open_export(write_folder(tmp_path, days))
    ((_, messages),) = whole.read_channels()
    assert [each.text for each in messages] == ["final text", "last words", "also to all"]
    assert whole.notes == {NOTICES: 2, EDITED: 2, DELETED: 2, REPEATED: 1, EMPTY: 1, UNREADABLE: 1}


def test_programs_are_kept_by_their_names(tmp_path: Path) -> None:
    card = {
        "title": "Build 7",
        "text": "failed on <https://ci.example/7|main>",
        "fields": [{"title": "By", "value": "Ann"}],
    }
    days = {
        "general/2024-01-01.json": [
            {
                "type": "message",
                "subtype": "bot_message",
                "ts": "1.0",
                "username": "CI",
                "text": "",
                "attachments": [card],
            },
            make_entry("2.0", "hi", user="", bot_id="B1", bot_profile={"name": "Greeter"}),
            make_entry("3.0", "hello", user="W5", user_profile={"display_name": "", "real_name": "Guest"}),
        ]
    }
    first, second, third = list_channels(write_folder(tmp_path, days))["general"]
    assert (first.author, first.role) == ("CI", "bot")
    assert first.text == "Build 7\nfailed on main (https://ci.example/7)\nBy: Ann"
    assert [second.author, third.author, third.role] == ["Greeter", "Guest", "user"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<@U1> and <@U7|zed> and <@U8>", "@Ann and @zed and @U8"),
        ("<#C2> <#C9|gone> <#C9>", "#random #gone #C9"),
        ("<https://a.example|the page> <https://b.example>", "the page (https://a.example) https://b.example"),
        ("<http://a.example|a.example> <mailto:ann@a.example|ann@a.example>", "http://a.example ann@a.example"),
        ("<!here> <!subteam^S1|@ops> <!date^1^{date}|1 January>", "@here @ops 1 January"),
        ("if a &lt; b &amp;&amp; c &gt; d", "if a < b && c > d"),
        ("&lt;@U1&gt; is how a mention is typed", "<@U1> is how a mention is typed"),
    ],
)
def test_what_stands_in_brackets_is_spelled_out(text: str, expected: str) -> None:
    assert resolve_slack_markup(text, WorkspaceNames({"U1": "Ann"}, {"C2": "random"})) == expected


def test_files_previews_and_blocks_are_named() -> None:
    names = WorkspaceNames({"U1": "Ann"}, {})
    files = [{"name": "plan.pdf"}, {"mode": "tombstone", "name": "gone.pdf"}]
    preview = {"from_url": "https://a.example", "title": "A page", "text": "all of its words"}
    assert (
        message_to_text({"text": "look", "files": files, "attachments": [preview]}, names)
        == "look\n[link: A page]\n[file: plan.pdf]"
    )
    line = [
        {"type": "user", "user_id": "U1"},
        {"type": "text", "text": " see <b> "},
        {"type": "link", "url": "https://a.example"},
    ]
    blocks = [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": line}]}]
    assert message_to_text({"text": "", "blocks": blocks}, names) == "@Ann see <b> https://a.example"


def test_an_export_is_known_by_its_shape(tmp_path: Path) -> None:
    (tmp_path / "channels.json").write_text('{"not": "a list"}')
    (tmp_path / "users.json").write_text("[]")
    assert detect_export(tmp_path) is None
    days = write_folder(tmp_path / "days", {"general/2024-01-01.json": [make_entry("1.0", "hi")]})
    for name in ("channels.json", "dms.json"):
        (days / name).unlink()
    assert list_channels(days)["general"][0].id == "general/1.0"
    (tmp_path / "pages" / "chat").mkdir(parents=True)
    (tmp_path / "pages" / "page.md").write_text("# A page")
    write_folder(tmp_path / "pages" / "chat", DAYS)
    assert detect_export(tmp_path / "pages") is None


def find_failure(path: Path) -> str:
    export = open_export(path)
    assert [name for name, messages in export.read_channels() if list(messages)] == ["Ann, Bob Ray", "general"]
    [failure] = export.notes.failures
    return str(failure)


def find_reason(path: Path) -> str:
    with pytest.raises(SourceError) as caught:
        list_channels(path)
    return str(caught.value)


def test_damaged_exports_say_so(tmp_path: Path) -> None:
    cut = write_folder(tmp_path / "cut", DAYS)
    day = cut / "general" / "2024-01-01.json"
    day.write_text(day.read_text()[:-40])
    assert "2024-01-01.json: is cut short" in find_failure(cut)
    day.write_bytes(b'[{"ts": "1.0", "text": "caf\xe9"}]')
    assert "is not UTF-8 text" in find_failure(cut)
    day.write_text('[{"ts": "1.0" "text": 1}]')
    assert "is not valid JSON" in find_failure(cut)
    day.write_text("[" * 100_000)
    assert "nested too deeply" in find_failure(cut) or "cut short" in find_failure(cut)
    empty = write_folder(
        tmp_path / "empty", {"general/2024-01-01.json": [make_entry("1.0", "x", subtype="channel_join")]}
    )
    assert "without messages; skipped: 1 service notice (" in find_reason(empty)
    assert "without messages" in find_reason(write_folder(tmp_path / "bare", {}))


def test_archives_that_are_broken_bombs_or_reach_outside_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "acme.zip"
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(SourceError, match="archive is broken"):
        detect_export(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.json", b" " * 60_000_000)
    with pytest.raises(SourceError, match="200 times its size"):
        detect_export(path)
    for name in ("../users.json", "/etc/users.json", "a/../../users.json"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(name, "[]")
        path.write_bytes(file.getvalue())
        with pytest.raises(SourceError, match="outside itself"):
            detect_export(path)
    write_zip(path, DAYS)
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(SourceError):
        list_channels(path)


def test_an_archive_that_lies_about_its_sizes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "acme.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.json", json.dumps(USERS * 1000))
        archive.writestr("channels.json", json.dumps(CHANNELS))
    data = bytearray(path.read_bytes())
    for place, before in ((data.index(b"PK\x01\x02"), 24), (data.index(b"PK\x03\x04"), 22)):
        data[place + before : place + before + 4] = (10).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    with pytest.raises(SourceError, match=r"broken|cut short"):
        list_channels(path)


def test_a_zip_that_holds_no_chat_is_none(tmp_path: Path) -> None:
    path = tmp_path / "pages.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("page.md", "# A page")
    assert detect_export(path) is None
    assert detect_export(tmp_path / "missing.zip") is None


@pytest.mark.skipif(not (SAMPLE / "channels.json").exists(), reason="the sample chat is not here")
def test_the_sample_is_read_whole() -> None:
    whole = open_export(SAMPLE)
    found = {name: list(messages) for name, messages in whole.read_channels()}
    ids = [each.id for messages in found.values() for each in messages]
    assert len(found) >= 4
    assert len(ids) >= 400
    assert len(set(ids)) == len(ids)
    assert all(each.author and each.at and each.text for messages in found.values() for each in messages)
    answered = {each.reply_to for messages in found.values() for each in messages if each.reply_to}
    assert len(answered - set(ids)) <= whole.notes[DELETED]
    assert not any("<@U" in each.text or "&lt;" in each.text for messages in found.values() for each in messages)
