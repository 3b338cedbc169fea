"""The write path: adding over embedding alone, adding again over adding, and peak memory."""

import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, cast

from benchmarks import Measurement, Setup, Skipped, time_call
from benchmarks.corpus import load_scifact, load_texts
from benchmarks.million import PointEmbedder
from clew import Engine, drivers
from clew.core.protocols import Embedder, Role
from clew.core.settings import EmbedderConfig
from clew.core.types import Document, Matrix

HANDBOOK = Path(__file__).parents[1] / "examples" / "handbook"


def measure_add(setup: Setup) -> Sequence[Measurement]:
    """The time of `add` over embedding the same chunks alone, and over all its embedding calls."""
    if not HANDBOOK.is_dir():
        raise Skipped(f"needs the sample handbook in {HANDBOOK}")
    part, whole = HANDBOOK / "engineering", HANDBOOK
    return [
        *_measure_add(setup, "bge-small", part, rounds=3, goal="≤ 1.10"),
        *_measure_add(setup, "wordllama", whole, rounds=7, goal="≤ 3"),
    ]


class RecordingEmbedder:
    """An embedder that notes what it embeds."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner
        self.calls: list[Callable[[], object]] = []

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """The vectors of the texts; how to make them again is noted."""
        self.calls.append(partial(self.inner.embed, texts, role=role))
        return self.inner.embed(texts, role=role)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def _measure_add(setup: Setup, model: str, folder: Path, *, rounds: int, goal: str) -> list[Measurement]:
    adding, chunks_alone, calls_alone, count = [], [], [], 0
    for round_ in range(rounds):
        embedder = RecordingEmbedder(drivers.make_embedder(EmbedderConfig(name=model)))
        with Engine.open(setup.work / f"{model}-{round_}", embedder=cast("Embedder", embedder)) as engine:
            adding.append(time_call(partial(engine.add, folder)))
            chunks = [chunk.embed_text for chunk in engine.opened.store.scan()]
            chunks_alone.append(time_call(lambda: embedder.inner.embed(chunks, role="passage")))  # noqa: B023
            calls_alone.append(time_call(lambda: [call() for call in embedder.calls]))  # noqa: B023
            count = len(chunks)
    note = f"{count} chunks, best of {rounds}"
    others = "its embedding calls, of summaries and the calibration too"
    return [
        Measurement(f"add / embedding its chunks alone, {model}", min(adding) / min(chunks_alone), goal, note),
        Measurement(f"add / {others}, {model}", min(adding) / min(calls_alone)),
    ]


def measure_add_given(setup: Setup) -> Sequence[Measurement]:
    """The processor time of a document of `add_documents` where vectors cost nothing; a document is one chunk."""
    corpus, _ = load_scifact(setup)
    spent = []
    for round_ in range(3):
        with Engine.open(setup.work / f"given-{round_}", embedder=PointEmbedder()) as engine:
            started = process_time()
            engine.add_documents([Document(each.id, each.text.strip()) for each in corpus])
            spent.append((process_time() - started) / len(corpus) * 1e3)
    name = f"processor ms a document of add, {len(corpus):,} documents, vectors given"
    return [Measurement(name, min(spent), "≤ 0.8", "best of 3; the first of them meets every word anew")]


def measure_second_add(setup: Setup) -> Sequence[Measurement]:
    """The time of adding an unchanged folder again over adding it the first time."""
    corpus, _ = load_scifact(setup)
    folder = setup.work / "scifact"
    folder.mkdir()
    for text in corpus:
        (folder / f"{text.id}.md").write_text(text.text, encoding="utf-8")
    lines = []
    for model in ("wordllama", "bge-small") if setup.include_slow else ("wordllama",):
        with Engine.open(setup.work / f"{model}.clew", embedder=model) as engine:
            first = time_call(lambda engine=engine: engine.add(folder))  # type: ignore[misc]
            again = min(time_call(lambda engine=engine: engine.add(folder)) for _ in range(5))  # type: ignore[misc]
            if engine.add(folder).skipped != len(corpus):
                raise AssertionError("an unchanged document was not skipped")
        lines.append(Measurement(f"second add / first, {len(corpus)} files, {model}", again / first, "≤ 0.02"))
    return lines


def measure_add_memory(setup: Setup) -> Sequence[Measurement]:
    """The peak memory of a process that adds 50,000 short documents."""
    texts = load_texts(setup, 50_000)
    source = setup.work / "texts.txt"
    source.write_text("\n".join(text.text.replace("\n", " ") for text in texts), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ingest", str(source), str(setup.work / "many.clew")],
        check=True,
        capture_output=True,
        text=True,
    )
    return [Measurement("peak memory of adding 50,000 short documents, GB, wordllama", float(done.stdout), "≤ 1")]


def _add_lines(source: Path, collection: Path) -> float:
    """Adds each line of a file as a document; returns the peak memory of this process in GB."""
    with Engine.open(collection, embedder="wordllama") as engine, source.open(encoding="utf-8") as lines:
        engine.add_documents(Document(f"d{number}", line) for number, line in enumerate(lines))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    print(_add_lines(Path(sys.argv[1]), Path(sys.argv[2])))
