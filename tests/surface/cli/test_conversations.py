"""window, profile and links through the command line: every option changes what comes out."""

from datetime import UTC, datetime, timedelta

import pytest

from clew import Engine, Message, Settings
from clew.core.settings import ThreadConfig
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
def chat_clew(fresh: Clew) -> Clew:
    """The command line over pages and a few messages."""
    assert fresh("add", "pages").code == 0
    with Engine.open(fresh.folder / ".clew", settings=Settings(threads=ThreadConfig(untangle=False))) as engine:
        engine.add_messages(
            Message(text, author=author, channel=channel, id=f"m{n}", at=BEGAN + timedelta(minutes=n), reply_to=reply)
            for n, (channel, author, text) in enumerate(SAID)
            for reply in ["m0" if n in (1, 2) else None]
        )
    return fresh


def test_a_window_prints_its_text_alone(chat_clew: Clew) -> None:
    done = chat_clew("window", "ops", "who rotates the signing keys?")
    assert done.code == 0
    thread = "\n  ↪ ".join(f"{author}, 2026-04-01 09:0{n}: {text}" for n, (_, author, text) in enumerate(SAID[:3]))
    assert done.out.startswith(thread)
    assert "messages," in done.err
    assert "business of ours" not in done.out


def test_a_window_as_json(chat_clew: Clew) -> None:
    shape = chat_clew("window", "ops", "who rotates the signing keys?", "--json").json
    best = max(shape["messages"], key=lambda message: message["score"])
    assert (best["id"], best["parent"], best["author"], best["at"]) == ("m2", "m0", "ada", "2026-04-01T09:02:00+00:00")
    assert best["score"] == pytest.approx(
        best["original_score"] * best["time_score"] * best["channel_score"] * best["thread_score"]
    )
    assert shape["threads"][0]["messages"] == ["m0", "m1", "m2"]
    assert shape["threads"][0]["whole"] is True


def test_the_options_of_a_window(chat_clew: Clew) -> None:
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


def test_a_profile(chat_clew: Clew) -> None:
    shape = chat_clew("profile", "ada", "--json").json
    assert (shape["person"], shape["messages"], shape["confidence"]) == ("ada", 6, 0.3)
    assert "no worries" in shape["common_phrases"]
    assert shape["made_by"] == "measured"
    assert "no worries" in chat_clew("profile", "ada").out
    assert "a style needs at least 5" in chat_clew("profile", "bob").err
    missing = chat_clew("profile", "adda")
    assert missing.code == 3
    assert "did you mean ada?" in missing.err


def test_hits_of_one_thread_are_shown_as_their_own_messages(chat_clew: Clew) -> None:
    found = chat_clew("search", "signing keys rotates", "--channel", "ops", "-k", "3").out
    assert "  ada, 2026-04-01 09:00  #ops  ops/m0\n   Where do the signing keys live?\n" in found
    assert "  ↪ ada, 2026-04-01 09:02  #ops  ops/m0\n   And who rotates the signing keys?\n" in found
    assert "#ops: Where do" not in found  # the title of the thread
    hits = chat_clew("search", "signing keys rotates", "--kind", "thread", "--json").json["hits"]
    said = {hit["message"]["id"]: hit["message"] for hit in hits}
    assert said["m2"] == {
        "id": "m2",
        "author": "ada",
        "at": "2026-04-01T09:02:00+00:00",
        "channel": "ops",
        "reply_to": "m0",
        "guessed": False,
    }
    pages = chat_clew("search", "signing keys", "--kind", "page", "--json").json["hits"]
    assert {hit["message"] for hit in pages} == {None}


def test_a_long_message_is_shown_with_its_first_line(chat_clew: Clew) -> None:
    with Engine.open(chat_clew.folder / ".clew") as engine:
        text = f"First of all: {'this is about something else entirely, ' * 12}but the kittiwakes are back"
        engine.add_messages([Message(text, author="eva", channel="ops", id="k", at=BEGAN)])
    lines = chat_clew("search", "kittiwakes", "--channel", "ops", "-k", "1").out.splitlines()
    assert lines[0].endswith("  eva, 2026-04-01 09:00  #ops  ops/k")
    assert lines[1].startswith("   First of all: this is about")
    assert "kittiwakes are back" in "".join(lines[2:])


