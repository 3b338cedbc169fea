"""The memory of moving a collection: a process that exports or restores one must not need more for a larger one.

What counts is the memory of the process itself. Pages of the database that it looks at where they are, in the file, are
the system's, which takes them back when it needs them.
"""

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks import Measurement, Setup, Skipped
from benchmarks.corpus import load_texts
from clew import Engine
from clew.core.text import extract_terms
from clew.core.types import Chunk, Document

SMALL_SIZE, LARGE_SIZE = 10_000, 50_000  # chunks
CHUNKS_PER_DOCUMENT = 10  # chunks of a document
STATUS = Path("/proc/self/status")
SAMPLE_SECONDS = 0.01  # seconds


def measure_transfer_memory(setup: Setup) -> Sequence[Measurement]:
    """The peak memory of `export` and `restore` at 50,000 chunks, and over that at 10,000."""
    if not STATUS.exists():
        raise Skipped("tells memory of its own from that of files by /proc, which only Linux has")
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
            some, name = texts[at : at + CHUNKS_PER_DOCUMENT], f"d{at}"
            chunks = [Chunk(f"{name}/{n}", name, n, len(some), text, 0, len(text)) for n, text in enumerate(some)]
            document = Document(name, "\n".join(some), uri=name)
            engine.opened.store.put(
                document, chunks, vectors[at : at + CHUNKS_PER_DOCUMENT], [extract_terms(text) for text in some]
            )


def _measure_peak(verb: str, collection: Path, file: Path) -> float:
    """The most memory of its own that this process had while it exported or restored, in GB."""
    most, done = [_read_own_memory()], threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            most[0] = max(most[0], _read_own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with Engine.open(collection, embedder="wordllama") as engine:
            (engine.export if verb == "export" else engine.restore)(file)
    finally:
        done.set()
        watcher.join()
    return most[0]


def _read_own_memory() -> float:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) / 1e6


if __name__ == "__main__":
    print(_measure_peak(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
