"""`python -m studies.topics --data FOLDER`: does splitting a conversation into queries cover all of its topics?

FOLDER holds `qmsum` and `tiage`. Three experiments, chosen with --parts:

1. Requests of two or three questions about one meeting, searched in its turns (each with two neighbours on either
   side): the share of the questions with a gold turn among the first 5, 10 and 20.
2. Conversations joined from five stretches of different meetings, searched in notes on all meetings: the share of the
   stretches with one of their notes among the first 5, 10 and 20.
3. Topic segmentation: of dialogues by F1 and Pk (Beeferman, Berger and Lafferty, 1999), of those conversations by Pk.
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
from clew.index.chunk.pages import chunk_markdown
from clew.query.search import strategies
from clew.query.search.conversation import SplitTopics, chunked
from clew.query.search.evidence import assess
from clew.query.search.strategies import Drivers, StrategyFactory
from clew.query.search.topics import find_topic_starts, split_messages_by_topic
from studies.conversations import ConversationQuery, join_stretches, load_dialogues, load_meetings, load_requests
from studies.measures import bootstrap
from studies.sets import report_missing_set

DEPTHS = (5, 10, 20)
LEGS: Mapping[str, StrategyFactory] = {
    "lexical": strategies.lexical,
    "semantic": strategies.semantic,
    "hybrid": strategies.hybrid,
}
NEIGHBOURS = 2  # turns on either side of a turn
UNLIMITED = 1_000_000
SETTINGS = Settings(
    ingestion=IngestionConfig(chunk_size=UNLIMITED, chunk_overlap=0, language="en"),
    search=SearchConfig(mode="exact"),
)


@dataclass(frozen=True, slots=True)
class ConversationSystem:
    """A way to query: tokens per query (0: the whole at once), the order of results, and the topic segmentation."""

    name: str
    size: int
    order: Literal["coverage", "score"] = "coverage"
    topics: str = ""


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
    ConversationSystem("topics 256, coverage", 256, topics="words"),
    ConversationSystem("gold split 256, coverage", 256, topics="gold"),
)


# -- the measures


def compute_coverage(found: Sequence[str], gold: Sequence[frozenset[str]], k: int) -> float:
    """The share of the topics with a relevant result among the first k."""
    first = set(found[:k])
    return fmean(bool(first & each) for each in gold)


def pk(starts: Sequence[int], guessed: Sequence[int], count: int) -> float:
    """Pk: how often two messages half a mean topic apart are wrongly put into one topic or into two."""
    reach = max(1, round(count / (len(starts) + 1) / 2))
    real, guess = (list(accumulate(int(place in set(each)) for place in range(count))) for each in (starts, guessed))
    pairs = [(real[i] == real[i + reach]) != (guess[i] == guess[i + reach]) for i in range(count - reach)]
    return fmean(pairs) if pairs else 0.0


def f1(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float:
    """F1 of exact topic starts, over all conversations together."""
    right = sum(len(set(real) & set(guess)) for real, guess in pairs)
    total = sum(len(real) + len(guess) for real, guess in pairs)
    return 2 * right / total if total else 0.0


# -- the study


def make_strategy_factory(
    system: ConversationSystem, leg: StrategyFactory, query: ConversationQuery
) -> StrategyFactory:
    """The factory of the strategy of a system on a leg."""

    def make(drivers: Drivers) -> Strategy:
        found: Mapping[str, SplitTopics] = {
            "words": partial(split_messages_by_topic, language="en"),
            "gold": lambda _: query.topics,
        }
        return chunked(
            leg(drivers),
            ConversationConfig(
                chunks_per_query=max(DEPTHS), order=system.order, single_below=0 if system.size else UNLIMITED
            ),
            split_text=partial(chunk_markdown, max_tokens=system.size or UNLIMITED, overlap_tokens=0),
            embed=drivers.embed_queries,
            split_topics=found.get(system.topics),
            assess=assess(drivers.evidence),
        )

    return make


def search_conversation(
    engine: Engine, system: ConversationSystem, leg: StrategyFactory, query: ConversationQuery
) -> list[str]:
    """The ids of the documents found for a conversation."""
    engine.opened.finder.strategies["asked"] = make_strategy_factory(system, leg, query)
    messages = query.messages
    text = " ".join(message.text for message in messages) if query.is_request else messages[-1].text
    history = () if query.is_request else messages
    hits = engine.search(text, k=max(DEPTHS), strategy="asked", history=history, settings=SETTINGS)
    return [hit.chunk.doc_id for hit in hits]


def make_rows(
    collections: Sequence[tuple[Mapping[str, str], Sequence[ConversationQuery]]],
    systems: Sequence[ConversationSystem],
    embedder: Embedder,
) -> Iterator[str]:
    """The rows of a table of coverage, one per system; the lead at 10 is over the first system of the leg."""
    values: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for texts, queries in collections:
        with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
            engine.add_documents([Document(id_, text, meta={"format": "text"}) for id_, text in texts.items()])
            for query in queries:
                for leg, system in ((leg, system) for leg in LEGS for system in systems):
                    ids = search_conversation(engine, system, LEGS[leg], query)
                    values.setdefault((leg, system.name), []).append(
                        tuple(compute_coverage(ids, query.gold, depth) for depth in DEPTHS)
                    )
    yield f"| leg | system | {' | '.join(f'coverage@{depth}' for depth in DEPTHS)} | lead at {DEPTHS[1]} |"
    yield "|---" * (3 + len(DEPTHS)) + "|"
    for (leg, name), each in values.items():
        columns = list(zip(*each, strict=True))
        first = [row[1] for row in values[leg, systems[0].name]]
        lead = "" if name == systems[0].name else str(bootstrap(columns[1], first))
        yield f"| {leg} | {name} | {' | '.join(f'{100 * fmean(column):.1f}' for column in columns)} | {lead} |"


def make_boundary_rows(dialogues: Sequence[ConversationQuery], joined: Sequence[ConversationQuery]) -> Iterator[str]:
    """The rows of the table of topic segmentation."""
    methods: Mapping[str, Callable[[Sequence[Message]], list[int]]] = {
        "none": lambda _: [],
        "every message": lambda messages: list(range(1, len(messages))),
        "no word of the two messages before": _find_unrelated_starts,
        "dips (TextTiling), by words": find_dips,
        "topics": partial(find_topic_starts, language="en"),
    }
    yield "| segmentation | dialogues: F1 | dialogues: Pk | joined: Pk |"
    yield "|---|---|---|---|"
    for name, segment in methods.items():
        first, second = (
            [(each.starts, segment(each.messages), len(each.messages)) for each in s] for s in (dialogues, joined)
        )
        shown = (
            f1([each[:2] for each in first]),
            *(fmean(pk(*each) for each in queries) for queries in (first, second)),
        )
        yield f"| {name} | {' | '.join(f'{value:.3f}' for value in shown)} |"


def find_dips(messages: Sequence[Message], *, strictness: float = 1.5) -> list[int]:
    """The deepest dips of the similarity of adjacent blocks, as in Hearst's TextTiling, 1997, with messages as units.

    A dip counts if its depth exceeds the mean by so many deviations. Reach and strictness are the best on train.
    """
    terms = [Counter(extract_terms(message.text, language="en")) for message in messages]
    reach = max(2, round(len(terms) ** 0.5))
    similarities = [
        _cosine(sum(terms[max(0, at - reach) : at], Counter()), sum(terms[at : at + reach], Counter()))
        for at in range(1, len(terms))
    ]
    depths = [
        _measure_climb(similarities[: at + 1][::-1]) + _measure_climb(similarities[at:])
        for at in range(len(similarities))
    ]
    min_depth = fmean(depths) + strictness * pstdev(depths)
    kept: list[int] = []
    for at in sorted(range(len(depths)), key=lambda at: -depths[at]):
        if depths[at] > min_depth and all(abs(at - other) >= reach for other in kept):
            kept.append(at)
    return sorted(at + 1 for at in kept)


def _measure_climb(similarities: Sequence[float]) -> float:
    """How far the similarities rise from the first until they fall."""
    top = similarities[0]
    for similarity in similarities:
        if similarity < top:
            break
        top = similarity
    return top - similarities[0]


def _cosine(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    length = hypot(*one.values()) * hypot(*other.values())
    return sum(times * other.get(term, 0) for term, times in one.items()) / length if length else 0.0


def _find_unrelated_starts(messages: Sequence[Message]) -> list[int]:
    terms = [set(extract_terms(message.text, language="en")) for message in messages]
    return [
        place for place in range(1, len(terms)) if not terms[place] & set().union(*terms[max(0, place - 2) : place])
    ]


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="studies.topics", description="Conversations as queries.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds qmsum and tiage")
    parser.add_argument("--split", choices=("train", "val"), default="val", help="train is for choosing parameters")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--windows", type=int, default=60, help="how many conversations to join")
    parser.add_argument("--meetings", type=int, default=None, help="requests about at most so many meetings")
    parser.add_argument("--parts", nargs="+", choices=("1", "2", "3"), default=["3", "2", "1"])
    given = parser.parse_args(arguments)
    embedder = drivers.make_embedder(EmbedderConfig(name=given.embedder, cache=given.cache))
    all_meetings = load_meetings(given.data, given.split)
    notes, joined = join_stretches(all_meetings, given.windows)
    dialogues = load_dialogues(given.data, "dev" if given.split == "val" else "train")
    requests = load_requests(given.data, given.split)
    units = [
        (_make_units(meeting), requests[meeting["meeting_id"]])
        for meeting in all_meetings
        if meeting["meeting_id"] in requests
    ][: given.meetings]
    tables: Mapping[str, tuple[str, Callable[[], Iterator[str]]]] = {
        "1": (f"{sum(len(queries) for _, queries in units)} requests", partial(make_rows, units, REQUESTS, embedder)),
        "2": (f"{len(joined)} joined conversations", partial(make_rows, [(notes, joined)], WINDOWS, embedder)),
        "3": (f"{len(dialogues)} dialogues", partial(make_boundary_rows, dialogues, joined)),
    }
    for part in given.parts:
        title, table = tables[part]
        print(f"\n{title}, {given.split}, {embedder.name}", flush=True)
        for row in table():
            print(row, flush=True)


def _make_units(meeting: Mapping[str, Any]) -> dict[str, str]:
    """Each turn with its neighbours, by turn number."""
    terms = [f"{turn['speaker']}: {turn['content']}" for turn in meeting["meeting_transcripts"]]
    return {str(at): " ".join(terms[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]) for at in range(len(terms))}


if __name__ == "__main__":
    main()
