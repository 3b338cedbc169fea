"""Annotated chat logs: messages, gold reply links, and variants that look like other kinds of channels."""

import gzip
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from clew.core.types import Message
from studies.sets import MissingSet

_ADDRESS = re.compile(r"\s*([^\s:,;]{2,40})\s?[:,;>]+\s+")
_NOTICES = frozenset(
    {"channel_join", "channel_leave", "channel_topic", "message_deleted", "message_changed", "tombstone"}
)
_MENTION = re.compile(r"<@(\w+)>")
_BURST, _PAUSE = (8, 60), (20, 60)  # messages in a burst, and skipped between two
_FIRST_DAY = datetime(2020, 1, 1, tzinfo=UTC)  # the logs have only hours and minutes


@dataclass(frozen=True, slots=True)
class Log:
    """A channel: its messages and, for each annotated one, what it answers (itself if it opens a conversation)."""

    name: str
    messages: tuple[Message, ...]
    gold: dict[int, tuple[int, ...]]

    @property
    def first(self) -> int:
        """The first annotated message; earlier ones are context."""
        return min(self.gold)


def load_logs(folder: Path, part: str) -> list[Log]:
    """The logs of a part of the set."""
    path = folder / f"{part}.jsonl.gz"
    if not path.exists():
        raise MissingSet(f"{path} does not exist; --data takes the folder of irc-disentanglement, with {path.name}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [_parse_log(json.loads(line)) for line in lines]


def _parse_log(kept: dict[str, Any]) -> Log:
    gold: dict[int, list[int]] = {}
    for one, other in kept["links"]:
        gold.setdefault(max(one, other), []).append(min(one, other))
    return Log(
        kept["log"], tuple(_parse_messages(kept["messages"])), {at: tuple(to) for at, to in sorted(gold.items())}
    )


def _parse_messages(lines: list[dict[str, Any]]) -> Iterator[Message]:
    day, late = _FIRST_DAY, 0
    for line in lines:
        at = None
        if line.get("time"):
            hour, minute = map(int, line["time"].split(":")[:2])
            if hour * 60 + minute < late - 720:
                day += timedelta(days=1)
            late = hour * 60 + minute
            at = day + timedelta(minutes=late)
        role = "system" if line.get("system") else "user"
        yield Message(line["text"], line.get("nick", ""), at, id=str(line["i"]), role=role)


# -- variants of a channel


def remove_times(log: Log) -> Log:
    """The log without times."""
    return replace(log, messages=tuple(replace(one, at=None) for one in log.messages))


def remove_addressing(log: Log) -> Log:
    """The log without addressing: an author's name at the beginning of a message is removed."""
    authors = {one.author.casefold() for one in log.messages}

    def cut(message: Message) -> Message:
        call = _ADDRESS.match(message.text)
        if call and call[1].casefold() in authors and message.role != "system":
            return replace(message, text=message.text[call.end() :] or message.text)
        return message

    return replace(log, messages=tuple(map(cut, log.messages)))


def remove_authors(log: Log) -> Log:
    """The log without authors."""
    return replace(log, messages=tuple(replace(one, author="") for one in log.messages))


def move_names_to_end(log: Log) -> Log:
    """The log with an author's name at the beginning of a message moved to its end as a mention: "text @name"."""
    authors = {one.author.casefold() for one in log.messages}

    def move(message: Message) -> Message:
        call = _ADDRESS.match(message.text)
        if call and call[1].casefold() in authors and message.role != "system":
            return replace(message, text=f"{message.text[call.end() :]} <@{call[1]}>")
        return message

    return replace(log, messages=tuple(map(move, log.messages)))


def slow_down(log: Log, factor: float) -> Log:
    """The log at a slower pace, with seconds."""

    def later(place: int, message: Message) -> Message:
        if message.at is None:
            return message
        return replace(message, at=_FIRST_DAY + (message.at - _FIRST_DAY) * factor + timedelta(milliseconds=place))

    return replace(log, messages=tuple(map(later, range(len(log.messages)), log.messages)))


def make_bursts(log: Log, rng: random.Random) -> Log:
    """The log as bursts with hours or days between them; the messages between bursts are removed.

    For a message whose answer was removed, itself and all messages since the pause count as right: only those before
    the pause are wrong.
    """
    kept: list[int] = []
    burst_starts: dict[int, int] = {}  # the first position of the burst of a message
    shifts: list[timedelta] = []
    shift, place = timedelta(), 0
    while place < len(log.messages):
        stretch = range(place, min(place + rng.randint(*_BURST), len(log.messages)))
        burst_starts |= dict.fromkeys(stretch, len(kept))
        kept += stretch
        shifts += [shift] * len(stretch)
        place = stretch.stop + rng.randint(*_PAUSE)
        shift += timedelta(hours=10 ** rng.uniform(-0.3, 1.8))
    now = {old: new for new, old in enumerate(kept)}
    messages = tuple(
        replace(message, at=message.at + shift if message.at else None)
        for message, shift in zip((log.messages[old] for old in kept), shifts, strict=True)
    )
    gold: dict[int, tuple[int, ...]] = {}
    for old, answered in log.gold.items():
        if old in now:
            within = tuple(now[to] for to in answered if to in now and burst_starts[to] == burst_starts[old])
            gold[now[old]] = within or tuple(range(burst_starts[old], now[old] + 1))
    return replace(log, messages=messages, gold=gold)


def split_into_channels(log: Log, rng: random.Random) -> list[Log]:
    """The annotated part as many new channels without history; removed answers as in `make_bursts`."""
    found: list[Log] = []
    place = log.first
    while place < len(log.messages):
        end = min(place + rng.randint(*_BURST), len(log.messages))
        gold = {
            at - place: tuple(to - place for to in log.gold[at] if to >= place) or tuple(range(at - place + 1))
            for at in range(place, end)
            if at in log.gold
        }
        if any(log.messages[place + at].role != "system" for at in gold):
            found.append(Log(log.name, log.messages[place:end], gold))
        place = end
    return found


# -- the sample chat


def load_team_chat(folder: Path, *, hide_threads: bool = False) -> list[tuple[tuple[Message, ...], dict[int, str]]]:
    """The channels of the sample Slack export, each with the known conversations of its flat stretches.

    With `hide_threads`, replies lose their reply_to, and the conversations of all threads are to be found.
    """
    if not (folder / "chat-threads.jsonl").exists():
        raise MissingSet(f"{folder} holds no chat-threads.jsonl; --sample takes the folder of the examples")
    users = {row["id"]: row["profile"]["real_name"] for row in _read_json(folder / "chat/users.json")}
    annotations = map(json.loads, (folder / "chat-threads.jsonl").read_text("utf-8").splitlines())
    known = {(row["channel"], row["ts"]): str(row["conversation"]) for row in annotations}
    found = []
    for channel in sorted(path for path in (folder / "chat").iterdir() if path.is_dir()):
        days = [row for day in sorted(channel.glob("*.json")) for row in _read_json(day)]
        rows = [row for row in days if row.get("user") in users and row.get("subtype") not in _NOTICES]
        rows.sort(key=lambda row: float(row["ts"]))
        messages = tuple(
            Message(
                _MENTION.sub(lambda mention: f"@{users[mention[1]].split()[0]}", row["text"]),
                users[row["user"]],
                datetime.fromtimestamp(float(row["ts"]), UTC),
                id=row["ts"],
                reply_to=row["thread_ts"]
                if not hide_threads and row.get("thread_ts") not in (None, row["ts"])
                else None,
            )
            for row in rows
        )
        of = {
            place: known.get((channel.name, row["ts"]), row.get("thread_ts") if hide_threads else None)
            for place, row in enumerate(rows)
        }
        found.append((messages, {place: name for place, name in of.items() if name}))
    return found


def _read_json(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text("utf-8")))
