"""The arithmetic of the untangling measures; the study trains and scores on a few lines of made-up logs."""

import gzip
import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from clew.core.types import Message
from studies.sets import MissingSet
from studies.untangling import logs as made
from studies.untangling.__main__ import main
from studies.untangling.judge import (
    find_roots,
    link_by_rule,
    link_to_previous,
    measure_thread_recall,
    score_conversations,
    score_links,
)
from studies.untangling.logs import Log, load_logs

LINES = (
    ("ann", "how do I mount a disk?", 0),
    ("ben", "no sound here since today", 1),
    ("", "=== cat has joined", 2),
    ("cat", "ann: sudo mount it", 0),
    ("dan", "ben: which card?", 1),
    ("ann", "cat: thanks, mount worked", 3),
    ("ben", "dan: an intel card", 4),
)


def make_row(repeats: int = 1, first: int = 0) -> dict[str, Any]:
    """A log as the set keeps it: the lines again and again, annotated from `first` on."""
    messages: list[dict[str, Any]] = []
    links: list[list[int]] = []
    for turn in range(repeats):
        for number, (nick, text, answered) in enumerate(LINES):
            place = turn * len(LINES) + number
            own = {"system": True} if not nick else {"nick": nick, "time": f"{(23 + place // 60) % 24}:{place % 60:02}"}
            messages.append({"i": place, "text": text, **own})
            if place >= first:
                links.append([turn * len(LINES) + answered, place])
    return {"log": "made", "messages": messages, "links": links}


def write_folder(where: Path, **parts: list[dict[str, Any]]) -> Path:
    for name, rows in parts.items():
        with gzip.open(where / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(each) + "\n" for each in rows)
    return where


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return load_logs(write_folder(tmp_path, dev=[make_row()]), "dev")[0]


def test_logs_have_messages_times_and_gold(tmp_path: Path) -> None:
    (long,) = load_logs(write_folder(tmp_path, dev=[make_row(20, first=70)]), "dev")
    assert long.first == 70
    assert long.gold[73] == (70,)
    assert [long.messages[2].role, long.messages[3].role] == ["system", "user"]
    before, after = long.messages[59].at, long.messages[60].at
    assert before
    assert after
    assert after - before == timedelta(minutes=1)  # midnight passes


def test_missing_logs_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingSet, match=r"dev\.jsonl\.gz"):
        load_logs(tmp_path, "dev")


def test_baselines(log: Log) -> None:
    assert link_to_previous(log.messages) == [None, 0, None, 1, 3, 4, 5]
    assert link_by_rule(log.messages) == [None, None, None, 0, 1, 3, 4]
    far = [Message("one", "ann"), *[Message("x", f"n{place}") for place in range(15)], Message("two", "ann")]
    assert link_by_rule(far)[-1] is None
    assert link_by_rule(far[1:] + far[:1])[-1] == 15  # two, then one


def test_links_are_judged_as_pairs_and_openings_as_links_to_themselves(log: Log) -> None:
    found = score_links([log], link_by_rule)
    assert (found.precision, found.recall, found.f) == (100, 100, 100)
    two = Log(log.name, log.messages, {**log.gold, 5: (3, 0)})
    found = score_links([two], link_to_previous)  # right are 0, 2 and nothing else: 1 → 0 is wrong, and so on
    assert found.precision == pytest.approx(100 * 2 / 7)
    assert found.recall == pytest.approx(100 * 2 / 8)
    assert found.f == pytest.approx(200 * 2 / 15)
    assert score_links([two], link_to_previous, include_system=False).precision == pytest.approx(100 * 1 / 6)


def test_conversations_are_kept_apart(log: Log) -> None:
    of = {0: "disk", 1: "sound", 3: "disk", 4: "sound", 5: "disk", 6: "sound"}
    assert find_roots(link_by_rule(log.messages)) == [0, 1, 2, 0, 1, 0, 1]
    good = score_conversations([(log.messages, of)], link_by_rule)
    assert (good.right, good.messages, good.opened, good.openings, good.pairs) == (6, 6, 2, 2, 1)
    poor = score_conversations([(log.messages, of)], link_to_previous)  # one conversation of all: 15 pairs for 6
    assert (poor.right, poor.opened) == (1, 1)
    assert poor.pairs == pytest.approx(2 * 6 / (15 + 6))


