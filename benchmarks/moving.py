"""The memory of moving a collection: a process that exports or restores one must not need more for a larger one.

What counts is the memory of the process itself. Pages of the database that it looks at where they are, in the file, are
the system's, which takes them back when it needs them.
"""

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks import Line, Setup, Skipped
from benchmarks.corpus import many
from clew import Engine
from clew.core.text import terms
from clew.core.types import Chunk, Document

FEW, MANY = 10_000, 50_000  # chunks
EACH = 10  # chunks of a document
STATUS = Path("/proc/self/status")
LOOK = 0.01  # seconds


def memory_of_moving(setup: Setup) -> Sequence[Line]:
    """The peak memory of `export` and `restore` at 50,000 chunks, and over that at 10,000."""
    if not STATUS.exists():
        raise Skipped("tells memory of its own from that of files by /proc, which only Linux has")
    texts = [each.text for each in many(setup, MANY)]
    lines, peaks = [], dict[tuple[str, int], float]()
    for size in (FEW, MANY):
        collection, file = setup.work / f"from-{size}", setup.work / f"{size}.zip"
        _fill(collection, texts[:size])
        for verb, place in (("export", collection), ("restore", setup.work / f"to-{size}")):
            command = [sys.executable, "-m", __name__, verb, str(place), str(file)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            peaks[verb, size] = float(done.stdout)
    for verb in ("export", "restore"):
        lines.append(Line(f"peak memory of {verb}, {MANY:,} chunks, GB", peaks[verb, MANY], "≤ 1"))
        lines.append(Line(f"… / of {FEW:,} chunks", peaks[verb, MANY] / peaks[verb, FEW], "≤ 1.2"))
    return lines


def _fill(collection: Path, texts: Sequence[str]) -> None:
    with Engine.open(collection, embedder="wordllama") as engine:
        vectors = engine._embedder.embed(texts, role="passage")
        for at in range(0, len(texts), EACH):
            some, name = texts[at : at + EACH], f"d{at}"
            chunks = [Chunk(f"{name}/{n}", name, n, len(some), text, 0, len(text)) for n, text in enumerate(some)]
            document = Document(name, "\n".join(some), uri=name)
            engine._store.put(document, chunks, vectors[at : at + EACH], [terms(text) for text in some])


def _peak(verb: str, collection: Path, file: Path) -> float:
    """The most memory of its own that this process had while it exported or restored, in GB."""
    most, done = [_own()], threading.Event()

    def watch() -> None:
        while not done.wait(LOOK):
            most[0] = max(most[0], _own())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with Engine.open(collection, embedder="wordllama") as engine:
            (engine.export if verb == "export" else engine.restore)(file)
    finally:
        done.set()
        watcher.join()
    return most[0]


def _own() -> float:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) / 1e6


if __name__ == "__main__":
    print(_peak(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
