"""Questions on chats between people, made from a log of a few lines."""

import gzip
import json
from pathlib import Path

import pytest

from studies import human_chats
from studies.human_chats import list_conversations, load_chats
from studies.sets import MissingSet
from studies.untangling.logs import load_logs

LINES = (
    ("ann", "which package mounts encrypted disks after booting from another partition?", 0),
    ("ben", "sound vanished here since upgrading kernel modules yesterday evening", 1),
    ("", "=== cat has joined", 2),
    ("cat", "ann: cryptsetup", 0),
    ("dan", "ben: which card?", 1),
    ("ann", "cat: thanks", 3),
    ("cat", "ann: welcome", 5),
    ("ann", "bye", 6),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "irc-disentanglement"
    place.mkdir()
    messages = [
        {"i": at, "text": text, "time": "10:00", "nick": nick} if nick else {"i": at, "text": text, "system": True}
        for at, (nick, text, _) in enumerate(LINES)
    ]
    links = [[to, at] for at, (_, _, to) in enumerate(LINES)]
    with gzip.open(place / "train.jsonl.gz", "wt") as file:
        for name in ("seen", "kept"):
            print(json.dumps({"log": name, "messages": messages, "links": links}), file=file)
    return tmp_path


def test_a_conversation_is_what_the_links_join(folder: Path) -> None:
    log, _ = load_logs(folder / "irc-disentanglement", "train")
    assert list_conversations(log) == [[0, 3, 5, 6, 7], [1, 4]]


def test_every_second_log_is_held_out(folder: Path) -> None:
    for held_out, name in ((False, "seen"), (True, "kept")):
        talks = load_chats(folder, task="words", threading="gold", held_out=held_out)
        assert {thread.channel for thread in talks.threads} == {name}


def test_words_of_a_message_are_asked_for_and_the_message_is_the_answer(folder: Path) -> None:
    talks = load_chats(folder, task="about", threading="gold", held_out=False)
    assert {gold for question in talks.questions for gold in question.gold} == {"seen/0", "seen/1"}
    for question in talks.questions:
        author, text, _ = LINES[int(next(iter(question.gold)).removeprefix("seen/"))]
        assert question.text.startswith(f"What did {author} say about ")
        words = question.text.removesuffix("?").split()[5:]
        assert len(words) == 3
        assert set(words) <= set(text.removesuffix("?").split())


def test_an_opening_is_answered_by_the_rest_of_its_conversation(folder: Path) -> None:
    (question,) = load_chats(folder, task="opening", threading="guessed", held_out=False).questions
    assert (question.text, question.kind) == (LINES[0][1], "seen/0")
    assert question.gold == {"seen/3", "seen/5", "seen/6", "seen/7"}


def test_each_task_and_threading_has_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    human_chats.main(["--data", str(folder), "--embedder", "hashed"])
    shown = capsys.readouterr().out.splitlines()
    titles = [line.partition(":")[0] for line in shown if not line.startswith("|")]
    assert titles == [f"{task}, {how} threads" for task in human_chats.TASKS for how in human_chats.THREADINGS]
    assert sum("the default" in line for line in shown) == 6


def test_a_missing_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingSet, match="irc-disentanglement"):
        load_chats(tmp_path, task="words", threading="gold", held_out=False)