def test_links_lead_to_the_rest_of_a_conversation(tmp_path: Path) -> None:
    """One conversation of five, of which only the second shares a word with the first."""
    said = [("a", "broken disk"), ("b", "a: which disk"), ("a", "b: yours"), ("b", "a: no"), ("a", "b: yes")]
    rows = {
        "log": "one",
        "messages": [{"i": i, "time": "10:00", "nick": nick, "text": text} for i, (nick, text) in enumerate(said)],
        "links": [[max(0, i - 1), i] for i in range(5)],
    }
    given = load_logs(write_folder(tmp_path, dev=[rows]), "dev")
    found = measure_thread_recall(given, {"flat": None, "rule": link_by_rule}, k=3)
    assert found == {"queries": 1, "flat": pytest.approx(1 / 4), "rule": pytest.approx(3 / 4)}


def test_channels_elsewhere(log: Log) -> None:
    assert made.remove_addressing(log).messages[3].text == "sudo mount it"
    assert made.move_names_to_end(log).messages[3].text == "sudo mount it <@ann>"
    assert made.remove_addressing(log).messages[1].text == log.messages[1].text
    assert {message.at for message in made.remove_times(log).messages} == {None}
    assert {message.author for message in made.remove_authors(log).messages} == {""}
    slow = made.slow_down(log, 30).messages
    first, second = slow[0].at, slow[1].at
    assert first
    assert second
    assert 29 * 60 < (second - first).total_seconds() < 31 * 60


def test_what_a_pause_hides_may_be_anything_since(tmp_path: Path) -> None:
    (long,) = load_logs(write_folder(tmp_path, dev=[make_row(60)]), "dev")
    broken = made.make_bursts(long, random.Random(1))
    assert len(broken.messages) < len(long.messages)
    starts = [
        place
        for place in range(1, len(broken.messages))
        if (now := broken.messages[place].at)
        and (before := broken.messages[place - 1].at)
        and now - before > timedelta(minutes=20)
    ]
    assert len(starts) > 2
    for place, answered in broken.gold.items():
        begun = max([start for start in starts if start <= place], default=0)
        assert all(begun - 1 <= each <= place for each in answered)  # a pause may begin with a line without a time
    young = made.split_into_channels(long, random.Random(1))
    assert sum(len(each.messages) for each in young) == len(long.messages)
    assert all(0 <= each <= place for part in young for place, answered in part.gold.items() for each in answered)


def test_training_is_the_same_every_time_and_its_weights_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_folder(
        tmp_path, dev=[make_row(30, first=110)], train=[make_row(20, first=90), make_row(20, first=100)]
    )
    for name in ("one.json", "two.json"):
        main(["--data", str(data), "--train", "--out", str(tmp_path / name), "--rounds", "2"])
    out = capsys.readouterr().out
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert "round 2: loss" in out
    main(["--data", str(data), "--train", "--out", str(tmp_path / "other.json"), "--rounds", "2", "--seed", "2"])
    assert (tmp_path / "other.json").read_bytes() != (tmp_path / "one.json").read_bytes()
    capsys.readouterr()
    main(["--data", str(data), "--weights", str(tmp_path / "one.json")])
    again = capsys.readouterr().out
    for line in ("| rule | 72.0 | 72.0 | 72.0 |", "| clew, no times |", "ms per message", "| along our links |"):
        assert line in again


def test_learning_lowers_the_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_folder(tmp_path, dev=[make_row(20, first=110)], train=[make_row(30, first=90)] * 2)
    main(["--data", str(data), "--train", "--out", str(tmp_path / "out.json"), "--rounds", "12"])
    losses = [float(line.split()[3].rstrip(",")) for line in capsys.readouterr().out.splitlines() if "loss" in line]
    assert losses[-1] < losses[0] / 2


def test_the_sample_is_judged_with_the_shipped_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = Path(__file__).parents[2] / "examples"
    main(["--data", str(write_folder(tmp_path, dev=[make_row(30, first=110)])), "--sample", str(sample)])
    table = capsys.readouterr().out.split("| the sample chat |")[1]
    shares = {line.split(" | ")[0]: line.split(" | ")[1] for line in table.splitlines() if line.count("/") == 2}
    right = {name: int(share.split("/")[0]) for name, share in shares.items()}
    for part in ("flat stretches", "threads hidden"):
        assert right[f"| {part}: clew"] > max(right[f"| {part}: rule"], right[f"| {part}: previous message"])
    with pytest.raises(SystemExit, match=r"chat-threads\.jsonl"):
        main(["--data", str(tmp_path), "--sample", str(tmp_path)])


def test_training_needs_a_place_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path), "--train"])
    assert "--out" in capsys.readouterr().err
