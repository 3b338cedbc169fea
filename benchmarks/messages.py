"""Live messages: does adding one message get slower as the collection grows?"""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks import Measurement, Setup, p50, time_call
from clew import Document, Engine, Message, Settings
from clew.core.settings import StoreConfig
from clew.core.thread import Thread

SIZES = (10_000, 100_000)
LARGE = 1_000_000
THREAD_MESSAGES = 10  # per thread
CHANNELS = 50
SAMPLES = 200  # single messages that are timed
WORDS = tuple(f"{first}{second}" for first in ("an", "be", "ca", "do", "el", "fi", "gu", "ho") for second in "abcdefgh")
START = datetime(2026, 1, 1, tzinfo=UTC)


def measure_add_message(setup: Setup) -> Sequence[Measurement]:
    """The median time of adding a message to collections of growing size, in milliseconds and over the smallest.

    No vector index is built: adding does not touch it, and building it for a million takes longer than all the rest.
    """
    lines: list[Measurement] = []
    rng = random.Random(7)
    sizes = (*SIZES, LARGE) if setup.include_slow else SIZES
    first = 0.0
    settings = Settings(store=StoreConfig(exact_below=2 * LARGE))
    with Engine.open(setup.work / "talk.clew", embedder="wordllama", settings=settings) as engine:
        added = 0
        for size in sizes:
            engine.add_documents(_make_threads(added // THREAD_MESSAGES, size // THREAD_MESSAGES, rng))
            added = size
            live = [_make_live_message(_make_text(rng), size + number) for number in range(SAMPLES)]
            times = [time_call(partial(engine.add_messages, [message])) for message in live]
            median_time = p50(times)
            first = first or median_time
            name = f"adding a message to {size:,}, ms"
            lines.append(Measurement(name, 1000 * median_time, "≤ 50", f"{median_time / first:.2f} of the first"))
    return lines


def _make_threads(begin: int, end: int, rng: random.Random) -> Iterator[Document]:
    for number in range(begin, end):
        channel = f"channel{number % CHANNELS}"
        messages = [
            Message(
                _make_text(rng),
                author=f"person{(number + turn) % 40}",
                at=START + timedelta(minutes=10 * number + turn),
                id=f"{channel}/{number}.{turn}",
                channel=channel,
                reply_to=f"{channel}/{number}.{turn - 1}" if turn else None,
            )
            for turn in range(THREAD_MESSAGES)
        ]
        yield Thread(messages[0].id, channel, tuple(messages)).document()


def _make_live_message(text: str, number: int) -> Message:
    channel = f"channel{number % CHANNELS}"
    at = START + timedelta(days=4000, minutes=number)
    return Message(text, author=f"person{number % 40}", at=at, id=f"{channel}/live.{number}", channel=channel)


def _make_text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=14))
