"""The sample chat is a whole export, and its questions are answered by what they name."""

import json
import re
from collections import Counter
from datetime import UTC, datetime
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
CHAT = EXAMPLES / "chat"
HANDBOOK = "https://handbook.skerrymark.example/"
SPOKEN = (None, "me_message", "thread_broadcast")  # what people wrote; the rest is joins, bots and graves
RESERVED = (".example", ".invalid", ".test", "example.com", "example.org", "example.net")
ADDRESS = re.compile(r"(?:https?://|[\w.+-]+@)([\w.-]+\w)")
TELEPHONE = re.compile(r"(?<![\w.])\+?\d(?:[ ()-]?\d){8,}(?!\w)")
FICTIONAL = "01632960"  # numbers set aside for stories

Message = dict[str, Any]


def load(name: str) -> Any:
    return json.loads((CHAT / name).read_text(encoding="utf-8"))


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()]


def page(path: str) -> str:
    return (EXAMPLES / path).read_text(encoding="utf-8")


def plain(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


USERS: dict[str, dict[str, Any]] = {user["id"]: user for user in load("users.json")}
CHANNELS: dict[str, dict[str, Any]] = {channel["name"]: channel for channel in load("channels.json")}
DAYS: dict[str, list[tuple[str, list[Message]]]] = {
    name: [(day.stem, json.loads(day.read_text(encoding="utf-8"))) for day in sorted((CHAT / name).glob("*.json"))]
    for name in CHANNELS
}
MESSAGES: dict[str, Message] = {
    f"{name}/{message['ts']}": message for name, days in DAYS.items() for _, day in days for message in day
}
REAL = {id_: message for id_, message in MESSAGES.items() if message.get("subtype") in SPOKEN}
QUESTIONS = lines("chat-questions.jsonl")
FLAT = lines("chat-threads.jsonl")


def sliced(name: str) -> list[dict[str, Any]]:
    return [question for question in QUESTIONS if question["slice"] == name]


def test_the_export_has_four_channels_of_real_talk() -> None:
    assert sorted(CHANNELS) == sorted(folder.name for folder in CHAT.iterdir() if folder.is_dir())
    assert len(CHANNELS) == 4
    assert len(REAL) >= 440
    assert 10 <= len({message["user"] for message in REAL.values()}) <= 14
    assert all(message["text"].strip() for message in REAL.values())
    kinds = Counter(message.get("subtype") for message in MESSAGES.values())
    assert {"channel_join", "channel_topic", "bot_message", "tombstone", "me_message", "thread_broadcast"} <= set(kinds)
    assert sum("edited" in message for message in REAL.values()) >= 3
    assert max(len(message["text"]) for message in REAL.values()) > 1000


@pytest.mark.parametrize("channel", CHANNELS)
def test_times_increase_and_lie_in_their_day(channel: str) -> None:
    stamps = []
    for day, messages in DAYS[channel]:
        assert messages
        for message in messages:
            assert message["type"] == "message"
            assert re.fullmatch(r"\d{10}\.\d{6}", message["ts"])
            assert datetime.fromtimestamp(float(message["ts"]), UTC).date().isoformat() == day
            stamps.append(message["ts"])
    assert all(one < other for one, other in pairwise(stamps))


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_reply_has_a_parent_that_counts_it(channel: str) -> None:
    here = [message for _, day in DAYS[channel] for message in day]
    by_ts = {message["ts"]: message for message in here}
    replies = [message for message in here if message.get("thread_ts", message["ts"]) != message["ts"]]
    for message in replies:
        parent = by_ts[message["thread_ts"]]
        assert parent["thread_ts"] == parent["ts"] < message["ts"]
        assert message["parent_user_id"] == parent["user"]
    for parent in (message for message in here if "reply_count" in message):
        own = [message for message in replies if message["thread_ts"] == parent["ts"]]
        assert [reply["ts"] for reply in parent["replies"]] == [message["ts"] for message in own]
        assert parent["reply_count"] == len(own)
        assert parent["latest_reply"] == own[-1]["ts"]
        assert set(parent["reply_users"]) == {message["user"] for message in own}


def test_whoever_speaks_or_is_mentioned_is_known() -> None:
    ids = {channel["id"] for channel in CHANNELS.values()}
    for id_, message in MESSAGES.items():
        if message.get("subtype") in SPOKEN:
            assert message["user"] in CHANNELS[id_.split("/")[0]]["members"]
        mentioned = re.findall(r"<@(\w+)", message["text"])
        reacted = [user for reaction in message.get("reactions", ()) for user in reaction["users"]]
        assert {*mentioned, *reacted} <= set(USERS)
        assert set(re.findall(r"<#(\w+)", message["text"])) <= ids
    assert sum("<@U" in message["text"] for message in REAL.values()) >= 25


def test_threads_link_to_pages_that_exist() -> None:
    links = [link for message in REAL.values() for link in re.findall(rf"<{HANDBOOK}([^|>]+)", message["text"])]
    assert len(links) >= 15
    for link in links:
        assert (EXAMPLES / "handbook" / f"{link.removesuffix('.md')}.md").is_file()
    named = [name for message in REAL.values() for name in re.findall(r"`([a-z-]+\.md)`", message["text"])]
    assert named
    assert all(list((EXAMPLES / "handbook").rglob(name)) for name in named)


def test_flat_stretches_cross_and_are_not_threads() -> None:
    assert len(FLAT) >= 80
    ids = [f"{row['channel']}/{row['ts']}" for row in FLAT]
    assert len(set(ids)) == len(ids)
    assert all("thread_ts" not in MESSAGES[id_] for id_ in ids)
    where: dict[int, set[str]] = {}
    for row in FLAT:
        where.setdefault(row["conversation"], set()).add(row["channel"])
    assert all(len(channels) == 1 for channels in where.values())
    runs = Counter(number for number, _ in groupby(row["conversation"] for row in FLAT))
    assert all(runs[number] >= 3 for number in where)  # each is interrupted at least twice
    names = {user["real_name"].split()[0].lower() for user in USERS.values()} | {
        user["name"] for user in USERS.values()
    }
    addressed = [id_ for id_ in ids if names & set(plain(MESSAGES[id_]["text"])[:2]) or "<@U" in MESSAGES[id_]["text"]]
    assert len(addressed) >= 30


def test_every_message_of_a_flat_stretch_is_judged() -> None:
    for channel, days in DAYS.items():
        judged = {row["ts"]: row["conversation"] for row in FLAT if row["channel"] == channel}
        for _, day in days:
            inside = [place for place, message in enumerate(day) if message["ts"] in judged]
            if inside:
                assert inside == list(range(inside[0], inside[-1] + 1))
                assert 2 <= len({judged[day[place]["ts"]] for place in inside}) <= 3


def test_questions_are_many_and_of_all_slices() -> None:
    assert len(QUESTIONS) >= 90
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert len({question["question"] for question in QUESTIONS}) == len(QUESTIONS)
    for name in ("page", "chat", "both"):
        assert 0.25 < len(sliced(name)) / len(QUESTIONS) < 0.42
    relations = Counter(question["relation"] for question in sliced("both"))
    assert set(relations) == {"contradicts", "confirms", "adds"}
    assert relations["contradicts"] >= 15
    assert relations["confirms"] >= 5
    assert len({question["quote"] for question in sliced("chat")}) >= 25
    assert len({question["quote"] for question in sliced("page")}) >= 15


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_a_question_is_answered_by_what_it_names(question: dict[str, Any]) -> None:
    kind, documents, messages, quote = (question[key] for key in ("slice", "documents", "messages", "quote"))
    assert bool(documents) == (kind != "chat")
    assert bool(messages) == (kind != "page")
    assert set(messages) <= set(REAL)
    assert all((EXAMPLES / path).is_file() for path in documents)
    if kind == "page":
        assert quote in page(documents[0])
    else:
        assert any(quote in MESSAGES[id_]["text"] for id_ in messages)
        assert not re.search(r"[<>&]", quote)  # it reads the same before and after Slack's marks are resolved
    if kind == "both":
        assert question["page_quote"] in page(documents[0])
    asked = " ".join(plain(question["question"]))
    for told in (quote, question.get("page_quote", "")):
        words = plain(told)
        copied = [run for run in zip(words, words[1:], words[2:], words[3:], strict=False) if " ".join(run) in asked]
        assert not copied, "a question should not repeat the words that answer it"


@pytest.mark.parametrize("kind", ["page", "chat"])
def test_what_is_only_in_one_kind_is_not_said_in_the_other(kind: str) -> None:
    pages = [file.read_text(encoding="utf-8") for file in (EXAMPLES / "handbook").rglob("*.md")]
    others = [message["text"] for message in MESSAGES.values()] if kind == "page" else pages
    assert not [question["id"] for question in sliced(kind) if any(question["quote"] in other for other in others)]


def test_addresses_and_telephones_are_invented() -> None:
    for user in USERS.values():
        assert user["profile"]["email"].endswith("@skerrymark.example")
    texts = [message["text"] for message in MESSAGES.values()]
    texts += [json.dumps(user["profile"]) for user in USERS.values()]
    for text in texts:
        assert all(host.endswith(RESERVED) for host in ADDRESS.findall(text))
        digits = [re.sub(r"\D", "", number) for number in TELEPHONE.findall(text)]
        assert all(number.startswith(FICTIONAL) for number in digits)
    assert any(TELEPHONE.search(text) for text in texts)
