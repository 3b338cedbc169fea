"""JSON exports (Discord, Telegram, Zulip, JSON Lines), and the streaming JSON parser."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import SourceError
from clew.core.types import Message
from clew.index.chat import ChatExport, detect_export, jsonl
from clew.index.chat.files import JsonScanner
from clew.index.chat.normalise import (
    EDITED,
    EMPTY,
    NOTICES,
    REPEATED,
    REPLACED,
    UNDATED,
    UNREADABLE,
    UTC_ASSUMED,
    sort_messages_by_time,
)
from clew.index.chat.zulip import DIRECT_SKIPPED


def open_export(path: Path, kind: str) -> ChatExport:
    found = detect_export(path)
    assert found is not None
    assert found.kind == kind
    return found


def list_channels(whole: ChatExport) -> dict[str, list[Message]]:
    once = {name: list(messages) for name, messages in whole.read_channels()}
    notes = dict(whole.notes)
    assert once == {name: list(messages) for name, messages in whole.read_channels()}
    assert notes == whole.notes
    return once


def find_reason(path: Path, kind: str) -> str:
    with pytest.raises(SourceError) as caught:
        list_channels(open_export(path, kind))
    return str(caught.value)


# Discord


def make_discord(channel: dict[str, Any], messages: list[Any]) -> str:
    head = {"guild": {"id": "1", "name": "Acme"}, "channel": channel, "dateRange": {"after": None}}
    return json.dumps({**head, "messages": messages, "messageCount": len(messages)}, indent=2)


def make_discord_message(number: int, content: str, **more: Any) -> dict[str, Any]:
    author = {"id": "7", "name": "ann_77", "nickname": "Ann", "isBot": False}
    at = f"2024-01-01T10:00:{number:02}.5+01:00"
    return {"id": str(number), "type": "Default", "timestamp": at, "content": content, "author": author, **more}


GENERAL = {"id": "10", "type": "GuildTextChat", "category": "Text", "name": "general"}


def test_a_discord_channel(tmp_path: Path) -> None:
    path = tmp_path / "anything.json"
    bot = {"id": "8", "name": "Helper", "isBot": True}
    embed = {
        "title": "Status",
        "url": "https://s.example",
        "description": "up",
        "fields": [{"name": "a", "value": "b"}],
    }
    rows = [
        make_discord_message(
            2, "yes <@7> <:wave:123>", type="Reply", reference={"messageId": "1"}, mentions=[{"id": "7", "name": "Ann"}]
        ),
        make_discord_message(1, "ready?", timestampEdited="2024-01-01T10:05:00+01:00"),
        make_discord_message(3, "", attachments=[{"fileName": "plan.pdf"}], stickers=[{"name": "Wow"}]),
        make_discord_message(4, "", author=bot, embeds=[embed]),
        make_discord_message(5, "https://s.example", embeds=[embed]),
        make_discord_message(6, "joined", type="GuildMemberJoin"),
        make_discord_message(7, "  "),
        make_discord_message(8, "no time", timestamp="long ago"),
        {"content": "no id"},
    ]
    path.write_text(make_discord(GENERAL, rows))
    whole = open_export(path, "discord")
    messages = list_channels(whole)["general"]
    assert messages[0] == Message(
        "ready?", author="Ann", at=datetime(2024, 1, 1, 9, 0, 1, 500_000, tzinfo=UTC), id="1", channel="general"
    )
    assert (messages[1].text, messages[1].reply_to) == ("yes @Ann :wave:", "1")
    assert messages[2].text == "[file: plan.pdf]\n[sticker: Wow]"
    assert (messages[3].text, messages[3].role) == ("Status (https://s.example)\nup\na: b", "bot")
    assert messages[4].text == "https://s.example\n[link: Status]"
    assert (messages[5].text, messages[5].at) == ("no time", None)
    assert whole.notes == {EDITED: 1, NOTICES: 1, EMPTY: 1, UNDATED: 1, UNREADABLE: 1}


def test_a_folder_of_discord_channels_joins_the_stretches_of_one(tmp_path: Path) -> None:
    thread = {"id": "11", "type": "GuildPublicThread", "category": "general", "name": "launch"}
    twin = {**GENERAL, "id": "12"}
    (tmp_path / "a [part 1].json").write_text(
        make_discord(GENERAL, [make_discord_message(2, "two"), make_discord_message(3, "three")])
    )
    (tmp_path / "a [part 2].json").write_text(
        make_discord(GENERAL, [make_discord_message(1, "one"), make_discord_message(2, "two")])
    )
    (tmp_path / "b.json").write_text(make_discord(thread, [make_discord_message(9, "in a thread")]))
    (tmp_path / "a.json_Files").mkdir()
    whole = open_export(tmp_path, "discord")
    found = list_channels(whole)
    assert [each.text for each in found["general"]] == ["one", "two", "three"]
    assert [each.text for each in found["general/launch"]] == ["in a thread"]
    assert whole.notes == {REPEATED: 1}
    (tmp_path / "c.json").write_text(make_discord(twin, [make_discord_message(20, "the other")]))
    assert set(list_channels(open_export(tmp_path, "discord"))) == {"general (10)", "general (12)", "general/launch"}
    (tmp_path / "page.md").write_text("# A page beside the chat")
    assert detect_export(tmp_path) is None


def test_a_damaged_discord_channel_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    whole = make_discord(GENERAL, [make_discord_message(1, "one"), make_discord_message(2, "two")])
    path.write_text(whole[: len(whole) // 2])
    assert "is cut short" in find_reason(path, "discord")
    path.write_bytes(whole.replace("one", "caf\xe9").encode("latin-1"))
    assert "is not UTF-8 text" in find_reason(path, "discord")
    path.write_text(make_discord(GENERAL, []))
    assert "without messages" in find_reason(path, "discord")


def test_other_json_is_no_chat(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("{}", "[]", "", "{", '{"name": "clew", "version": 1}', '{"messages": []}', "\0\xff", '{"guild": 1}'):
        path.write_text(text)
        assert detect_export(path) is None


# Telegram


def make_telegram_message(number: int, text: Any, **more: Any) -> dict[str, Any]:
    stamp = {"date": "2024-01-01T10:00:00", "date_unixtime": str(1_704_100_000 + number // 100)}
    return {"id": number, "type": "message", **stamp, "from": "Ann", "from_id": "user7", "text": text, **more}


def test_a_telegram_chat(tmp_path: Path) -> None:
    rows = [
        make_telegram_message(
            10, ["see ", {"type": "text_link", "text": "the page", "href": "https://a.example"}, " now"]
        ),
        make_telegram_message(9, "in the same second"),
        make_telegram_message(11, "reply", reply_to_message_id=9, edited="2024-01-01T11:00:00"),
        make_telegram_message(12, "news", forwarded_from="Bob", reply_to_message_id=5, reply_to_peer_id="channel99"),
        make_telegram_message(13, "", photo="photos/photo_1.jpg", **{"from": None}),
        make_telegram_message(
            14, "caption", file="(File not included. Change data exporting settings to download.)", file_name="a.pdf"
        ),
        make_telegram_message(15, "", poll={"question": "Tea?", "answers": [{"text": "yes"}, {"text": "no"}]}),
        {"id": 1, "type": "service", "date": "2024-01-01T10:00:00", "action": "join_group_by_link", "text": ""},
        make_telegram_message(16, ""),
    ]
    chat = {"name": "Tea Club", "type": "private_supergroup", "id": 42, "messages": rows}
    (tmp_path / "result.json").write_text(json.dumps(chat, indent=1))
    whole = open_export(tmp_path / "result.json", "telegram")
    found = list_channels(whole)["Tea Club"]
    assert [each.id for each in found] == [f"42/{number}" for number in (9, 10, 11, 12, 13, 14, 15)]
    assert found[0].at == datetime(2024, 1, 1, 9, 6, 40, tzinfo=UTC)
    assert found[1].text == "see the page (https://a.example) now"
    assert found[2].reply_to == "42/9"
    assert (found[3].text, found[3].reply_to) == ("[forwarded from Bob] news", "99/5")
    assert (found[4].text, found[4].author) == ("[photo: photo_1.jpg]", "user7")
    assert found[5].text == "caption\n[file: a.pdf]"
    assert found[6].text == "[poll: Tea? (yes; no)]"
    assert whole.notes == {NOTICES: 1, EMPTY: 1, EDITED: 1}
    assert list_channels(open_export(tmp_path, "telegram")) == {"Tea Club": found}


def test_a_telegram_account_with_all_chats(tmp_path: Path) -> None:
    old = {"id": 1, "type": "message", "date": "2024-01-01T10:00:00", "from": "Ann", "text": "hi"}
    chats = [
        {"name": "Ann", "type": "personal_chat", "id": 1, "messages": [old]},
        {"name": "Ann", "type": "personal_chat", "id": 2, "messages": [make_telegram_message(1, "another Ann")]},
        {"type": "saved_messages", "id": 3, "messages": [make_telegram_message(1, "note to self")]},
        {"name": "Quiet", "type": "private_group", "id": 4, "messages": []},
    ]
    contacts = {"about": "…", "list": [{"first_name": f"name {n}"} for n in range(5_000)]}
    account = {"about": "your data", "contacts": contacts, "chats": {"about": "…", "list": chats}}
    path = tmp_path / "result.json"
    path.write_text(json.dumps(account))
    whole = open_export(path, "telegram")
    assert list(list_channels(whole)) == ["Ann", "Ann (2)", "saved messages"]
    assert whole.notes == {UTC_ASSUMED: 1}
    path.write_text(json.dumps(account)[:-60])
    assert "cut short" in find_reason(path, "telegram")


# Zulip


def make_zulip(place: Path) -> Path:
    people = [{"id": 1, "full_name": "Ann", "is_bot": False}, {"id": 2, "full_name": "Bob", "is_bot": False}]
    recipients = [
        {"id": 5, "type": 2, "type_id": 50},
        {"id": 6, "type": 1, "type_id": 2},
        {"id": 8, "type": 1, "type_id": 1},
        {"id": 7, "type": 2, "type_id": 51},
    ]
    realm = {
        "zerver_realm": [{"id": 1}],
        "zerver_stream": [{"id": 50, "name": "design"}, {"id": 51, "name": "ops"}],
        "zerver_recipient": recipients,
        "zerver_userprofile": people,
        "zerver_userprofile_crossrealm": [{"id": 9, "full_name": "Notification Bot", "is_bot": True}],
    }

    def make_zulip_message(
        number: int, recipient: int, topic: str, content: str, sender: int = 1, **more: Any
    ) -> dict[str, Any]:
        at = 1_704_100_000.5 + number
        return {
            "id": number,
            "sender": sender,
            "recipient": recipient,
            "subject": topic,
            "content": content,
            "date_sent": at,
            **more,
        }

    first = [
        make_zulip_message(1, 5, "Logo", "Which @**Bob|2** &lt;red&gt;?"),
        make_zulip_message(
            2, 7, "disk", "full, see [log](/user_uploads/1/x/disk.log) and [page](https://a.example)", sender=9
        ),
        make_zulip_message(3, 6, "", "psst"),
        make_zulip_message(4, 5, "Font", "Serif", last_edit_time=1_704_200_000.0),
    ]
    later = [
        make_zulip_message(10, 8, "", "what?", sender=2),
        make_zulip_message(12, 5, "logo", "Blue"),
        make_zulip_message(11, 5, "Logo", "Red", sender=77),
        make_zulip_message(13, 5, "Logo", ""),
        {"id": "x"},
    ]
    place.mkdir(parents=True, exist_ok=True)
    (place / "realm.json").write_text(json.dumps(realm))
    (place / "messages-000001.json").write_text(
        json.dumps({"zerver_usermessage": [{"id": 1}], "zerver_message": first})
    )
    (place / "messages-000002.json").write_text(json.dumps({"zerver_message": later, "zerver_usermessage": []}))
    return place


def test_a_zulip_export_by_stream_and_topic(tmp_path: Path) -> None:
    whole = open_export(make_zulip(tmp_path), "zulip")
    found = list_channels(whole)
    assert list(found) == ["design", "ops"]
    first, font, red, blue = found["design"]
    assert first == Message(
        "Logo\n\nWhich @Bob <red>?",
        author="Ann",
        at=datetime(2024, 1, 1, 9, 6, 41, 500_000, tzinfo=UTC),
        id="1",
        channel="design",
    )
    assert [font.reply_to, red.reply_to, blue.reply_to] == [None, "1", "1"]
    assert [red.text, red.author] == ["Red", "77"]
    assert found["ops"][0].text == "disk\n\nfull, see [file: log] and page (https://a.example)"
    assert found["ops"][0].role == "bot"
    assert whole.notes == {DIRECT_SKIPPED: 2, EDITED: 1, EMPTY: 1, UNREADABLE: 1}


def test_a_broken_file_of_a_zulip_export_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    (make_zulip(tmp_path) / "messages-000002.json").write_text('{"zerver_message": [{"id": 11, "sen')
    cut = open_export(tmp_path, "zulip")
    assert list(list_channels(cut)) == ["design", "ops"]
    assert "messages-000002.json: is cut short" in str(cut.notes.failures[0])


# Lines of messages


def write_lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_lines_of_messages(tmp_path: Path) -> None:
    whole = open_export(
        write_lines(
            tmp_path / "a.jsonl",
            {"text": "two", "author": "Ann", "at": "2024-01-01T10:00:02Z", "id": 2, "channel": "a", "reply_to": 1},
            {"text": "one", "author": "Ann", "at": 1_704_103_201, "id": 1, "channel": "a", "role": "assistant"},
            {"text": "three", "at": 1_704_103_203_000, "id": "3", "channel": "a", "author": None},
            {"text": "local", "at": "2024-01-01T10:00:00", "channel": "b"},
            {"text": "same", "channel": "b"},
            {"text": "same", "channel": "b"},
            {"text": "three, edited", "at": 1_704_103_203, "id": "3", "channel": "a"},
            {"text": " \u0000", "channel": "a"},
            {"text": "half \ud83d of it", "channel": "b"},
        ),
        "messages",
    )
    found = list_channels(whole)
    one, two, three = found["a"]
    assert one == Message("one", "Ann", datetime(2024, 1, 1, 10, 0, 1, tzinfo=UTC), "1", "a", None, "assistant")
    assert (two.reply_to, three.at) == ("1", datetime(2024, 1, 1, 10, 0, 3, tzinfo=UTC))
    assert three.text == "three, edited"
    assert [each.text for each in found["b"]] == ["local", "same", "same", "half \ufffd of it"]
    assert len({each.id for each in found["b"]}) == 4
    assert whole.notes == {UTC_ASSUMED: 1, REPLACED: 1, EMPTY: 1}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "hi", "author": "Ann"}, "All messages must have channelId: line 2 has no channel"),
        ({"text": "hi", "channel": " "}, "All messages must have channelId: line 2"),
        (
            {"text": "hi", "channel": "a", "user": "Ann", "when": 1},
            "line 2 has unknown fields (user, when); a message has text, author",
        ),
        ({"channel": "a"}, "line 2 has no text"),
        ({"text": "hi", "channel": 7}, "line 2 has a channel that is not a string"),
        ({"text": "hi", "channel": "a", "id": [1]}, "line 2 has id as neither"),
        (
            {"text": "hi", "channel": "a", "at": "noon"},
            "line 2 has a time that cannot be read (at: noon); give ISO 8601, or",
        ),
        (
            {"text": "hi", "channel": "a", "timestamp": "soon"},
            "line 2 has a time that cannot be read (timestamp: soon)",
        ),
        ({"text": "hi", "channel": "a", "time": True}, "line 2 has a time that cannot be read (time: True)"),
        ({"text": "hi", "channel": "a", "at": 1, "date": 2}, "line 2 has several times (at, date); keep one"),
        ({"text": "hi", "channel": "b", "id": 1}, "line 2 has the id 1, which a message of #a has too; give each"),
        ([1], "line 2 is not a JSON object"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_the_others_are_read(tmp_path: Path, row: object, reason: str) -> None:
    last = {"text": "last", "author": "Ben", "channel": "a", "id": "2"}
    path = write_lines(tmp_path / "a.jsonl", {"text": "fine", "author": "Ann", "channel": "a", "id": "1"}, row, last)
    whole = open_export(path, "messages")
    assert [message.text for message in list_channels(whole)["a"]] == ["fine", "last"]
    assert [reason in str(failure) for failure in whole.notes.failures] == [True]
    assert list_channels(open_export(write_lines(path, {"text": "fine", "channel": "a"}), "messages"))


@pytest.mark.parametrize("name", ["at", "timestamp", "ts", "time", "created_at", "date"])
def test_a_time_has_any_of_its_usual_names(tmp_path: Path, name: str) -> None:
    rows = [
        {"text": "iso", name: "2024-01-01T11:00:01+01:00", "channel": "a"},
        {"text": "seconds", name: 1_704_103_202, "channel": "a"},
        {"text": "fraction", name: 1_704_103_203.5, "channel": "a"},
        {"text": "milliseconds", name: 1_704_103_204_000, "channel": "a"},
        {"text": "none", name: None, "channel": "a"},
    ]
    (messages,) = list_channels(open_export(write_lines(tmp_path / "a.jsonl", *rows), "messages")).values()
    assert [message.at and message.at.timestamp() - 1_704_103_200 for message in messages] == [1, 2, 3.5, 4, None]


def test_a_time_alone_marks_lines_as_messages(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"text": "hi", "timestamp": 1_704_103_202})
    assert "All messages must have channelId: line 1" in find_reason(path, "messages")


def list_failures(path: Path) -> list[str]:
    whole = open_export(path, "messages")
    assert list_channels(whole)
    return [failure.reason for failure in whole.notes.failures]


def test_a_line_that_is_too_long_is_skipped_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 100)
    path = write_lines(tmp_path / "a.jsonl", *({"text": text, "channel": "a"} for text in ("one", "x" * 350, "two")))
    whole = open_export(path, "messages")
    assert [message.text for message in list_channels(whole)["a"]] == ["one", "two"]
    assert [failure.reason for failure in whole.notes.failures] == ["line 2 is longer than 100 bytes"]


def test_lines_that_are_cut_short_or_something_else(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"text": "fine", "author": "Ann", "channel": "a"})
    path.write_text(path.read_text() + '{"text": "and')
    assert list_failures(path) == ["line 2 is not valid JSON and the file ends there: it may be cut short"]
    path.write_bytes(b'{"text": "a", "channel": "a"}\n{"text": "caf\xe9", "channel": "a"}\n')
    assert list_failures(path) == ["line 2 is not UTF-8; save the file as UTF-8"]
    path.write_bytes(b'{"text": \n' * 30 + b'{"text": "a", "channel": "a"}\n')
    assert detect_export(path) is None
    path.write_bytes(b'{"text": "a", "channel": "a"}\n' + b"{\n" * 30)
    assert len(list_failures(path)) == 20
    for text in ('{"question": "who?"}', '{"text": "a page"}', "[1]", "", "no JSON"):
        path.write_text(text)
        assert detect_export(path) is None


@pytest.mark.slow
def test_ten_thousand_messages_are_read_a_channel_at_a_time(tmp_path: Path) -> None:
    rows = ({"text": f"word {n}", "at": 1_700_000_000 - n, "id": n, "channel": f"c{n % 10}"} for n in range(10_000))
    whole = open_export(write_lines(tmp_path / "a.jsonl", *rows), "messages")
    reading = whole.read_channels()
    name, messages = next(reading)
    assert name == "c0"
    first = next(iter(messages))
    assert (first.id, first.text) == ("9990", "word 9990")
    assert sum(1 for _ in messages) == 999
    assert sum(1 for _, each in reading for _ in each) == 9_000
    for _, each in whole.read_channels():
        times = [message.at for message in each]
        assert times == sorted(times, key=str)


@pytest.mark.slow
def test_ten_thousand_discord_messages(tmp_path: Path) -> None:
    rows = [make_discord_message(n % 60, f"word {n}", id=str(n)) for n in range(10_000)]
    (tmp_path / "a.json").write_text(make_discord(GENERAL, rows))
    (messages,) = list_channels(open_export(tmp_path / "a.json", "discord")).values()
    assert len(messages) == 10_000
    assert [int(each.id) for each in messages[:167]] == list(range(0, 10_000, 60))


# The walk through JSON


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


class Drip(io.StringIO):
    """A text that comes a few characters at a time, however many are asked for."""

    def read(self, size: int | None = -1, /) -> str:
        return super().read(3)


def walk(scanner: JsonScanner) -> Any:
    if scanner.peek_character() == "{":
        return {key: walk(scanner) for key in scanner.iter_keys()}
    if scanner.peek_character() == "[":
        return [walk(scanner) for _ in scanner.iter_items()]
    return scanner.read_value()


@given(values)
@pytest.mark.slow
def test_any_json_is_walked_as_it_is_parsed(value: Any) -> None:
    text = json.dumps(value, indent=1)
    assert walk(JsonScanner(Drip(text), uri="a")) == value
    assert JsonScanner(Drip(text), uri="a").read_value() == value
    scanner = JsonScanner(Drip(f"[{text}, 7]"), uri="a")
    left = [scanner.read_value() if nth else None for nth, _ in enumerate(scanner.iter_items())]
    assert left == [None, 7]


@given(values, st.integers(0, 100))
def test_json_that_is_cut_short_is_refused(value: Any, place: int) -> None:
    text = json.dumps({"messages": [value, value]})
    with pytest.raises(SourceError):
        walk(JsonScanner(Drip(text[: min(place, len(text) - 1)]), uri="a"))


@given(st.lists(st.tuples(st.none() | st.integers(0, 5), st.integers(0, 99))))
def test_messages_stand_by_time_and_then_by_number(rows: list[tuple[int | None, int]]) -> None:
    given_order = [
        Message("x", id=str(number), at=None if second is None else datetime.fromtimestamp(second, UTC))
        for second, number in rows
    ]
    ordered = sort_messages_by_time(given_order)
    assert sorted(map(id, ordered)) == sorted(map(id, given_order))
    dated = [(message.at, int(message.id)) for message in ordered if message.at]
    assert dated == sorted(dated)
    undated = [message for message in ordered if message.at is None]
    if len(undated) == len(ordered):
        assert ordered == given_order
