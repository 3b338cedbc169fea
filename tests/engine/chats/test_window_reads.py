"""A window parses a few messages of a thread, and is the one that the whole thread would give, on both stores."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from clew import Engine, Filter, Message
from clew.core.thread import ThreadView, view_document
from clew.engine.opened import Opened
from tests.engine.chosen import OpenEngine

START = datetime(2026, 5, 1, tzinfo=UTC)
WORDS = ("harbour", "pilot", "tide", "crane", "quay", "buoy", "lamp", "rope")


def say(rng: Random, number: int, size: int) -> Message:
    parent = rng.choice([None, *(f"m{other}" for other in range(max(0, number - 5), number))])
    text = " ".join(rng.choices(WORDS, k=rng.choice([1, 4, size])))
    at = START + timedelta(minutes=number)
    access = frozenset({"crew"}) if rng.random() < 0.2 else None
    return Message(text, rng.choice(["ana", "ben"]), at, f"m{number}", "ops", parent, access=access)


def read_whole(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every thread of the engine be read and parsed as a whole."""
    within = Opened.within

    def bound(opened: Opened, where: Filter) -> Opened:
        made = within(opened, where)
        store = made.store

        def view(doc_id: str) -> ThreadView:
            return view_document(store.document(doc_id))

        monkeypatch.setattr(store, "threads", lambda: nullcontext(view), raising=True)
        return made

    monkeypatch.setattr(Opened, "within", bound)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_a_window_is_the_one_of_the_whole_thread(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = Random(seed)
    engine = open_engine(embedder="hashed")
    engine.add_messages([say(rng, number, 30) for number in range(60)])
    engine.add_messages([replace(say(rng, number, 30), reply_to=None) for number in rng.sample(range(60), 5)])
    engine.drop_messages(*(f"m{number}" for number in rng.sample(range(60), 5)))
    filters = [Filter(), Filter(channels={"ops"}), Filter(authors={"ana"}), Filter(access=set())]
    asked = [(where, tokens, rng.choice(WORDS)) for where in filters for tokens in (30, 200, 900, 9000)]
    now = START + timedelta(days=1)

    def open_windows() -> list[object]:
        return [
            engine.window("ops", f"where is the {word}?", tokens=tokens, where=where, now=now)
            for where, tokens, word in asked
        ]

    narrow = open_windows()
    with monkeypatch.context() as patched:
        read_whole(engine, patched)
        assert open_windows() == narrow
