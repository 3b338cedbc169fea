"""window, profile and links through the command line: every option changes what comes out."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from clew import Engine, Message, Settings
from clew.core.settings import ThreadConfig

if TYPE_CHECKING:
    from tests.surface.cli.conftest import Clew

BEGAN = datetime(2026, 4, 1, 9, tzinfo=UTC)
SAID = [
    ("ops", "ada", "Where do the signing keys live?"),
    ("ops", "bob", "In the vault, see vault.md"),
    ("ops", "ada", "And who rotates the signing keys?"),
    ("dev", "ada", "Signing keys are no business of ours"),
    ("ops", "ada", "ok, thanks!"),
    ("ops", "ada", "no worries"),
    ("ops", "ada", "lunch? no worries if not"),
]


@pytest.fixture
def chat_clew(fresh: "Clew") -> "Clew":
    """The command line over pages and a few messages."""
    assert fresh("add", "pages").code == 0
    with Engine.open(fresh.folder / ".clew", settings=Settings(threads=ThreadConfig(untangle=False))) as engine:
        engine.add_messages(
            Message(text, author=author, channel=channel, id=f"m{n}", at=BEGAN + timedelta(minutes=n), reply_to=reply)
            for n, (channel, author, text) in enumerate(SAID)
            for reply in ["m0" if n in (1, 2) else None]
        )
    return fresh


def test_a_window_prints_its_text_alone(chat_clew: "Clew") -> None:
    done = chat_clew("window", "ops", "who rotates the signing keys?")
    assert done.code == 0
    thread = "\n  ↪ ".join(text for _, _, text in SAID[:3])
    assert done.out.startswith(thread)
    assert "messages," in done.err
    assert "business of ours" not in done.out


def test_a_window_as_json(chat_clew: "Clew") -> None:
    shape = chat_clew("window", "ops", "who rotates the signing keys?", "--json").json
    assert list(shape) == ["text", "total_tokens", "channels", "messages", "threads", "dropped", "reason"]
    best = max(shape["messages"], key=lambda message: message["score"])
    assert (best["id"], best["parent"], best["author"], best["at"]) == ("m2", "m0", "ada", "2026-04-01T09:02:00+00:00")
    assert best["score"] == pytest.approx(
        best["original_score"] * best["time_score"] * best["channel_score"] * best["thread_score"]
    )
    assert shape["threads"][0]["messages"] == ["m0", "m1", "m2"]
    assert shape["threads"][0]["whole"] is True


def test_the_options_of_a_window(chat_clew: "Clew") -> None:
    asked = ("window", "ops", "who rotates the signing keys?", "--json")
    assert chat_clew(*asked, "--tokens", "20").json["total_tokens"] <= 20
    assert chat_clew(*asked, "--related").json["channels"] == ["dev", "ops"]
    assert chat_clew(*asked, "--min-similarity", "0.99").json["messages"] == []
    assert chat_clew(*asked, "--min-score", "0.99").json["messages"] == []  # its former name
    then = chat_clew(*asked, "--now", "2026-04-01T09:02").json
    assert max(message["time_score"] for message in then["messages"]) == 1.0
    assert chat_clew(*asked, "--now", "soon").code == 2
    nothing = chat_clew("window", "nowhere", "keys")
    assert (nothing.code, nothing.out) == (0, "")
    assert "channel 'nowhere' has no messages" in nothing.err


def test_a_profile(chat_clew: "Clew") -> None:
    shape = chat_clew("profile", "ada", "--json").json
    assert (shape["person"], shape["messages"], shape["confidence"]) == ("ada", 6, 0.3)
    assert "no worries" in shape["common_phrases"]
    assert shape["made_by"] == "measured"
    assert "no worries" in chat_clew("profile", "ada").out
    assert "a style needs at least 5" in chat_clew("profile", "bob").err
    missing = chat_clew("profile", "adda")
    assert missing.code == 3
    assert "did you mean ada?" in missing.err


def test_links(chat_clew: "Clew") -> None:
    shape = chat_clew("links", "pages/vault.md", "--json").json
    assert [each["uri"] for each in shape["cited_by"]] == ["ops/m0"]
    assert [each["uri"] for each in chat_clew("links", "ops/m0", "--json").json["cites"]] == ["pages/vault.md"]
    assert "cited by  ops/m0" in chat_clew("links", "pages/vault.md").out
    assert "no thread mentions it" in chat_clew("links", "pages/lunch.md").out


def test_a_channel_may_be_written_with_its_sign_and_an_unknown_one_is_named(chat_clew: "Clew") -> None:
    bare = chat_clew("search", "signing keys", "--channel", "dev", "--json").json
    assert chat_clew("search", "signing keys", "--channel", "#dev", "--json").json["hits"] == bare["hits"] != []
    unknown = chat_clew("search", "signing keys", "--channel", "opz")
    assert unknown.out == "No results: there is no channel 'opz'; did you mean ops?\n"
