"""Adding with Ray: the throughput of two workers over twice that of one, on one machine."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks import Measurement, Setup, Skipped
from benchmarks.ingest import HANDBOOK
from clew import Engine, Progress
from studies.server import START_OWN, NoServer, open_server

COPIES = 12  # of the sample handbook
MODEL = "bge-small"


def measure_distributed(setup: Setup) -> Iterator[Measurement]:
    """Two workers over twice one, without their start: what is added after the first share of each."""
    if not HANDBOOK.is_dir():
        raise Skipped(f"needs the sample handbook in {HANDBOOK}")
    try:
        import ray
    except ImportError as error:
        raise Skipped(f"needs ray ({error})") from error
    pages = _write_copies(setup.work / "pages")
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
                rates = {workers: _measure_rate(url, pages, workers) for workers in (1, 2)}
            finally:
                ray.shutdown()
    except NoServer as error:
        raise Skipped(str(error)) from error
    note = f"{rates[1]:.1f} and {rates[2]:.1f} chunks/s"
    yield Measurement(f"two workers / twice one, {MODEL}", rates[2] / rates[1] / 2, "≥ 0.85", note)


def _write_copies(folder: Path) -> Path:
    """Copies of the handbook, each page with a word of its own, so that none is like another."""
    folder.mkdir()
    for copy in range(COPIES):
        for number, page in enumerate(sorted(HANDBOOK.rglob("*.md"))):
            text = page.read_text("utf-8")
            (folder / f"{copy}-{number}.md").write_text(f"{text}\n\nCopy {copy}.\n", encoding="utf-8")
    return folder


def _measure_rate(url: str, pages: Path, workers: int) -> float:
    """The chunks that are added each second once every worker has added its first share."""
    seen: list[tuple[float, int]] = []

    def note(progress: Progress) -> None:
        if progress.stage == "adding" and progress.chunks:
            seen.append((perf_counter(), progress.chunks))

    with Engine.open(url, collection=f"workers{workers}", embedder=MODEL) as engine:
        engine.add_distributed(pages, workers=workers, on_progress=note)
    (started, before), (ended, after) = seen[workers - 1], seen[-1]
    return (after - before) / (ended - started)
