"""A live conversation: does adding one message get slower as the collection grows?"""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks import Line, Setup, p50, seconds
from clew import Document, Engine, Message, Settings
from clew.core.settings import StoreConfig
from clew.core.thread import Thread

SIZES = (10_000, 100_000)
LARGE = 1_000_000
TALK = 10  # messages of a thread
CHANNELS = 50
TRIED = 200  # single messages whose times are taken
WORDS = tuple(f"{first}{second}" for first in ("an", "be", "ca", "do", "el", "fi", "gu", "ho") for second in "abcdefgh")
START = datetime(2026, 1, 1, tzinfo=UTC)


def one_message(setup: Setup) -> Sequence[Line]:
    """The middle time of adding a message to collections of growing size, in milliseconds and over the smallest.

    No graph is built: adding does not touch one, and building it for a million takes longer than all the rest.
    """
    lines: list[Line] = []
    chance = random.Random(7)
    sizes = (*SIZES, LARGE) if setup.long else SIZES
    first = 0.0
    settings = Settings(store=StoreConfig(exact_below=2 * LARGE))
    with Engine.open(setup.work / "talk.clew", embedder="wordllama", settings=settings) as engine:
        held = 0
        for size in sizes:
            engine.add_documents(_threads(held // TALK, size // TALK, chance))
            held = size
            live = [_live(_said(chance), size + number) for number in range(TRIED)]
            times = [seconds(partial(engine.add_messages, [message])) for message in live]
            took = p50(times)
            first = first or took
            name = f"adding a message to {size:,}, ms"
            lines.append(Line(name, 1000 * took, "≤ 50", f"{took / first:.2f} of the first"))
    return lines


def _threads(begin: int, end: int, chance: random.Random) -> Iterator[Document]:
    for number in range(begin, end):
        channel = f"channel{number % CHANNELS}"
        messages = [
            Message(
                _said(chance),
                author=f"person{(number + turn) % 40}",
                at=START + timedelta(minutes=10 * number + turn),
                id=f"{channel}/{number}.{turn}",
                channel=channel,
                reply_to=f"{channel}/{number}.{turn - 1}" if turn else None,
            )
            for turn in range(TALK)
        ]
        yield Thread(messages[0].id, channel, tuple(messages)).document()


def _live(text: str, number: int) -> Message:
    channel = f"channel{number % CHANNELS}"
    at = START + timedelta(days=4000, minutes=number)
    return Message(text, author=f"person{number % 40}", at=at, id=f"{channel}/live.{number}", channel=channel)


def _said(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=14))
