"""Filters: a hybrid search within each kind of filter over one without, by processor time, whatever the channels.

Also a search of pages and chats over one of as many pages. It runs in a process with one thread of BLAS: the others
wait for work in a loop, which counts as processor time.
"""

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from unittest.mock import patch

from benchmarks import Measurement, Setup, p50
from benchmarks.peers.run import ONE_THREAD
from clew import Document, Engine, Filter, Message, Settings
from clew.core.settings import StoreConfig

CHANNELS = (2, 10, 50, 100)
MESSAGES, PAGES, NAMED = 4_000, 5_500, 5_000
BURST = 20  # messages of a channel in a row
QUESTIONS, WARM_UP = 60, 15
WORDS = 3_000
START = datetime(2026, 1, 1, tzinfo=UTC)
LABELS = (None, frozenset({"staff"}), frozenset({"board"}))  # of pages and messages, in turn
PLAIN, NEW, GOAL = "plain", "new", "≤ 1.5"
MIXED = "hybrid search of pages and chats / of as many pages"
INDEXES = {"exact": 10_000, "shard": 1_000}  # `store.exact_below`
Search = Callable[[str], object]


def measure_filters(setup: Setup) -> Sequence[Measurement]:
    """The worst of all numbers of channels for each filter, given to the call or to `within`, with each index."""
    with patch.dict(os.environ, ONE_THREAD), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, setup.work).result()


def _measure(work: Path) -> list[Measurement]:
    for channels in CHANNELS:
        with _open(work / str(channels), "exact") as engine:
            engine.add_documents(_write_pages(PAGES))
            engine.add_messages(_write_messages(channels))
    with _open(work / "pages", "exact") as engine:
        engine.add_documents(_write_pages(PAGES + MESSAGES))
    return [line for index in INDEXES for line in _measure_index(work, index)]


def _measure_index(work: Path, index: str) -> Iterator[Measurement]:
    ratios: dict[str, list[float]] = {}
    with _open(work / "pages", index) as pages:
        for channels in CHANNELS:
            with _open(work / str(channels), index) as engine:
                for name, ratio in _compare(engine, pages).items():
                    ratios.setdefault(name, []).append(ratio)
    for name, found in ratios.items():
        note = ", ".join(f"{many}: {ratio:.2f}" for many, ratio in zip(CHANNELS, found, strict=True))
        yield Measurement(f"{name}, {index}, 2 to 100 channels", max(found), "" if name == MIXED else GOAL, note)


def _compare(engine: Engine, pages: Engine) -> dict[str, float]:
    """The processor time of a search within each filter, over one without."""
    ids = frozenset(f"d{number}" for number in range(NAMED))
    filters = {
        "channel": Filter(channels={"c0"}),
        "author": Filter(authors={"a3"}),
        "kind": Filter(kinds={"page"}),
        "label": Filter(access={"staff"}),
        f"{NAMED:,} documents": Filter(documents=ids),
    }
    calls: dict[str, Search] = {PLAIN: partial(_search, engine), "pages": partial(_search, pages)}
    for name, where in filters.items():
        calls[f"where {name}"] = partial(_search, engine, where=where)
        calls[f"within {name}"] = partial(_search, engine.within(where))
    fresh = count()
    calls[NEW] = lambda text: _search(
        engine, text, Filter(access={"staff"}, since=START + timedelta(next(fresh) / 1e6))
    )
    times = _time_processor(calls)
    ratios = {
        f"hybrid search by {name} / without a filter": max(times[f"where {name}"], times[f"within {name}"])
        for name in filters
    }
    ratios["the same by label and time, each filter new"] = times[NEW]
    made = {name: took / times[PLAIN] for name, took in ratios.items()}
    return {**made, MIXED: times[PLAIN] / times["pages"]}


_QUESTIONS = random.Random(1)  # one for all calls: an engine that is asked again must not have the answer


def _time_processor(calls: Mapping[str, Search]) -> dict[str, float]:
    """The median of the processor time of each call, interleaved, each with questions that no other has asked."""
    names = list(calls)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-WARM_UP, QUESTIONS):
        for name in names:
            question = _write_text(_QUESTIONS, 6)
            began = process_time()
            calls[name](question)
            if number >= 0:
                times[name].append(process_time() - began)
    return {name: p50(taken) for name, taken in times.items()}


def _search(engine: Engine, text: str, where: Filter | None = None) -> None:
    engine.search(text, k=10, strategy="hybrid", where=where or Filter())


def _open(folder: Path, index: str) -> Engine:
    settings = Settings(store=StoreConfig(exact_below=INDEXES[index]))
    return Engine.open(folder, embedder="hashed", settings=settings)


def _write_pages(many: int) -> Iterator[Document]:
    drawn = random.Random(2)
    for number in range(many):
        yield Document(f"d{number}", _write_text(drawn, 40), uri=f"d{number}", access=LABELS[number % len(LABELS)])


def _write_messages(channels: int) -> Iterator[Message]:
    drawn = random.Random(3)
    for number in range(MESSAGES):
        yield Message(
            _write_text(drawn, 14),
            author=f"a{number % 20}",
            at=START + timedelta(minutes=number),
            id=f"m{number}",
            channel=f"c{number // BURST % channels}",
            access=LABELS[number // 7 % len(LABELS)],
        )


def _write_text(drawn: random.Random, words: int) -> str:
    return " ".join(f"w{int(WORDS * drawn.random() ** 2)}" for _ in range(words))
