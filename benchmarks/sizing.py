"""Sizing: rates that are measured here, and what 1 million to a billion chunks take by them.

Rates are core-seconds, not times, so that a busy machine gives the same: of the process that adds, and of the server's
processes, as the kernel counts them. What is extrapolated is linear in the chunks; `ASSUMPTIONS` names the rest.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks import Setup, Skipped
from benchmarks.ingest import HANDBOOK
from clew import Document, Engine, Settings, drivers
from clew.core.protocols import Embedder, Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder
from studies.server import START_OWN, NoServer, open_server

SIZES = (1_000_000, 10_000_000, 100_000_000, 1_000_000_000)  # chunks
STORED = 6_000  # chunks that are stored to measure rates and sizes
LANCE_COPIES = 13  # of the handbook, which are about as many
EMBEDDED = 96  # chunks that are embedded to measure a model
DIM = 384  # of bge-small
GIB = 1 << 30
PARENT, USER, SYSTEM, ENDED = 1, 11, 12, slice(13, 15)  # words of /proc/PID/stat after the name; see proc(5)


@dataclass(frozen=True, slots=True)
class Rates:
    """What one chunk takes, as measured."""

    add: float  # core-seconds of reading, chunking and sending it, without embedding
    server: float  # core-seconds of the server that stores it
    graph: float  # core-seconds of the server that puts it into the graph
    small: float  # core-seconds of embedding it with bge-small
    static: float  # … with wordllama
    table_bytes: float  # of PostgreSQL, without the graph
    graph_bytes: float
    folder_bytes: float  # of the embedded store
    lance: float  # core-seconds of storing it in Lance, with reading, chunking and its part of the indexes
    lance_bytes: float  # of the last version there, with its indexes
    tokens: float  # of bge-small


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is not measured: prices and machines; change them to yours."""

    workers: int = 64  # cores that embed
    memory: float = 64.0  # GiB of a database machine …
    share: float = 0.75  # … of which the graph may take so much
    core_hour: float = 0.04  # dollars
    disk_month: float = 0.10  # dollars for a GiB
    object_month: float = 0.023  # dollars for a GiB of object storage
    machine_month: float = 350.0  # dollars for a database machine
    hosted: float = 0.02  # dollars for a million tokens of a hosted embedder


ASSUMPTIONS = Assumptions()
HEADER = (
    "| chunks | PostgreSQL | of it graph | folder | Lance | core-hours, bge-small | wordllama "
    "| time on 64 cores, bge-small | database machines | embedding | hosted embedder | a month | Lance a month |"
)


def measure_sizing(setup: Setup) -> Iterator[str]:
    """The measured rates and the table that follows from them."""
    rates = measure_rates(setup)
    yield "measured for one chunk: " + ", ".join(
        (
            f"{rates.tokens:.0f} tokens",
            f"{rates.add * 1e3:.2f} core-ms to read, chunk and send",
            f"{rates.server * 1e3:.2f} to store in PostgreSQL",
            f"{rates.graph * 1e3:.2f} for its graph",
            f"{rates.small * 1e3:.1f} to embed with bge-small",
            f"{rates.static * 1e3:.3f} with wordllama",
            f"{rates.table_bytes:.0f} bytes of tables and {rates.graph_bytes:.0f} of graph",
            f"{rates.folder_bytes:.0f} in a folder",
            f"{rates.lance * 1e3:.2f} core-ms to read, chunk and store in Lance with its indexes",
            f"{rates.lance_bytes:.0f} bytes there",
        )
    )
    yield HEADER
    yield "|---" * HEADER.count(" |") + "|"
    for size in SIZES:
        yield make_row(size, rates, ASSUMPTIONS)


def make_row(size: int, rates: Rates, given: Assumptions) -> str:
    """The row of the table for so many chunks."""
    storage, graph = size * (rates.table_bytes + rates.graph_bytes) / GIB, size * rates.graph_bytes / GIB
    around = rates.add + rates.server + rates.graph
    small, static = (size * (around + each) / 3600 for each in (rates.small, rates.static))
    lance = size * rates.lance_bytes / GIB
    machines = max(1, ceil(graph / (given.memory * given.share)))
    cells = (
        f"{size:,}",
        _format_bytes(storage),
        _format_bytes(graph),
        _format_bytes(size * rates.folder_bytes / GIB),
        _format_bytes(lance),
        f"{small:,.0f}",
        f"{static:,.0f}",
        _format_hours(size * rates.small / 3600 / given.workers),
        f"{machines:,}",
        f"${small * given.core_hour:,.0f}",
        f"${size * rates.tokens / 1e6 * given.hosted:,.0f}",
        f"${machines * given.machine_month + storage * given.disk_month:,.0f}",
        f"${lance * given.object_month:,.0f}",
    )
    return f"| {' | '.join(cells)} |"


def measure_rates(setup: Setup) -> Rates:
    """The rates, from copies of the sample handbook."""
    if not HANDBOOK.is_dir() or not Path("/proc/self/stat").exists():
        raise Skipped(f"needs the sample handbook in {HANDBOOK}, and Linux for the core-seconds of a server")
    pages = [(path.stem, path.read_text("utf-8")) for path in sorted(HANDBOOK.rglob("*.md"))]
    try:
        with open_server(START_OWN) as url:
            return _measure_on(url, pages, setup)
    except NoServer as error:
        raise Skipped(str(error)) from error


