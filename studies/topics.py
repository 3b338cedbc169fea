"""`python -m studies.topics --data FOLDER`: does a conversation that asks by its parts reach all of its topics?

FOLDER holds `qmsum` and `tiage`. Three questions, each on the part of the data that is asked for:

1. Requests of two or three questions about one meeting, searched among its turns (each with its two neighbours on
   either side): the share of the questions that have a gold turn among the first 5, 10 and 20.
2. Conversations joined from five stretches of different meetings, searched among notes on all meetings: the share of
   the stretches that have one of their notes among the first 5, 10 and 20.
3. Where topics begin: in chats, by F1 and Pk (Beeferman, Berger and Lafferty, 1999), and in those conversations, by Pk.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import hypot
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal

from clew import Document, Engine, Message, Settings, drivers
from clew.core.protocols import Embedder, Strategy
from clew.core.settings import ConversationConfig, EmbedderConfig, IngestionConfig, SearchConfig
from clew.core.text import extract_terms
from clew.index.chunk.paragraphs import chunk_markdown
from clew.query.search import strategies
from clew.query.search.conversation import SplitTopics, chunked
from clew.query.search.strategies import Drivers, StrategyFactory
from clew.query.search.topics import find_topic_starts, split_topics
from studies.conversations import ConversationQuery, join_stretches, load_dialogues, load_meetings, load_requests
from studies.measures import bootstrap
from studies.sets import report_missing_set

DEPTHS = (5, 10, 20)
LEGS: Mapping[str, StrategyFactory] = {
    "lexical": strategies.lexical,
    "semantic": strategies.semantic,
    "hybrid": strategies.hybrid,
}
NEIGHBOURS = 2  # turns on either side of one
UNLIMITED = 1_000_000
SETTINGS = Settings(
    ingestion=IngestionConfig(chunk_size=UNLIMITED, chunk_overlap=0, summaries=False, language="en"),
    search=SearchConfig(mode="exact", min_similarity=-1.0),
)


@dataclass(frozen=True, slots=True)
class ConversationSystem:
    """A way to ask: the tokens of a query (0: the whole at once), the order, and how topics are found, if they are."""

    name: str
    size: int
    order: Literal["coverage", "score"] = "coverage"
    topics: str = ""
    labels: bool = False


REQUESTS = (
    ConversationSystem("one query", 0),
    ConversationSystem("chunked 32", 32, "score"),
    ConversationSystem("chunked 32, coverage", 32),
    ConversationSystem("topics, coverage", 256, topics="words"),
    ConversationSystem("gold split, coverage", 256, topics="gold"),
)
WINDOWS = (
    ConversationSystem("one query", 0),
    ConversationSystem("chunked 1800", 1800, "score"),
    ConversationSystem("chunked 1800, coverage", 1800),
    ConversationSystem("chunked 256", 256, "score"),
    ConversationSystem("chunked 256, coverage", 256),
    ConversationSystem("chunked 256, coverage, labels", 256, labels=True),
    ConversationSystem("topics 256, coverage", 256, topics="words"),
    ConversationSystem("topics 256, by words and meaning", 256, topics="meaning"),
    ConversationSystem("gold split 256, coverage", 256, topics="gold"),
)


# -- the measures


def compute_coverage(found: Sequence[str], gold: Sequence[frozenset[str]], k: int) -> float:
    """The share of the topics of which something is among the first k."""
    first = set(found[:k])
    return fmean(bool(first & each) for each in gold)


def pk(starts: Sequence[int], guessed: Sequence[int], count: int) -> float:
    """How often two messages half a mean topic apart are wrongly put in one topic or in two."""
    reach = max(1, round(count / (len(starts) + 1) / 2))
    real, guess = (list(accumulate(int(place in set(each)) for place in range(count))) for each in (starts, guessed))
    pairs = [(real[i] == real[i + reach]) != (guess[i] == guess[i + reach]) for i in range(count - reach)]
    return fmean(pairs) if pairs else 0.0


def f1(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float:
    """The harmonic mean of precision and recall of exact starts, over all conversations together."""
    right = sum(len(set(real) & set(guess)) for real, guess in pairs)
    total = sum(len(real) + len(guess) for real, guess in pairs)
    return 2 * right / total if total else 0.0


# -- the study


def make_strategy_factory(
    system: ConversationSystem, leg: StrategyFactory, asked: ConversationQuery
) -> StrategyFactory:
    """The strategy that a system is on a leg."""

    def make(drivers: Drivers) -> Strategy:
        found: Mapping[str, SplitTopics] = {
            "words": partial(split_topics, embed=None, language="en"),
            "meaning": partial(
                split_topics,
                embed=drivers.embed_queries,
                unrelated_cosine=drivers.embedder.min_similarity,
                language="en",
            ),
            "gold": lambda _: asked.topics,
        }
        return chunked(
            leg(drivers),
            ConversationConfig(
                chunks_per_query=max(DEPTHS), order=system.order, single_below=0 if system.size else UNLIMITED
            ),
            split_text=partial(chunk_markdown, max_tokens=system.size or UNLIMITED, overlap_tokens=0),
            embed=drivers.embed_queries,
            split_topics=found.get(system.topics),
            labels=system.labels,
        )

    return make


def search_conversation(
    engine: Engine, system: ConversationSystem, leg: StrategyFactory, asked: ConversationQuery
) -> list[str]:
    """The ids of the documents that a conversation finds."""
    engine.strategies["asked"] = make_strategy_factory(system, leg, asked)
    messages = asked.messages
    text = " ".join(message.text for message in messages) if asked.is_request else messages[-1].text
    history = () if asked.is_request else messages
    hits = engine.search(text, k=max(DEPTHS), strategy="asked", history=history, settings=SETTINGS)
    return [hit.chunk.doc_id for hit in hits]


def make_rows(
    shelves: Sequence[tuple[Mapping[str, str], Sequence[ConversationQuery]]],
    systems: Sequence[ConversationSystem],
    embedder: Embedder,
) -> Iterator[str]:
    """The lines of a table of coverage, a system a row; the lead at 10 is over the first system of the leg."""
    values: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for texts, many in shelves:
        with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
            engine.add_documents([Document(id_, text, meta={"format": "text"}) for id_, text in texts.items()])
            for asked in many:
                for leg, system in ((leg, system) for leg in LEGS for system in systems):
                    ids = search_conversation(engine, system, LEGS[leg], asked)
                    values.setdefault((leg, system.name), []).append(
                        tuple(compute_coverage(ids, asked.gold, depth) for depth in DEPTHS)
                    )
    yield f"| leg | system | {' | '.join(f'coverage@{depth}' for depth in DEPTHS)} | lead at {DEPTHS[1]} |"
    yield "|---" * (3 + len(DEPTHS)) + "|"
    for (leg, name), each in values.items():
        columns = list(zip(*each, strict=True))
        first = [row[1] for row in values[leg, systems[0].name]]
        lead = "" if name == systems[0].name else str(bootstrap(columns[1], first))
        yield f"| {leg} | {name} | {' | '.join(f'{100 * fmean(column):.1f}' for column in columns)} | {lead} |"


def make_boundary_rows(
    dialogues: Sequence[ConversationQuery], joined: Sequence[ConversationQuery], embedder: Embedder
) -> Iterator[str]:
    """The lines of the table of boundaries."""
    embed = partial(embedder.embed, role="query")
    ways: Mapping[str, Callable[[Sequence[Message]], list[int]]] = {
        "none": lambda _: [],
        "every message": lambda messages: list(range(1, len(messages))),
        "no word of the two before": _find_unrelated_starts,
        "dips (TextTiling), by words": find_dips,
        "topics, by words": partial(find_topic_starts, embed=None, language="en"),
        "topics, by words and meaning": partial(
            find_topic_starts, embed=embed, unrelated_cosine=embedder.min_similarity, language="en"
        ),
    }
    yield "| boundaries | chats: F1 | chats: Pk | joined: Pk |"
    yield "|---|---|---|---|"
    for name, way in ways.items():
        first, second = (
            [(each.starts, way(each.messages), len(each.messages)) for each in s] for s in (dialogues, joined)
        )
        shown = (f1([each[:2] for each in first]), *(fmean(pk(*each) for each in many) for many in (first, second)))
        yield f"| {name} | {' | '.join(f'{value:.3f}' for value in shown)} |"


def find_dips(messages: Sequence[Message], *, strictness: float = 1.5) -> list[int]:
    """The deepest dips between what is said before and after, as in Hearst's TextTiling, 1997, with messages as units.

    A dip counts if its depth passes the mean by so many deviations. Reach and strictness are the best on train.
    """
    said = [Counter(extract_terms(message.text, language="en")) for message in messages]
    reach = max(2, round(len(said) ** 0.5))
    likes = [
        _cosine(sum(said[max(0, at - reach) : at], Counter()), sum(said[at : at + reach], Counter()))
        for at in range(1, len(said))
    ]
    depths = [_measure_climb(likes[: at + 1][::-1]) + _measure_climb(likes[at:]) for at in range(len(likes))]
    least = fmean(depths) + strictness * pstdev(depths)
    kept: list[int] = []
    for at in sorted(range(len(depths)), key=lambda at: -depths[at]):
        if depths[at] > least and all(abs(at - other) >= reach for other in kept):
            kept.append(at)
    return sorted(at + 1 for at in kept)


def _measure_climb(likes: Sequence[float]) -> float:
    """How far it goes up from the first until it goes down."""
    top = likes[0]
    for like in likes:
        if like < top:
            break
        top = like
    return top - likes[0]


def _cosine(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    length = hypot(*one.values()) * hypot(*other.values())
    return sum(times * other.get(term, 0) for term, times in one.items()) / length if length else 0.0


def _find_unrelated_starts(messages: Sequence[Message]) -> list[int]:
    said = [set(extract_terms(message.text, language="en")) for message in messages]
    return [place for place in range(1, len(said)) if not said[place] & set().union(*said[max(0, place - 2) : place])]


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="studies.topics", description="Conversations as queries.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds qmsum and tiage")
    parser.add_argument("--split", choices=("train", "val"), default="val", help="train is for choosing")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that keeps vectors, so that nothing is embedded twice")
    parser.add_argument("--windows", type=int, default=60, help="how many conversations are joined")
    parser.add_argument("--meetings", type=int, default=None, help="how many meetings requests are about, at most")
    parser.add_argument("--parts", nargs="+", choices=("1", "2", "3"), default=["3", "2", "1"])
    given = parser.parse_args(arguments)
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    all_meetings = load_meetings(given.data, given.split)
    notes, joined = join_stretches(all_meetings, given.windows)
    dialogues = load_dialogues(given.data, "dev" if given.split == "val" else "train")
    asked = load_requests(given.data, given.split)
    units = [
        (_make_units(meeting), asked[meeting["meeting_id"]])
        for meeting in all_meetings
        if meeting["meeting_id"] in asked
    ][: given.meetings]
    tables: Mapping[str, tuple[str, Callable[[], Iterator[str]]]] = {
        "1": (f"{sum(len(many) for _, many in units)} requests", partial(make_rows, units, REQUESTS, embedder)),
        "2": (f"{len(joined)} joined conversations", partial(make_rows, [(notes, joined)], WINDOWS, embedder)),
        "3": (f"{len(dialogues)} chats", partial(make_boundary_rows, dialogues, joined, embedder)),
    }
    for part in given.parts:
        title, table = tables[part]
        print(f"\n{title}, {given.split}, {embedder.name}", flush=True)
        for row in table():
            print(row, flush=True)


def _make_units(meeting: Mapping[str, Any]) -> dict[str, str]:
    """Each turn with its neighbours, by its number."""
    said = [f"{turn['speaker']}: {turn['content']}" for turn in meeting["meeting_transcripts"]]
    return {str(at): " ".join(said[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]) for at in range(len(said))}


if __name__ == "__main__":
    main()
