"""Adding with Ray: the throughput of two workers over twice that of one, on one machine.

With bge-small, which needs all of both cores; and with an embedder that waits as long as that one computes, which shows
what the workers cost one another on a machine that has other work too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

from benchmarks import Measurement, Setup, Skipped
from benchmarks.ingest import HANDBOOK
from clew import Embedder, Engine, Progress
from studies.server import START_OWN, NoServer, open_server

COPIES = 4  # of the sample handbook
MODEL = "bge-small"
WAIT = 0.03  # seconds for each text
ORDER = (1, 2, 2, 1)  # workers of each run, so that a busy moment affects both numbers alike


@dataclass(frozen=True, slots=True)
class Rate:
    """What was added after the first share of each worker, the seconds of it, and the processor's."""

    chunks: int
    seconds: float
    processor: float


def measure_distributed(setup: Setup) -> Iterator[Measurement]:
    """Two workers over twice one, without their start, by the clock; and what a chunk costs the processor."""
    if not HANDBOOK.is_dir():
        raise Skipped(f"needs the sample handbook in {HANDBOOK}")
    try:
        import psutil  # type: ignore[import-untyped]  # noqa: F401
        import ray
    except ImportError as error:
        raise Skipped(f"needs ray and psutil ({error})") from error
    pages = _write_copies(setup.work / "pages")
    rates: dict[tuple[str, int], list[Rate]] = {
        (model, workers): [] for model in (MODEL, "waiting") for workers in (1, 2)
    }
    try:
        with open_server(START_OWN) as url, TemporaryDirectory(prefix="r") as folder:
            ray.init(
                num_cpus=2,
                object_store_memory=100 << 20,
                include_dashboard=False,
                log_to_driver=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=folder,
            )
            try:
                for number, workers in enumerate(ORDER):
                    for name, embedder in ((MODEL, MODEL), ("waiting", make_waiting_embedder())):
                        rate = _measure_rate(url, pages, workers, f"{name}{number}", embedder)
                        rates[name, workers].append(rate)
            finally:
                ray.shutdown()
    except NoServer as error:
        raise Skipped(str(error)) from error
    for name, goal in ((MODEL, "≥ 0.85"), ("waiting", "")):
        one, two = (median(rate.chunks / rate.seconds for rate in rates[name, workers]) for workers in (1, 2))
        note = f"{one:.1f} and {two:.1f} chunks/s"
        yield Measurement(f"two workers / twice one, {name}", two / one / 2, goal, note)
    one, two = (median(1000 * rate.processor / rate.chunks for rate in rates[MODEL, workers]) for workers in (1, 2))
    note = f"{one:.1f} and {two:.1f} ms of the workers' processor time a chunk"
    yield Measurement(f"a chunk of one worker / of two, processor, {MODEL}", one / two, "≥ 0.85", note)


def make_waiting_embedder() -> Embedder:
    """An embedder that waits for each text; its class is sent to the workers."""
    from clew.drivers.embed.hashed import HashedEmbedder

    class Waiting(HashedEmbedder):
        def embed(self, texts: Any, *, role: Any) -> Any:
            sleep(WAIT * len(texts))
            return super().embed(texts, role=role)

    return Waiting()


def _write_copies(folder: Path) -> Path:
    """Copies of the handbook, each page with a word of its own, so that none is like another."""
    folder.mkdir()
    for copy in range(COPIES):
        for number, page in enumerate(sorted(HANDBOOK.rglob("*.md"))):
            text = page.read_text("utf-8")
            (folder / f"{copy}-{number}.md").write_text(f"{text}\n\nCopy {copy}.\n", encoding="utf-8")
    return folder


def _measure_rate(url: str, pages: Path, workers: int, collection: str, embedder: str | Embedder) -> Rate:
    """What is added once every worker has added its first share."""
    seen: list[tuple[int, float, dict[int, float]]] = []

    def note(progress: Progress) -> None:
        if progress.stage == "adding" and progress.chunks:
            seen.append((progress.chunks, perf_counter(), _read_processor_seconds()))

    with Engine.open(url, collection=collection, embedder=embedder) as engine:
        engine.add_distributed(pages, workers=workers, on_progress=note)
    (before, started, first), (after, ended, last) = seen[workers - 1], seen[-1]
    processor = sum(seconds - first.get(process, 0.0) for process, seconds in last.items())
    return Rate(after - before, ended - started, processor)


def _read_processor_seconds() -> dict[int, float]:
    """The processor time of each worker that is running, by its process id."""
    import psutil

    found: dict[int, float] = {}
    for process in psutil.Process().children(recursive=True):
        try:
            if "MapWorker" in " ".join(process.cmdline()):
                times = process.cpu_times()
                found[process.pid] = times.user + times.system
        except psutil.Error:  # it has ended
            continue
    return found
