"""Long threads: does an edit, a drop, a new message or a window get slower as a thread grows?"""

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks import Measurement, Setup, p50, time_interleaved
from clew import Engine, Message

SIZES = (100, 1_000, 10_000)
ROUNDS = 20
WORDS = tuple(f"{first}{second}" for first in ("an", "be", "ca", "do", "el", "fi", "gu", "ho") for second in "abcdefgh")
START = datetime(2026, 1, 1, tzinfo=UTC)


def measure_long_threads(setup: Setup) -> Sequence[Measurement]:
    """The median time of each change of a thread, of the longest thread over the shortest; others beside it in ms."""
    return measure_places([setup.work / f"{size}.clew" for size in SIZES])


def measure_places(places: Sequence[Path | str]) -> list[Measurement]:
    """The same in the given places, one for each size."""
    with ExitStack() as stack:
        engines = [
            stack.enter_context(Engine.open(place, embedder="hashed", collection=f"of{size}"))
            for place, size in zip(places, SIZES, strict=True)
        ]
        for engine, size in zip(engines, SIZES, strict=True):
            rng = random.Random(size)
            engine.add_messages([_make_message(number, rng) for number in range(size)])
        lines = []
        for name, goal, make in (
            ("an edit", "≤ 2", _edit),
            ("a drop", "≤ 2", _drop),
            ("a new message", "", _add),
            ("a window", "≤ 3", _open_window),
        ):
            calls = [make(engine, size) for engine, size in zip(engines, SIZES, strict=True)]
            times = [p50(own) for own in time_interleaved(*calls, rounds=ROUNDS)]
            note = ", ".join(f"{size:,}: {1000 * own:.1f} ms" for size, own in zip(SIZES, times, strict=True))
            lines.append(
                Measurement(f"{name} in a thread of {SIZES[-1]:,} / of {SIZES[0]:,}", times[-1] / times[0], goal, note)
            )
        return lines


def _edit(engine: Engine, size: int) -> Callable[[int], object]:
    rng = random.Random(1)
    return lambda turn: engine.add_messages([_make_message(size // 3 + turn, rng)])


def _drop(engine: Engine, size: int) -> Callable[[int], object]:
    return lambda turn: engine.drop_messages(f"m{size // 2 + turn}")


def _add(engine: Engine, size: int) -> Callable[[int], object]:
    rng = random.Random(2)
    return lambda turn: engine.add_messages([_make_message(size + turn, rng, parent=size - 1)])


def _open_window(engine: Engine, size: int) -> Callable[[int], object]:
    now = START + timedelta(minutes=size)
    return lambda turn: engine.window("yard", f"{WORDS[turn]} {WORDS[-turn]}", now=now)


def _make_message(number: int, rng: random.Random, *, parent: int | None = None) -> Message:
    text = " ".join(rng.choices(WORDS, k=12))
    at = START + timedelta(minutes=number)
    answered = parent if parent is not None else number - 1 - number % 3
    reply_to = f"m{max(0, answered)}" if number else None
    return Message(text, author=f"person{number % 7}", at=at, id=f"m{number}", channel="yard", reply_to=reply_to)
