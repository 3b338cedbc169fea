"""`python -m studies.follow_ups`: is a short question after others taken for a follow-up only where it is one?

96 questions were written over 40 pages before the rule that is judged here: 48 keyword queries for something else than
what was talked of, and 48 follow-ups. Every second one was in sight when the rule was chosen (`--half chosen`); the
others are held out. The last row counts the follow-ups that no word shows to be one.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clew import Document, Engine, Message, drivers, record
from clew.core.settings import EmbedderConfig
from clew.query.rewrite.rewrites import is_elliptic

FOLDER = Path(__file__).parent
HALVES = {"chosen": 0, "held-out": 1}


@dataclass(frozen=True, slots=True)
class Turn:
    """A short question after a turn, the page that answers it, and whether it is a follow-up."""

    is_follow_up: bool
    page: str
    history: tuple[Message, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search did with a turn: whether it was expanded, and whether its page was first, so and asked alone."""

    turn: Turn
    query: str
    is_first: bool
    is_first_alone: bool

    @property
    def is_right(self) -> bool:
        """Whether it was expanded where it is a follow-up, and only there."""
        return (self.query != self.turn.text) == self.turn.is_follow_up


def load_pages() -> list[Document]:
    """The pages."""
    blocks = (FOLDER / "pages.txt").read_text("utf-8").removeprefix("# ").split("\n# ")
    heads = [(*block.partition("\n")[0].split(" · "), block.partition("\n")[2].strip()) for block in blocks]
    return [Document(id_, text, title=title, uri=id_) for id_, title, text in heads]


def load_turns(half: str = "") -> list[Turn]:
    """The turns, or every second one of each kind and subject."""
    lines = (FOLDER / "turns.txt").read_text("utf-8").splitlines()
    rows = [line.split(" · ") for line in lines if not line.startswith("#")]
    turns = [
        Turn(kind == "follow", page, (Message(before), Message(answer, role="assistant")), text)
        for kind, page, before, answer, text in rows
    ]
    return turns[HALVES[half] :: 2] if half else turns


def search_turns(engine: Engine, turns: Sequence[Turn], strategy: str) -> list[Outcome]:
    """What a search with the history does with each turn."""
    found = []
    for turn in turns:
        with record() as trace:
            hits = engine.search(turn.text, strategy=strategy, history=turn.history)
        expanded = trace.find("expand")
        query = str(expanded.notes.get("query", turn.text)) if expanded else turn.text
        alone = engine.search(turn.text, strategy=strategy)
        is_first, is_first_alone = (bool(each) and each[0].document.id == turn.page for each in (hits, alone))
        found.append(Outcome(turn, query, is_first, is_first_alone))
    return found


def make_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The table."""
    yield "| questions | | searched rightly | page first | alone |\n|---|---|---|---|---|"
    follow_ups = [each for each in outcomes if each.turn.is_follow_up]
    kinds = {
        "on something new": [each for each in outcomes if not each.turn.is_follow_up],
        "follow-ups": follow_ups,
        "of these, without a word that says so": [each for each in follow_ups if not is_elliptic(each.turn.text)],
    }
    for name, some in kinds.items():
        right, first, alone = (
            sum(getattr(each, field) for each in some) for field in ("is_right", "is_first", "is_first_alone")
        )
        yield f"| {name} | {len(some)} | {right} | {first} | {alone} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table, and with `--show` each question that was taken for what it is not."""
    parser = argparse.ArgumentParser(prog="studies.follow_ups", description="Follow-ups, and questions on a new topic.")
    parser.add_argument("--half", choices=HALVES, default="", help="those in sight, or those held out (default: all)")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--strategy", default="hybrid")
    parser.add_argument("--show", action="store_true", help="the questions taken for what they are not")
    given = parser.parse_args(arguments)
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder))
    with Engine.open(":memory:", embedder=embedder) as engine:
        engine.add_documents(load_pages())
        outcomes = search_turns(engine, load_turns(given.half), given.strategy)
    print("\n".join(make_rows(outcomes)))
    if given.show:
        for each in outcomes:
            if not each.is_right:
                kind = "follow-up" if each.turn.is_follow_up else "new"
                print(f"{kind}: {each.turn.text} ({each.turn.history[0].text})")


if __name__ == "__main__":
    main()
