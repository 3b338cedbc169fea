"""Labels of messages in threads that change: who could not see a message never sees anything of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from clew import Engine, Filter, Message, Thread

SECRET = "We let Bob go in May."
NOON = datetime(2031, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "later",
    [
        Message("Any news?", id="p", channel="ops", reply_to="s", at=NOON),
        Message(SECRET, id="x", channel="ops", reply_to="s", at=NOON),
    ],
    ids=["what it waits for comes", "it gets another parent"],
)
def test_a_message_that_leaves_a_labelled_thread_keeps_its_labels(later: Message) -> None:
    said = Thread("x", "ops", (Message(SECRET, id="x", channel="ops", at=NOON),), awaits={"x": "p"}).document()
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages([Message("A meeting", id="s", channel="ops", at=NOON - timedelta(hours=5))])
        engine.add_documents([replace(said, access={"hr"})])
        engine.add_messages([later])
        staff, hr = (engine.within(Filter(access={label})) for label in ("staff", "hr"))
        assert SECRET not in repr([staff.search("meeting", strategy="lexical"), staff.search(SECRET)])
        assert SECRET in repr(hr.search(SECRET))
        assert len(list(engine.list())) == 1  # it has moved


def test_the_address_of_a_thread_does_not_keep_the_id_of_a_message_that_was_dropped() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_messages(
            [
                Message(SECRET, id="merger", channel="ops", access={"board"}, at=NOON),
                Message("Who orders pizza?", id="m2", channel="ops", reply_to="merger", at=NOON),
                Message("I do", id="m3", channel="ops", reply_to="m2", at=NOON),
            ]
        )
        engine.drop_messages("merger")
        assert [record.uri for record in engine.list()] == ["ops/m2"]
