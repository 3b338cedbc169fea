"""`python -m benchmarks [NAME …] [--data FOLDER] [--long]`: runs benchmarks and prints their ratios."""

import argparse
import tempfile
from pathlib import Path

from benchmarks import Bench, Setup, Skipped
from benchmarks.context import context_over_search
from benchmarks.ingest import add_over_embedding, memory_of_adding, second_add
from benchmarks.messages import one_message
from benchmarks.moving import memory_of_moving
from benchmarks.postgres import both_stores
from benchmarks.reading import chunking, pdf, sheet
from benchmarks.search import hybrid_large, hybrid_small
from benchmarks.startup import help_over_empty
from benchmarks.strategies import many_over_single, over_calls

BENCHES: dict[str, Bench] = {
    "help": help_over_empty,
    "add": add_over_embedding,
    "again": second_add,
    "memory": memory_of_adding,
    "messages": one_message,
    "chunking": chunking,
    "pdf": pdf,
    "sheet": sheet,
    "search": hybrid_small,
    "search-100k": hybrid_large,
    "context": context_over_search,
    "strategies": over_calls,
    "search-many": many_over_single,
    "postgres": both_stores,
    "moving": memory_of_moving,
}


def main() -> None:
    """Prints a line for every ratio."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Ratios against a raw floor, from one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default all): {', '.join(BENCHES)}")
    parser.add_argument("--data", type=Path, default=None, help="the folder that holds the benchmark sets")
    parser.add_argument("--long", action="store_true", help="also what takes many minutes")
    given = parser.parse_args()
    for name in given.names:
        if name not in BENCHES:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(BENCHES)}")
    for name in given.names or BENCHES:
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as work:
            try:
                for line in BENCHES[name](Setup(given.data, Path(work), given.long)):
                    print(line, flush=True)
            except Skipped as reason:
                print(f"{name}: skipped, {reason}", flush=True)


if __name__ == "__main__":
    main()
