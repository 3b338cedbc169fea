"""A million chunks in one folder, vectors given: adding, the graph, searches all the while, memory, disk, restart.

Texts are random words by Zipf's law and vectors random points around centres, made as they are asked for. Without
`--long` there are 20,000 chunks. Searches run in a thread all the while, so that none of it may stop them; their
processor time is in that of adding.
"""

import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from time import monotonic, process_time, sleep

import numpy as np
import xxhash

from benchmarks import Setup
from clew import Document, Engine, Settings
from clew.core.protocols import Role
from clew.core.report import STAGE, Progress
from clew.core.settings import SearchConfig
from clew.core.types import Matrix

CHUNKS, FEW = 1_000_000, 20_000
DIM, CENTRES, NOISE = 384, 2_000, 4_096
WORDS, LENGTH = 50_000, 60
PAUSE = 0.05  # seconds between two searches of the thread
SETTINGS = Settings(search=SearchConfig(cache=0))


class PointEmbedder:
    """Vectors by the hash of the text: a centre and some noise, at next to no cost."""

    name, dim, max_tokens, min_similarity = "points", DIM, 512, -1.0

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        self._centres = draw.standard_normal((CENTRES, DIM), np.float32)
        self._noise = draw.standard_normal((NOISE, DIM), np.float32)

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:  # noqa: ARG002
        """One unit vector per text."""
        hashes = np.array([xxhash.xxh64_intdigest(text.encode()) for text in texts], np.uint64)
        one, other = self._noise[hashes // CENTRES % NOISE], self._noise[hashes // CENTRES // NOISE % NOISE]
        points: Matrix = self._centres[hashes % CENTRES] + 0.5 * (one + other)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        return points

    def count(self, texts: Sequence[str]) -> list[int]:
        """One token each: every text is one chunk."""
        return [1] * len(texts)


class Searching:
    """A thread that searches again and again, and the time of each search by the stage it was made in."""

    def __init__(self, engine: Engine) -> None:
        self.stage = ""
        self.failed: list[Exception] = []
        self._engine, self._times, self._stop = engine, dict[str, list[float]](), threading.Event()
        self._thread = threading.Thread(target=self._search_on, name="searches")

    @contextmanager
    def run(self) -> Iterator["Searching"]:
        """Searches until the block ends."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    def describe(self, stage: str) -> str:
        """The median and the 95th percentile of a stage, and how many searches it had."""
        times = self._times.get(stage, [])
        if not times:
            return "no search"
        p50, p95 = np.percentile(times, [50, 95]) * 1e3
        return f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, longest {max(times) * 1e3:.0f} ms, {len(times)} searches"

    def _search_on(self) -> None:
        for text in make_texts(seed=1):
            if self._stop.is_set():
                return
            stage, started = self.stage, monotonic()
            try:
                self._engine.search(text[:80], k=10)
            except Exception as error:
                self.failed.append(error)
            self._times.setdefault(stage, []).append(monotonic() - started)
            sleep(PAUSE)


class Watch:
    """Follows `add_documents`, and says now and then how far it is."""

    def __init__(self, searches: Searching, chunks: int) -> None:
        self.used, self.stored_at = 0.0, monotonic()
        self._searches, self._chunks, self._due = searches, chunks, 0
        self._started, self._before = monotonic(), process_time()

    def note(self, progress: Progress) -> None:
        """One report of progress; after the last that counts documents the graph is built."""
        if progress.stage == STAGE:
            return
        self.used, self.stored_at = (process_time() - self._before) * 1e3, monotonic()
        if progress.done >= self._due:
            self._due = progress.done + self._chunks // 20
            spent = self.stored_at - self._started
            print(f"{spent:6.0f} s: {progress.done:,} of {self._chunks:,}", file=sys.stderr, flush=True)
        if progress.done == self._chunks:
            self._searches.stage = "graph"


def make_texts(seed: int) -> Iterator[str]:
    """Texts of random words without end."""
    draw = np.random.default_rng(seed)
    while True:
        for row in np.minimum(draw.zipf(1.3, (1000, LENGTH)), WORDS).tolist():
            yield " ".join(f"w{number}" for number in row)


def measure_million(setup: Setup) -> Iterator[str]:
    """The lines of a run, each as soon as it is known."""
    chunks, folder = CHUNKS if setup.include_slow else FEW, setup.work / "million.clew"
    texts = enumerate(make_texts(seed=0))
    with Engine.open(folder, embedder=PointEmbedder(), settings=SETTINGS) as engine:
        with Searching(engine).run() as searches:
            searches.stage = "adding"
            started = monotonic()
            watch = Watch(searches, chunks)
            engine.add_documents((Document(f"d{n}", text) for n, text in islice(texts, chunks)), on_progress=watch.note)
            spent, graph = monotonic() - started, monotonic() - watch.stored_at
            yield f"added: {chunks:,} chunks in {spent:.0f} s, {chunks / spent:.0f} a second; last graph {graph:.0f} s"
            yield f"processor ms a chunk: {watch.used / chunks:.2f}, graphs {_measure_children() / chunks:.2f}"
            yield f"searches while adding: {searches.describe('adding')}"
            yield f"searches while the last graph was built: {searches.describe('graph')}"
            searches.stage = "after"
            sleep(20 * PAUSE)
            while "no search" in searches.describe("after"):
                sleep(PAUSE)
            yield f"searches after: {searches.describe('after')}; failed in all: {len(searches.failed)}"
        status = engine.status()
        yield f"index: {status.index}, {status.chunks:,} chunks"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield f"memory: {peak:.2f} GB at its peak; disk: {_measure_disk(folder) / chunks / 1e3:.2f} kB a chunk"
    started = monotonic()
    with Engine.open(folder, embedder=PointEmbedder(), settings=SETTINGS) as engine:
        engine.search("w1 w7 w19", k=10)
        first, started = monotonic() - started, monotonic()
        engine.search("w2 w8 w20", k=10)
        yield f"restart: {first:.2f} s to the first search, {(monotonic() - started) * 1e3:.1f} ms for the next"


def _measure_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


def _measure_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
