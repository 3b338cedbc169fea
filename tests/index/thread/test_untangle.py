"""Flat channels are untangled: made-up conversations, what always wins, and the same answer live as in the whole."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import numpy as np
import pytest

from clew.core.errors import SettingsError
from clew.core.types import Message
from clew.index.thread.untangle import INPUTS, infer_reply_parents, load_default_net, parse_net_weights
from clew.index.thread.untangle.features import (
    MESSAGE_FEATURES,
    PAIR_FEATURES,
    REACH,
    ChannelWindow,
    extract_message_cues,
    extract_reply_features,
)
from studies.untangling.weights import format_net_as_json

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def chat(*lines: tuple[str, str], every: float = 0.5, channel: str = "") -> list[Message]:
    return [
        Message(text, author, START + timedelta(minutes=every * place), id=f"m{place}", channel=channel)
        for place, (author, text) in enumerate(lines)
    ]


def conversations(links: Sequence[int | None]) -> list[int]:
    """For each message the first of its conversation."""
    roots: list[int] = []
    for place, link in enumerate(links):
        roots.append(place if link is None else roots[link])
    return roots


IRC = chat(
    ("bob", "how do I mount a usb disk? it does not show up"),
    ("eve", "hi, my sound is gone since the update, any ideas?"),
    ("al", "bob: sudo mount /dev/sdb1 /mnt"),
    ("mia", "eve: which sound card do you have?"),
    ("bob", "al: it says unknown filesystem"),
    ("eve", "mia: an intel one, it worked before"),
    ("al", "bob: then it is ntfs, install ntfs-3g"),
    ("mia", "eve: try alsamixer, perhaps it is muted"),
    ("bob", "al: that worked, thanks"),
    ("eve", "mia: it was muted, thank you"),
)
UNNAMED = chat(
    ("bob", "does anyone know how to mount a usb disk?"),
    ("eve", "my sound is gone since the update to the new kernel"),
    ("bob", "the disk is not listed anywhere"),
    ("al", "the usb disk should be listed by lsblk, then mount it by hand"),
    ("mia", "with the new kernel the sound is often just muted"),
    ("bob", "ok, lsblk shows it, thanks"),
    ("eve", "oh, it was muted indeed"),
)
TEAM = chat(
    ("Anna Weber", "Who can look at the invoice export? It has been failing since this morning."),
    ("Jorge Diaz", "Question for the release people: do we ship the new search on Thursday or next week?"),
    ("Priya Rao", "@Anna I can. Does the invoice export fail for all customers?"),
    ("Tom Lee", "<@Jorge Diaz> Thursday, unless the search index is late again."),
    ("Anna Weber", "@Priya only for those with more than a thousand lines on an invoice."),
    ("Jorge Diaz", "@Tom it is not, I built the index yesterday."),
    every=4,
)


def test_two_topics_with_names_are_kept_apart() -> None:
    links = infer_reply_parents(IRC)
    assert conversations(links) == [0, 1] * 5
    assert links[2:5] == [0, 1, 2]  # who is addressed, and who then addresses


def test_without_names_the_words_and_the_speakers_tell() -> None:
    assert conversations(infer_reply_parents(UNNAMED)) == [0, 1, 0, 0, 1, 0, 1]


def test_names_are_marked_in_a_teams_chat_and_hours_pass() -> None:
    assert conversations(infer_reply_parents(TEAM)) == [0, 1, 0, 1, 0, 1]
    slow = [replace(one, at=START + timedelta(minutes=25 * place)) for place, one in enumerate(TEAM)]
    assert conversations(infer_reply_parents(slow)) == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("messages", [IRC, TEAM], ids=["irc", "team"])
def test_times_may_be_missing(messages: list[Message]) -> None:
    timeless = [replace(one, at=None) for one in messages]
    assert conversations(infer_reply_parents(timeless)) == conversations(infer_reply_parents(messages))
    naive = [replace(one, at=one.at.replace(tzinfo=None) if one.at else None) for one in messages]
    assert infer_reply_parents(naive) == infer_reply_parents(messages)


def test_a_night_between_ends_the_conversation() -> None:
    """The same line answers a moment later, and opens the morning after."""
    late = Message("Has anyone seen the keys of the van?", "Tom Lee", id="late")
    day = [*TEAM, replace(late, at=START + timedelta(hours=23))]
    assert infer_reply_parents(day)[-1] is None
    answer = Message("@Anna yes, I have", "Tom Lee", START + timedelta(hours=23, minutes=2), id="a")
    asked = replace(late, author="Anna Weber", at=START + timedelta(hours=23))
    assert infer_reply_parents([*TEAM, asked, answer])[-2:] == [None, len(TEAM)]


def test_another_language_and_script_are_no_hindrance() -> None:
    links = infer_reply_parents(
        chat(
            ("jürgen", "Wie binde ich eine USB-Platte ein?"),
            ("小明", "有人知道怎么安装打印机驱动吗"),
            ("uwe", "jürgen: mit mount, als root"),
            ("小红", "小明: 打印机驱动在官网下载"),
            ("jürgen", "uwe: danke"),
        )
    )
    assert conversations(links) == [0, 1, 0, 1, 0]


def test_nobody_is_named_and_nobody_is_known() -> None:
    nameless = [Message(one.text) for one in UNNAMED]
    assert infer_reply_parents(nameless)[0] is None
    assert all(link is None or link < place for place, link in enumerate(infer_reply_parents(nameless)))


def test_explicit_replies_win() -> None:
    told = [*IRC[:8], replace(IRC[8], reply_to="m1"), IRC[9]]
    assert infer_reply_parents(IRC)[8] != 1
    assert infer_reply_parents(told)[8] == 1
    assert infer_reply_parents(told)[9] == infer_reply_parents(IRC)[9]


def test_an_explicit_reply_to_what_is_not_here_is_not_guessed() -> None:
    assert infer_reply_parents([*IRC[:8], replace(IRC[8], reply_to="elsewhere")])[8] is None
    assert (
        infer_reply_parents([replace(IRC[0], reply_to="m2"), *IRC[1:]])[0] is None
    )  # a reply stands after what it answers
    assert infer_reply_parents([replace(IRC[0], reply_to="m0")]) == [None]


def test_an_explicit_reply_may_reach_beyond_what_is_judged() -> None:
    many = chat(*[("bob", f"line {place}") for place in range(REACH + 50)])
    many[-1] = replace(many[-1], reply_to="m3")
    assert infer_reply_parents(many)[-1] == 3
    assert infer_reply_parents(many[-1:], before=many[:-1]) == [3]


def test_a_quote_leads_to_what_it_quotes() -> None:
    messages = [*IRC, Message("> it does not show up\nSame here!", "zoe", START + timedelta(minutes=6), id="q")]
    assert infer_reply_parents(messages)[-1] == 0
    assert infer_reply_parents([*IRC, replace(messages[-1], text="Same here!")])[-1] != 0
    assert infer_reply_parents([*IRC, replace(messages[-1], text="> nobody ever said this\nreally")])[-1] != 0


def test_what_the_system_says_stands_apart() -> None:
    joined = Message("zoe has joined", "", START, id="s", role="system")
    links = infer_reply_parents([*IRC[:3], joined, *IRC[3:]])
    assert links[3] is None
    assert 3 not in links
    plain = infer_reply_parents(IRC)
    assert [link if link is None or link < 3 else link - 1 for link in links[:3] + links[4:]] == plain


def test_channels_do_not_mix() -> None:
    other = [replace(one, id=f"o{one.id}", channel="other") for one in UNNAMED]
    mixed: list[Message] = [each for pair in zip(IRC[:7], other, strict=True) for each in pair]
    links = infer_reply_parents(mixed)
    for place, link in enumerate(links):
        assert link is None or mixed[link].channel == mixed[place].channel
    assert links[::2] == [link if link is None else 2 * link for link in infer_reply_parents(IRC[:7])]


def babble(count: int, seed: int = 3) -> list[Message]:
    """People who call each other, ask, answer and repeat words, at uneven times."""
    chance = random.Random(seed)
    people, words = [f"nick{n}" for n in range(12)], [f"word{n}" for n in range(60)]
    at, messages = START, []
    for place in range(count):
        at += timedelta(minutes=chance.choice([0, 0, 1, 2, 600 if chance.random() < 0.03 else 0]))
        said = " ".join(chance.choices(words, k=chance.randint(1, 9))) + chance.choice(["", "?", "!", " thanks"])
        call = chance.choice(["", "", f"{chance.choice(people)}: ", f"@{chance.choice(people)} "])
        messages.append(Message(call + said, chance.choice(people), at, id=str(place)))
    return messages


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.slow
def test_live_answers_are_those_of_the_whole_channel(size: int) -> None:
    """Each decision sees the hundred messages before it, wherever the call begins."""
    messages = babble(420)
    whole = infer_reply_parents(messages)
    for start in range(0, len(messages), 7):
        first = max(0, start - REACH)
        found = infer_reply_parents(messages[start : start + size], before=messages[first:start])
        assert [None if link is None else link + first for link in found] == whole[start : start + size]


def test_only_the_messages_in_reach_are_looked_at() -> None:
    messages = babble(300)
    longer = infer_reply_parents(messages[250:], before=messages[:250])
    shorter = infer_reply_parents(messages[250:], before=messages[150:250])
    assert longer == [None if link is None else link + 150 for link in shorter]


def test_the_evidence_is_the_same_wherever_the_stretch_begins() -> None:
    said = [extract_message_cues(message) for message in babble(260)]
    whole = extract_reply_features(ChannelWindow.build(said, 200))
    later = extract_reply_features(ChannelWindow.build(said[100:], 100))
    np.testing.assert_allclose(whole.pairs, later.pairs, atol=1e-5)
    np.testing.assert_allclose(whole.messages, later.messages, atol=1e-5)


def test_it_is_the_same_every_time() -> None:
    assert infer_reply_parents(IRC) == infer_reply_parents(list(IRC))
    assert infer_reply_parents([]) == []
    assert infer_reply_parents([], before=IRC) == []
    assert infer_reply_parents([Message("")]) == [None]


def test_the_weights_fit_the_features_and_name_their_source() -> None:
    kept = json.loads(files("clew.index.thread.untangle").joinpath("weights.json").read_text("utf-8"))
    assert tuple(kept["pair"][0]["weights"]) == INPUTS["pair"]
    assert tuple(kept["message"][0]["weights"]) == INPUTS["message"] == MESSAGE_FEATURES
    assert "Kummerfeld" in kept["source"]
    assert "CC BY 4.0" in kept["licence"]
    net = load_default_net()
    assert net.pair[0][0].shape[0] == len(PAIR_FEATURES) + len(MESSAGE_FEATURES)
    assert json.loads(format_net_as_json(net))["pair"] == kept["pair"]  # what is written is what is read


def test_weights_of_other_features_are_refused() -> None:
    kept = json.loads(format_net_as_json(load_default_net()))
    kept["message"][0]["weights"]["colour"] = kept["message"][0]["weights"].pop("fill")
    with pytest.raises(SettingsError, match="colour, fill"):
        parse_net_weights(kept)
