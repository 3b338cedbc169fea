"""Conversations with known topics, made from QMSum and TIAGE: multi-topic requests, joined conversations, dialogues."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from clew import Message
from studies.sets import MissingSet, read_jsonl

STRETCHES, MIN_TURNS, MAX_TURNS = 5, 15, 150  # stretches of a joined conversation, and turns of a stretch
SEED = 7


@dataclass(frozen=True, slots=True)
class ConversationQuery:
    """A conversation by its topics, the relevant documents of each, and whether it is a single request."""

    topics: tuple[tuple[Message, ...], ...]
    gold: tuple[frozenset[str], ...] = ()
    is_request: bool = False

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(chain.from_iterable(self.topics))

    @property
    def starts(self) -> list[int]:
        return list(accumulate(map(len, self.topics)))[:-1]


def load_meetings(folder: Path, split: str) -> list[dict[str, Any]]:
    """The meetings of QMSum's train or val."""
    return list(read_jsonl(_check_exists(folder / "qmsum" / f"{split}.jsonl.gz")))


def load_requests(folder: Path, split: str) -> dict[str, list[ConversationQuery]]:
    """Requests of several questions, by meeting: those of the set, or for train ones drawn in the same way."""
    path = folder / "qmsum" / f"multitopic.{split}.jsonl"
    rows = read_jsonl(path) if path.exists() else _draw_requests(load_meetings(folder, split))
    found: dict[str, list[ConversationQuery]] = {}
    for row in rows:
        gold = tuple(frozenset(map(str, _list_turns(spans))) for spans in row["gold_spans"])
        topics = tuple((Message(text),) for text in row["sub_queries"])
        found.setdefault(row["meeting_id"], []).append(ConversationQuery(topics, gold, is_request=True))
    return found


def join_stretches(given: Sequence[dict[str, Any]], count: int) -> tuple[dict[str, str], list[ConversationQuery]]:
    """Notes by id, and conversations joined from stretches that have notes."""
    notes: dict[str, str] = {}
    stretches: list[tuple[str, list[str], frozenset[str]]] = []
    for meeting in given:
        own: dict[str, set[int]] = {}
        for number, question in enumerate(meeting["specific_query_list"]):
            id_ = f"{meeting['meeting_id']}#{number}"
            notes[id_], own[id_] = question["answer"], _list_turns(question["relevant_text_span"])
        turns = [turn["content"] for turn in meeting["meeting_transcripts"]]
        for topic in meeting["topic_list"]:
            inside = _list_turns(topic["relevant_text_span"])
            if len(topic["relevant_text_span"]) == 1 and MIN_TURNS <= len(inside) <= MAX_TURNS:
                gold = frozenset(id_ for id_, held in own.items() if 2 * len(held & inside) >= len(held))
                if gold:
                    stretches.append((meeting["meeting_id"], turns[min(inside) : max(inside) + 1], gold))
    rng = random.Random(SEED)
    made: list[ConversationQuery] = []
    while len(made) < count:
        picked = rng.sample(stretches, STRETCHES)
        if len({meeting for meeting, _, _ in picked}) == STRETCHES:
            topics = tuple(tuple(map(Message, texts)) for _, texts, _ in picked)
            made.append(ConversationQuery(topics, tuple(gold for _, _, gold in picked)))
    return notes, made


def load_dialogues(folder: Path, split: str) -> list[ConversationQuery]:
    """The dialogues of TIAGE with the turns at which the topic shifts."""
    found = []
    for row in read_jsonl(_check_exists(folder / "tiage" / f"{split}.jsonl")):
        topics: list[tuple[Message, ...]] = [()]
        for place, turn in enumerate(row["turns"]):
            topics += [()] if place and turn["topic_shift"] else []
            topics[-1] += (Message(turn["text"], author="ab"[place % 2]),)
        found.append(ConversationQuery(tuple(topics)))
    return found


def _draw_requests(given: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    rng = random.Random(SEED)
    for meeting in given:
        for _ in range(min(5, len(meeting["specific_query_list"]) // 2)):
            picked = rng.sample(meeting["specific_query_list"], rng.choice((2, 2, 3)) if _ else 2)
            spans = [each["relevant_text_span"] for each in picked]
            turns = [_list_turns(each) for each in spans]
            if len(set().union(*turns)) == sum(map(len, turns)):
                texts = [each["query"] for each in picked]
                yield {"meeting_id": meeting["meeting_id"], "sub_queries": texts, "gold_spans": spans}


def _list_turns(spans: Sequence[Sequence[str]]) -> set[int]:
    return {turn for low, high in spans for turn in range(int(low), int(high) + 1)}


def _check_exists(path: Path) -> Path:
    if not path.exists():
        raise MissingSet(f"there is no {path}; give the folder that holds qmsum and tiage with --data")
    return path
