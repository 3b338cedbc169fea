"""Peak memory of export and restore: it must not grow with the size of the collection.

Only anonymous memory of the process counts. Memory-mapped pages of the database belong to the page cache, which the
system reclaims when it needs to.
"""

import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from benchmarks import Measurement, Setup, Skipped
from benchmarks.corpus import load_texts
from clew import Engine
from clew.core.text import extract_terms
from clew.core.types import Chunk, Document

SMALL_SIZE, LARGE_SIZE = 10_000, 50_000  # chunks
CHUNKS_PER_DOCUMENT = 10  # of a document
STATUS = Path("/proc/self/status")
SAMPLE_SECONDS = 0.01  # seconds


def measure_transfer_memory(setup: Setup) -> Sequence[Measurement]:
    """The peak memory of `export` and `restore` at 50,000 chunks, and its ratio to that at 10,000."""
    if not STATUS.exists():
        raise Skipped("needs /proc to tell anonymous memory from mapped files, which only Linux has")
    texts = [each.text for each in load_texts(setup, LARGE_SIZE)]
    lines, peaks = [], dict[tuple[str, int], float]()
    for size in (SMALL_SIZE, LARGE_SIZE):
        collection, file = setup.work / f"from-{size}", setup.work / f"{size}.zip"
        _fill_collection(collection, texts[:size])
        for verb, place in (("export", collection), ("restore", setup.work / f"to-{size}")):
            command = [sys.executable, "-m", __name__, verb, str(place), str(file)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            peaks[verb, size] = float(done.stdout)
    for verb in ("export", "restore"):
        lines.append(Measurement(f"peak memory of {verb}, {LARGE_SIZE:,} chunks, GB", peaks[verb, LARGE_SIZE], "≤ 1"))
        lines.append(
            Measurement(f"… / of {SMALL_SIZE:,} chunks", peaks[verb, LARGE_SIZE] / peaks[verb, SMALL_SIZE], "≤ 1.2")
        )
    return lines


def _fill_collection(collection: Path, texts: Sequence[str]) -> None:
    with Engine.open(collection, embedder="wordllama") as engine:
        vectors = engine.opened.embedder.embed(texts, role="passage")
        for at in range(0, len(texts), CHUNKS_PER_DOCUMENT):
            batch, name = texts[at : at + CHUNKS_PER_DOCUMENT], f"d{at}"
            starts = accumulate((len(text) + 1 for text in batch), initial=0)
            chunks = [
                Chunk(f"{name}/{n}", name, n, len(batch), text, start, start + len(text))
                for n, (text, start) in enumerate(zip(batch, starts, strict=False))
            ]
            document = Document(name, "\n".join(batch), uri=name)
            engine.opened.store.put(
                document, chunks, vectors[at : at + CHUNKS_PER_DOCUMENT], [extract_terms(text) for text in batch]
            )


def _measure_peak(verb: str, collection: Path, file: Path) -> float:
    """The peak anonymous memory of this process while it exports or restores, in GB."""
    peak, done = [_read_own_memory()], threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], _read_own_memory())

    watcher = threading.Thread(target=sample)
    watcher.start()
    try:
        with Engine.open(collection, embedder="wordllama") as engine:
            (engine.export if verb == "export" else engine.restore)(file)
    finally:
        done.set()
        watcher.join()
    return peak[0]


def _read_own_memory() -> float:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) / 1e6


if __name__ == "__main__":
    print(_measure_peak(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