def test_a_thread_is_read_with_who_and_when(chat_clew: Clew) -> None:
    shown = chat_clew("read", "ops/m0").out
    lines = [f"{author}, 2026-04-01 09:0{n}: {text}" for n, (_, author, text) in enumerate(SAID[:3])]
    assert shown == "\n\n↪ ".join(lines) + "\n"
    sections = chat_clew("read", "ops/m0", "--json").json["sections"]
    assert [(each["author"], each["parent"], each["guessed"]) for each in sections] == [
        ("ada", None, False),
        ("bob", 0, False),
        ("ada", 0, False),
    ]
    assert chat_clew("read", "pages/vault.md").out.startswith("\nSecrets live in the vault.")  # a page as it is


def test_a_context_and_an_explanation_name_the_author(chat_clew: Clew) -> None:
    done = chat_clew("context", "who rotates the signing keys?", "--channel", "ops", "--json").json
    assert "↪ ada, 2026-04-01 09:02: And who rotates the signing keys?" in done["text"]
    said = [each for passage in done["passages"] for each in passage["messages"] if each["id"] == "m2"]
    assert [(each["author"], each["at"], each["text"]) for each in said] == [
        ("ada", "2026-04-01T09:02:00+00:00", "And who rotates the signing keys?")
    ]
    assert "ops/m0  ada, 2026-04-01 09:02" in chat_clew("explain", "who rotates the signing keys?").out


@pytest.mark.slow
def test_the_sources_of_an_answer_name_section_and_line_or_author_and_time(chat_clew: Clew) -> None:
    answer = ("ask", "where do the signing keys live?", "--min-relevance", "0")
    message = chat_clew(*answer, "--channel", "ops", CLEW_ANSWER__MIN_CONFIDENCE="0").out
    assert "\n↪ bob, 2026-04-01 09:01: In the vault, see vault.md\n" in message
    assert "ops/m0  bob, 2026-04-01 09:01" in message
    cited = chat_clew(
        *answer, "--kind", "page", "--json", CLEW_ANSWER__MIN_CONFIDENCE="0", CLEW_ANSWER__READER="reranker"
    ).json["citations"]
    page = chat_clew(*answer, "--kind", "page", CLEW_ANSWER__MIN_CONFIDENCE="0", CLEW_ANSWER__READER="reranker").out
    assert cited[0]["section"]
    assert f"{cited[0]['section'][-1]}  {cited[0]['uri']}  line {cited[0]['line']}" in page


def test_a_style_prompt(chat_clew: Clew) -> None:
    done = chat_clew("style-prompt", "ada", "who rotates the keys?")
    assert done.code == 0
    assert "You answer as ada would" in done.out
    assert "ada, 2026-04-01 09:00: Where do the signing keys live?" in done.out
    assert "\n  ↪ ada, 2026-04-01 09:02: And who rotates the signing keys?" in done.out
    short = chat_clew("style-prompt", "ada", "who rotates the keys?", "--tokens", "60", "--json").json
    assert list(short) == ["person", "message", "prompt"]
    assert len(short["prompt"]) < len(done.out)
    assert chat_clew("style-prompt", "ada", " ").code == 2
    assert chat_clew("style-prompt", "adda", "who?").code == 3
    assert chat_clew("style-prompt", "ada", "who?", "--tokens", "0").code == 2


def test_links(chat_clew: Clew) -> None:
    shape = chat_clew("links", "pages/vault.md", "--json").json
    assert [each["uri"] for each in shape["cited_by"]] == ["ops/m0"]
    assert [each["uri"] for each in chat_clew("links", "ops/m0", "--json").json["cites"]] == ["pages/vault.md"]
    assert "cited by  ops/m0" in chat_clew("links", "pages/vault.md").out
    assert "no thread mentions it" in chat_clew("links", "pages/lunch.md").out


def test_a_channel_may_be_written_with_its_sign_and_an_unknown_one_is_named(chat_clew: Clew) -> None:
    bare = chat_clew("search", "signing keys", "--channel", "dev", "--json").json
    assert chat_clew("search", "signing keys", "--channel", "#dev", "--json").json["hits"] == bare["hits"] != []
    unknown = chat_clew("search", "signing keys", "--channel", "opz")
    assert unknown.out == "No results: there is no channel 'opz'; did you mean ops?\n"
