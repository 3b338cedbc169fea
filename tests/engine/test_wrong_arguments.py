"""Wrong arguments in Python: an error of ours that names the argument and what it may be."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from clew import Client, Document, Engine, Filter, Message, SettingsError
from clew.evaluation import evaluate

NOW: Any = "yesterday"
CALLS: dict[str, Callable[[Any], Any]] = {
    "now is 'yesterday'; it must be a datetime or None": lambda it: it.search("key", now=NOW),
    "channel is 5; it must be a text or None": lambda it: it.search("key", channel=5),
    "the query is neither a text nor a conversation: a NoneType": lambda it: it.search(None),
    "the query is neither a text nor a conversation: a row is a str": lambda it: it.context(["text"]),
    "the query is neither a text nor a conversation: a row has the columns said": lambda it: it.explain(
        [{"said": "x"}]
    ),
    "the query is neither a text nor a conversation: a int": lambda it: it.search_many(["key", 5]),
    "history holds dict of who; it may hold Message": lambda it: it.search("key", history=[{"who": "x"}]),
    "question is ['key']; it must be a text": lambda it: it.ask(["key"]),
    "target is 5; it must be a text": lambda it: it.why_not("key", 5),
    "channel is 5; it must be a text": lambda it: it.window(5, "hello"),
    "person is 5; it must be a text": lambda it: it.profile(5),
    "id is 5; it must be a text": lambda it: it.message(5),
    "path is 5; it must be a text or a path": lambda it: it.export(5),
    "name is 5; it must be a text or None": lambda it: it.chat(5),
    "good is 'yes'; it must be True or False or None": lambda it: it.feedback("key", good="yes"),
    "the question is empty": lambda it: it.feedback(" ", good=True),
    "a citation has the type str; give `answer.citations`": lambda it: it.check("a"),
    "a citation has the type Answer": lambda it: it.check(it.ask("who rotates the key?")),
    "messages is one Message": lambda it: it.add_messages(Message("x", channel="ops")),
    "a question has the type dict; give JudgedQuestion": lambda it: evaluate(it, [{"question": "x"}]),  # type: ignore[list-item]
    "the address of the server is 'ftp://x'": lambda _: Client("ftp://x"),
    "the address of the server is ''": lambda _: Client(""),
}


@pytest.fixture(scope="module")
def engine() -> Any:
    engine = Engine.open(":memory:", embedder="hashed")
    engine.add_documents([Document("keys", "Dan rotates the vault key on Monday.")])
    return engine


@pytest.mark.parametrize("said", CALLS)
def test_a_wrong_argument_is_named_with_what_it_may_be(engine: Any, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        CALLS[said](engine)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Message("hi", at="2025-01-01"), "Message(at=…) takes a datetime, not '2025-01-01'"),  # type: ignore[arg-type]
        (lambda: Message("hi", channel=None), "Message(channel=…) takes a text, not None"),  # type: ignore[arg-type]
        (lambda: Document(5, "a"), "Document(id=…) takes a text, not 5"),  # type: ignore[arg-type]
        (lambda: Document("a", "b", meta="c"), "Document(meta=…) takes a mapping"),  # type: ignore[arg-type]
        (lambda: Filter(kinds=5), "Filter(kinds=…) takes a set of names, not 5"),  # type: ignore[arg-type]
        (lambda: Filter(since="2025"), "Filter(since=…) takes a datetime, not '2025'"),  # type: ignore[arg-type]
    ],
)
def test_a_value_names_the_field_of_a_wrong_type(make: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value).startswith(said)


def test_right_arguments_pass(engine: Engine) -> None:
    assert engine.search(query="key", now=datetime(2026, 1, 1), channel=None)


def test_a_file_is_no_place_of_collections(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page")
    with pytest.raises(SettingsError, match=r"page\.md is a file; name a folder .* give files to `Engine\.add`"):
        Engine.open(page, embedder="hashed")


def test_no_shell_command_in_the_reason_of_a_missing_document(engine: Engine) -> None:
    assert "clew list" not in str(engine.why_not("key", "nosuch"))
