"""A shard with its graph, built from the truth in a process of its own.

qdrant-edge keeps the interpreter to itself while it builds a graph, a minute for 100,000 chunks; a server would not
answer meanwhile. So the child builds a new shard in a new folder, and the parent goes on with the old one until then.
"""

import logging
import subprocess
import sys
import uuid
from pathlib import Path

from clew.drivers.store.embedded.checkpoint import Mark
from clew.drivers.store.embedded.shard import BrokenIndex, ShardIndex
from clew.drivers.store.embedded.signals import State
from clew.drivers.store.embedded.truth import Truth

LEAST = 2_000  # fewer loose rows than this are scanned faster than a graph is built
SHARE = 5  # a graph is built anew when one row in this many is loose
DRIFT = 1.5  # … or when the average length is this many times what the stored weights were made with

log = logging.getLogger(__name__)


def due(mark: Mark | None, state: State) -> bool:
    """Whether a new shard would be searched much faster than the one of a mark, or than none."""
    if mark is None:
        return state.chunks > LEAST
    drift = max(1.0, state.average) / mark.average
    loose = mark.loose + state.last - mark.row
    return state.chunks > LEAST and (loose > max(LEAST, state.chunks // SHARE) or not 1 / DRIFT < drift < DRIFT)


def fresh(home: Path) -> Path:
    """The path of a folder for a new shard."""
    return home / f"shard-{uuid.uuid4().hex[:12]}"


def built(collection: Path, target: Path, truth: Truth) -> bool:
    """Whether a new shard with its graph now stands in a folder; the reason why not is logged."""
    command = [sys.executable, "-m", __name__, str(collection), str(target), truth.embedder, str(truth.dim)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        log.warning("%s: no graph was built, searches scan instead: %s", collection, said.strip()[-500:])
        return False
    return True


def build(collection: Path, target: Path, *, embedder: str, dim: int) -> None:
    """Fills a new shard with all that the truth has, and builds its graph."""
    truth = Truth(collection, embedder=embedder, dim=dim)
    try:
        state = truth.state()
        index = ShardIndex(target, truth, Mark(state.birth, dim, max(1.0, state.average), change=state.change))
        index.follow(state)
        index.optimise()
        index.close()
    finally:
        truth.close()


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]), Path(sys.argv[2]), embedder=sys.argv[3], dim=int(sys.argv[4]))
    except BrokenIndex as error:
        sys.exit(str(error))