class _RandomEmbedder(HashedEmbedder):
    """Another vector each time: a graph keeps equal ones, as copies have, only once."""

    def __init__(self) -> None:
        super().__init__(DIM)
        self._random = np.random.default_rng(3)

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:  # noqa: ARG002
        """Unit vectors in all directions."""
        made = self._random.standard_normal((len(texts), DIM), np.float32)
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def _measure_on(url: str, pages: Sequence[tuple[str, str]], setup: Setup) -> Rates:
    model, defaults = _RandomEmbedder(), Settings()
    settings = replace(defaults, store=replace(defaults.store, exact_below=STORED * 100))  # no graph yet
    with Engine.open(url, embedder=model, settings=settings) as engine:
        store: Any = engine.opened.store
        list(_add_copies(engine, pages, 50))  # pages of memory, plans, the first of everything
        before, server, own = engine.status().chunks, _read_server_seconds(store), process_time()
        texts = list(_add_copies(engine, pages, STORED))
        chunks = engine.status().chunks - before
        own, server = process_time() - own, _read_server_seconds(store) - server
        tables = _read_bytes(store)
    settings = replace(defaults, store=replace(defaults.store, exact_below=1000))
    with Engine.open(url, embedder=model, settings=settings) as engine:
        store = engine.opened.store
        started = _read_server_seconds(store)
        store.flush()  # builds the graph
        total = engine.status().chunks
        built, grown = _read_server_seconds(store) - started, _read_bytes(store) - tables
    with Engine.open(setup.work / "folder", embedder=model) as engine:
        list(_add_copies(engine, pages, STORED // 2))
        folder = sum(file.stat().st_size for file in (setup.work / "folder").rglob("*") if file.is_file())
        in_folder = engine.status().chunks
    lance, lance_bytes = _measure_lance(setup.work / "lake", model, pages, settings)
    sample = texts[:: max(1, len(texts) // EMBEDDED)][:EMBEDDED]
    counter = drivers.make_embedder(EmbedderConfig(name="bge-small"))
    return Rates(
        add=own / chunks,
        server=server / chunks,
        graph=built / total,
        small=_time_embedding("bge-small", sample, EMBEDDED) / len(sample),
        static=_time_embedding("wordllama", texts, 2000) / min(2000, len(texts)),
        table_bytes=tables / total,
        graph_bytes=grown / total,
        folder_bytes=folder / in_folder,
        lance=lance,
        lance_bytes=lance_bytes,
        tokens=sum(counter.count(sample)) / len(sample),
    )


def _add_copies(engine: Engine, pages: Sequence[tuple[str, str]], chunks: int) -> Iterator[str]:
    """Adds copies of the pages, each its own document, until there are so many chunks more; their texts."""
    wanted, copy = engine.status().chunks + chunks, 0
    first = engine.status().documents
    while engine.status().chunks < wanted:
        made = _make_copy(pages, f"{first}-{copy}")
        engine.add_documents(made)
        copy += 1
        for each in made:
            yield from (chunk.embed_text for chunk in engine.opened.store.chunks(each.id))


def _make_copy(pages: Sequence[tuple[str, str]], number: str) -> list[Document]:
    return [Document(f"{name}-{number}", f"{text}\n\ncopy {number}", ()) for name, text in pages]


def _measure_lance(
    lake: Path, model: Embedder, pages: Sequence[tuple[str, str]], settings: Settings
) -> tuple[float, float]:
    """The core-seconds and the bytes of a chunk in Lance, all of it added at once, with its indexes."""
    copies = range(LANCE_COPIES)
    with Engine.open(f"lance://{lake}", embedder=model, settings=settings) as engine:
        started = process_time()
        engine.add_documents(page for copy in copies for page in _make_copy(pages, str(copy)))
        spent, chunks = process_time() - started, engine.status().chunks
        size = engine.opened.store.stats().bytes
    indexes = sum(file.stat().st_size for file in lake.rglob("_indices/**/*") if file.is_file())
    return spent / chunks, (size + indexes) / chunks


def _time_embedding(name: str, texts: Sequence[str], count: int) -> float:
    """The core-seconds of embedding some texts, on one core."""
    with _one_thread():
        model = drivers.make_embedder(EmbedderConfig(name=name))
        model.embed(texts[:4], role="passage")
        started = process_time()
        model.embed(texts[:count], role="passage")
        return process_time() - started


@contextmanager
def _one_thread() -> Iterator[None]:
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _read_server_seconds(store: Any) -> float:
    """The core-seconds of the server: of its processes, and of those that have ended, which the first one counts."""
    found = [_read_stat(pid) for (pid,) in store._backend._pool.fetch_rows("SELECT pid FROM pg_stat_activity")]
    alive = [words for words in found if words]
    first = _read_stat(alive[0][PARENT])
    ticks = sum(int(words[USER]) + int(words[SYSTEM]) for words in (*alive, first))
    return (ticks + sum(map(int, first[ENDED]))) / os.sysconf("SC_CLK_TCK")


def _read_stat(pid: int | str) -> list[str]:
    """What the kernel says of a process, after its name; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return []


def _read_bytes(store: Any) -> int:
    sql = "SELECT sum(pg_total_relation_size(oid))::int8 FROM pg_class"
    ((size,),) = store._backend._pool.fetch_rows(f"{sql} WHERE relnamespace = 'clew'::regnamespace AND relkind = 'r'")
    return int(size)


def _format_bytes(gib: float) -> str:
    return f"{gib:,.0f} GiB" if gib < 2000 else f"{gib / 1024:,.0f} TiB"


def _format_hours(hours: float) -> str:
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"
