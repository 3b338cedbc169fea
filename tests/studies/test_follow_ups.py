"""The written follow-ups: every page is there, the halves share nothing, and the table counts."""

from clew import Engine
from studies.follow_ups.__main__ import HALVES, load_pages, load_turns, make_rows, search_turns


def test_the_turns_and_their_pages() -> None:
    pages = {page.id for page in load_pages()}
    turns = load_turns()
    assert len(pages) == 40
    assert [sum(turn.is_follow_up == wanted for turn in turns) for wanted in (True, False)] == [48, 48]
    assert {turn.page for turn in turns} == pages
    halves = [load_turns(half) for half in HALVES]
    assert [len(half) for half in halves] == [48, 48]
    assert not {(turn.text, turn.history) for turn in halves[0]} & {(turn.text, turn.history) for turn in halves[1]}
    assert all(sum(turn.is_follow_up for turn in half) == 24 for half in halves)


def test_the_table() -> None:
    turns = load_turns()
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents(load_pages())
        outcomes = search_turns(engine, [turns[0], turns[12], turns[13]], "hybrid")
    assert [(each.query, each.is_right, each.is_first) for each in outcomes] == [
        ("parental leave", True, True),
        ("take sabbatical three: who approves it?", True, True),
        ("sabbatical work unpaid: notice period", True, True),
    ]
    assert list(make_rows(outcomes))[1:] == [
        "| on something new | 1 | 1 | 1 | 1 |",
        "| follow-ups | 2 | 2 | 2 | 1 |",
        "| of these, without a word that says so | 1 | 1 | 1 | 0 |",
    ]
