"""Threads with judged questions: LoCoMo's chats and QMSum's meetings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from clew import Document, Message
from clew.core.thread import Thread
from studies.conversations import load_meetings
from studies.sets import MissingSet, read_jsonl


@dataclass(frozen=True, slots=True)
class ThreadQuestion:
    """A question about a channel, and the messages that answer it."""

    text: str
    channel: str
    gold: frozenset[str]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ThreadSet:
    """Threads, questions, and the word count of each message by channel."""

    threads: Sequence[Thread]
    questions: Sequence[ThreadQuestion]
    words: Mapping[str, Mapping[str, int]]

    @property
    def documents(self) -> list[Document]:
        return [thread.document() for thread in self.threads]


def load_locomo(folder: Path, *, max_talks: int | None = None) -> ThreadSet:
    """Ten chats of two people: a chat is a channel, a session a thread; image captions are part of the turn."""
    place = folder / "locomo"
    threads: list[Thread] = []
    for row in islice(read_jsonl(_check_exists(place / "conversations.jsonl.gz")), max_talks):
        for session in row["sessions"]:
            at = datetime.strptime(" ".join(session["date_time"].split()), "%I:%M %p on %d %B, %Y")
            messages = [_make_message(turn, row["sample_id"], at) for turn in session["turns"]]
            if messages:
                threads.append(Thread(messages[0].id, row["sample_id"], tuple(messages)))
    chats = {thread.channel for thread in threads}
    questions = [
        ThreadQuestion(
            row["question"],
            row["sample_id"],
            frozenset(f"{row['sample_id']}/{turn}" for turn in row["evidence"]),
            row["category"],
        )
        for row in read_jsonl(_check_exists(place / "qa.jsonl"))
        if row["evidence"] and row["sample_id"] in chats
    ]
    return make_thread_set(threads, questions)


def load_qmsum(folder: Path, *, max_talks: int | None = None) -> ThreadSet:
    """The meetings of val: each is a channel with one thread, and questions are answered by spans of turns."""
    threads: list[Thread] = []
    questions: list[ThreadQuestion] = []
    for meeting in load_meetings(folder, "val")[:max_talks]:
        channel = meeting["meeting_id"]
        messages = [
            Message(turn["content"], author=turn["speaker"], id=f"{channel}/{place}", channel=channel)
            for place, turn in enumerate(meeting["meeting_transcripts"])
        ]
        threads.append(Thread(messages[0].id, channel, tuple(messages)))
        for query in meeting["specific_query_list"]:
            spans = [range(int(low), int(high) + 1) for low, high in query["relevant_text_span"]]
            gold = frozenset(f"{channel}/{turn}" for span in spans for turn in span if turn < len(messages))
            questions.append(ThreadQuestion(query["query"], channel, gold))
    return make_thread_set(threads, questions)


def _make_message(turn: Mapping[str, Any], chat: str, at: datetime) -> Message:
    caption = turn.get("blip_caption")
    text = f"{turn['text']}\n[image: {caption}]" if caption else turn["text"]
    return Message(text, author=turn["speaker"], at=at, id=f"{chat}/{turn['dia_id']}", channel=chat)


def make_thread_set(threads: Sequence[Thread], questions: Sequence[ThreadQuestion]) -> ThreadSet:
    words: dict[str, dict[str, int]] = {}
    for thread in threads:
        own = words.setdefault(thread.channel, {})
        own.update((message.id, len(message.text.split())) for message in thread.messages)
    return ThreadSet(threads, questions, words)


def _check_exists(path: Path) -> Path:
    if not path.is_file():
        raise MissingSet(f"there is no {path}; give the folder that holds locomo with --data")
    return path
