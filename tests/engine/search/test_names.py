"""Names that users give: filters that nothing answers to, folders and patterns, messages, groups; in both stores."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clew import Document, Engine, Filter, Message, NotFound, SettingsError

NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
SAID = [
    ("m1", "ops", "Ben Okafor", "The pager rings at noon", None),
    ("m2", "ops", "eva", "Then answer it at noon", None),
    ("m3", "general", "ben", "Soup is served at noon", None),
    ("m4", "board", "benedict", "The merger is signed at noon", {"board"}),
]
PAGES = ("notes/a.md", "notes/b.md", "notes/deep/c.md", "other/d.md", "top.md", "odd/[x].md", "https://x.org/a/one")


@pytest.fixture(params=["folder", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / ".clew" if request.param == "folder" else request.getfixturevalue("postgres")
    with Engine.open(place, embedder="hashed") as opened:
        opened.add_documents(
            Document(f"id of {uri}", f"A page about {uri} at noon.", uri=uri, meta={"author": ["Dora Lind", "max"]})
            for uri in PAGES
        )
        opened.add_messages(
            Message(text, author=author, channel=channel, id=name, at=NOON + timedelta(hours=n), access=access)
            for n, (name, channel, author, text, access) in enumerate(SAID)
        )
        yield opened


def test_unknown_names_of_a_filter_are_told_with_those_most_like_them(engine: Engine) -> None:
    told = {
        what: engine.unknown_names(where)
        for what, where in {
            "case and full name": Filter(authors={"Ben"}),
            "full name for a short one": Filter(authors={"eva mueller"}),
            "of a page": Filter(authors={"dora"}),
            "channel": Filter(channels={"opps"}),
            "kind": Filter(kinds={"pdf"}),
            "nothing near": Filter(channels={"zzz"}),
            "address": Filter(documents={"pages/a.md"}),
            "known": Filter(authors={"ben", "eva"}, channels={"#ops", "general"}, kinds={"thread"}),
            "one of two": Filter(kinds={"page", "threads"}),
            "joined": Filter(kinds={"thread"}) & Filter(channels={"OPS"}),
            "both": Filter(authors={"zoe"}, channels={"zzz"}),
        }.items()
    }
    assert told == {
        "case and full name": ["there is no author 'Ben'; did you mean ben, Ben Okafor, benedict?"],
        "full name for a short one": ["there is no author 'eva mueller'; did you mean eva?"],
        "of a page": ["there is no author 'dora'; did you mean Dora Lind?"],
        "channel": ["there is no channel 'opps'; did you mean ops?"],
        "kind": ["there is no kind 'pdf'; there are page, thread"],
        "nothing near": ["there is no channel 'zzz'; there are board, general, ops"],
        "address": ["there is no document with the id 'pages/a.md'"],
        "known": [],
        "one of two": ["there is no kind 'threads'; did you mean thread?"],
        "joined": ["there is no channel 'OPS' within the other filters; did you mean ops?"],
        "both": [
            *("there is no author 'zoe' within the other filters", "there is no channel 'zzz' within the other filters")
        ],
    }


def test_no_suggestion_names_what_is_outside_the_boundary(engine: Engine) -> None:
    staff = engine.within(Filter(access={"staff"}))
    assert staff.unknown_names(Filter(authors={"benedikt"})) == ["there is no author 'benedikt'; did you mean ben?"]
    assert staff.unknown_names(Filter(channels={"boards"})) == ["there is no channel 'boards'; there are general, ops"]
    assert staff.unknown_names(Filter(channels={"board"})) == ["there is no channel 'board'; there are general, ops"]
    both = Filter(access={"staff"}, authors={"benedikt"})  # the filter itself is a boundary for its other names
    told = "there is no author 'benedikt' within the other filters; did you mean ben?"
    assert engine.unknown_names(both) == [told]
    assert engine.unknown_names(Filter(access={"staff"}) & Filter(authors={"benedikt"})) == engine.unknown_names(both)
    assert "benedict" in engine.unknown_names(Filter(authors={"benedikt"}))[0]
    pages = engine.within(Filter(kinds={"page"}))
    assert pages.unknown_names(Filter(authors={"Ben"})) == ["there is no author 'Ben'; there are Dora Lind, max"]
    assert "board" not in staff.context("noon", where=Filter(channels={"boards"})).reason.replace("'boards'", "")
    for call in (staff.message, staff.read):
        with pytest.raises(NotFound) as raised:
            call("m4")
        assert "merger" not in str(raised.value)
        assert "board" not in str(raised.value)


@pytest.mark.parametrize("field", ["channels", "authors", "kinds"])
@pytest.mark.slow
def test_a_hidden_name_is_as_unknown_as_one_that_is_not_there(engine: Engine, field: str) -> None:
    engine.add_documents([Document("deal", "The deal at noon", kind="deal", access={"board"})])
    names = {"channels": ("board", "boarx"), "authors": ("benedict", "benedixt"), "kinds": ("deal", "deax")}
    hidden, absent = names[field]
    staff = Filter(access={"staff"})

    def explain(name: str, where: Filter) -> list[str]:
        condition: dict[str, Any] = {field: {name}}
        named = Filter(**condition)
        told = []
        for each in (where & named, named & where, replace(where, **condition)):
            told += [engine.context("noon", where=each).reason, engine.ask("noon?", where=each).reason]
            told += engine.unknown_names(each)
        told.append(engine.within(where).context("noon", where=named).reason)
        return [text.replace(repr(name), "NAME") for text in told]

    for where in (staff, staff & Filter(since=NOON), Filter(any_of=(staff,)), Filter(documents={"id of top.md"})):
        assert explain(hidden, where) == explain(absent, where)
        assert explain(hidden, where)[0].startswith(f"there is no {field[:-1]} NAME")


def test_an_empty_context_or_answer_says_that_the_name_is_unknown(engine: Engine) -> None:
    where = Filter(authors={"Ben"})
    reason = "there is no author 'Ben'; did you mean ben, Ben Okafor, benedict?"
    assert engine.search("noon", where=where) == []
    assert engine.context("noon", where=where).reason == reason
    assert engine.ask("when is noon?", where=where).reason == reason
    assert engine.context("noon", where=Filter(authors={"ben"})).passages


def test_a_channel_may_be_written_with_its_sign(engine: Engine) -> None:
    found = {hit.chunk.id for hit in engine.search("noon", where=Filter(channels={"#ops"}))}
    assert found == {hit.chunk.id for hit in engine.search("noon", where=Filter(channels={"ops"}))} != set()
    assert engine.within(Filter(channels={"#ops"})).channels() == ["ops"]
    assert engine.search("noon", where=Filter(channels={"#"})) == []
    engine.add_messages([Message("A sign at noon", author="ana", channel="#sign", id="s1", at=NOON)])
    assert [hit.chunk.meta["message"] for hit in engine.search("noon", where=Filter(channels={"#sign"}))] == ["s1"]
    assert engine.search("noon", where=Filter(channels={"sign"})) == []


def test_an_erasure_takes_the_very_name_of_a_channel(engine: Engine) -> None:
    with pytest.raises(NotFound, match="did you mean ops"):
        engine.erase(channel="#ops", dry_run=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("notes", {"notes/a.md", "notes/b.md", "notes/deep/c.md"}),
        ("notes/", {"notes/a.md", "notes/b.md", "notes/deep/c.md"}),
        ("./notes/deep", {"notes/deep/c.md"}),
        ("notes/*.md", {"notes/a.md", "notes/b.md"}),
        ("notes/**", {"notes/a.md", "notes/b.md", "notes/deep/c.md"}),
        ("**/c.md", {"notes/deep/c.md"}),
        ("notes/**/*.md", {"notes/a.md", "notes/b.md", "notes/deep/c.md"}),
        ("?.md", {"notes/a.md", "notes/b.md", "notes/deep/c.md", "other/d.md"}),
        ("[ab].md", {"notes/a.md", "notes/b.md"}),
        ("[!ab].md", {"notes/deep/c.md", "other/d.md"}),
        ("odd/[x].md", {"odd/[x].md"}),  # the name itself comes first
        ("https://x.org/a/", {"https://x.org/a/one"}),
        ("ops/*", {"ops/m1"}),
        ("top.md", {"top.md"}),
    ],
)
def test_folders_and_patterns_stand_for_documents(engine: Engine, name: str, expected: set[str]) -> None:
    before = {record.uri for record in engine.list()}
    assert engine.drop(name) == len(expected)
    assert before - {record.uri for record in engine.list()} == expected


@pytest.mark.parametrize("name", ["nothing/*", "note", "ops", ".", "*.pdf"])
def test_what_stands_for_nothing_drops_nothing(engine: Engine, name: str) -> None:
    before = len(list(engine.list()))
    with pytest.raises(NotFound, match="there is no document"):
        engine.drop("top.md", name)
    assert len(list(engine.list())) == before


def test_a_message_is_read_by_its_id(engine: Engine) -> None:
    found = engine.message("m2")
    assert (found.text, found.author, found.channel, found.at) == (
        "Then answer it at noon", "eva", "ops", NOON + timedelta(hours=1),
    )  # fmt: skip
    assert engine.message("general/m3").author == "ben"
    for missing in ("m9", "ops/m3", "id of top.md"):
        with pytest.raises(NotFound, match="there is no message"):
            engine.message(missing)
    with pytest.raises(NotFound):
        engine.message("m2", where=Filter(channels={"general"}))


def test_results_are_grouped_by_document(engine: Engine) -> None:
    def text(n: int) -> str:
        return f"# Lamp {n}\n\n" + "\n\n".join(f"## Part {part}\n\nThe lamp burns at noon." for part in range(30))

    engine.add_documents(Document(f"lamp{n}", text(n), uri=f"lamp{n}.md") for n in range(3))
    asked: dict[str, Any] = {"strategy": "lexical", "k": 5}
    plain = engine.search("the lamp burns at noon", **asked)
    assert len({hit.chunk.doc_id for hit in plain}) < 5
    grouped = engine.search("the lamp burns at noon", group_by="document", **asked)
    documents = [hit.chunk.doc_id for hit in grouped]
    assert len(documents) == len(set(documents)) == 5
    assert grouped[0] == plain[0]
    with pytest.raises(SettingsError, match="group_by"):
        engine.search("noon", group_by="channel")  # type: ignore[arg-type]


def test_a_thread_is_not_a_folder(engine: Engine) -> None:
    search: Callable[..., Any] = engine.search
    assert search("noon", where=Filter(channels={"ops"}))
    with pytest.raises(NotFound):
        engine.drop("ops/")


def test_a_file_name_alone_reads_the_only_file_of_that_name(engine: Engine) -> None:
    assert engine.read("c.md").uri == "notes/deep/c.md"
    engine.add_documents([Document("other c", "Another page", uri="other/c.md")])
    with pytest.raises(NotFound, match=r"c\.md"):  # which of them?
        engine.read("c.md")
    with pytest.raises(NotFound):
        engine.read("ep/c.md")


def test_a_name_that_is_not_near_is_not_suggested(engine: Engine) -> None:
    engine.add_messages([Message("Oil the winch", author=name, channel="yard") for name in ("Mira", "Raja")])
    (told,) = engine.unknown_names(Filter(authors={"Rja"}))
    assert "did you mean Raja?" in told
    assert "Mira" not in told


def test_a_document_without_text_is_known(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text("---\ntitle: Nothing yet\n---\n", "utf-8")
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add(tmp_path)
        (record,) = engine.list()
        assert (record.chunks, engine.unknown_names(Filter(documents={record.id}))) == (0, [])
