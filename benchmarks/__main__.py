"""`python -m benchmarks [NAME …] [--data FOLDER] [--chunks N] [--long] [--keep]`: prints ratios."""

import argparse
import tempfile
from pathlib import Path

from benchmarks import Benchmark, Measurement, Setup, Skipped, history
from benchmarks.context import measure_context
from benchmarks.distributed import measure_distributed
from benchmarks.filters import measure_filters
from benchmarks.ingest import measure_add, measure_add_given, measure_add_memory, measure_second_add
from benchmarks.labels import measure_labels
from benchmarks.long_threads import measure_long_threads
from benchmarks.messages import measure_add_message
from benchmarks.million import measure_million
from benchmarks.moving import measure_transfer_memory
from benchmarks.page import measure_page
from benchmarks.peers.run import measure_peers
from benchmarks.postgres import measure_stores
from benchmarks.reading import measure_chunking, measure_pdf, measure_sheet
from benchmarks.search import measure_hybrid_large, measure_hybrid_small
from benchmarks.server import measure_server
from benchmarks.sizing import measure_sizing
from benchmarks.startup import measure_cold_search, measure_help
from benchmarks.stores import measure_three_stores
from benchmarks.strategies import measure_overhead, measure_search_many

BENCHMARKS: dict[str, Benchmark] = {
    "help": measure_help,
    "cold": measure_cold_search,
    "add": measure_add,
    "given": measure_add_given,
    "again": measure_second_add,
    "memory": measure_add_memory,
    "messages": measure_add_message,
    "threads": measure_long_threads,
    "chunking": measure_chunking,
    "pdf": measure_pdf,
    "sheet": measure_sheet,
    "search": measure_hybrid_small,
    "search-100k": measure_hybrid_large,
    "million": measure_million,
    "context": measure_context,
    "strategies": measure_overhead,
    "search-many": measure_search_many,
    "filters": measure_filters,
    "postgres": measure_stores,
    "stores": measure_three_stores,
    "labels": measure_labels,
    "moving": measure_transfer_memory,
    "server": measure_server,
    "page": measure_page,
    "sizing": measure_sizing,
    "ray": measure_distributed,
    "peers": measure_peers,
}
ONLY_NAMED = {"peers", "ray", "million"}  # other frameworks are installed, a cluster is started, hours pass
# minutes each: with --long, or by name
SLOW = {"search-100k", "stores", "memory", "moving", "threads", "server", "page", "filters"}


def main() -> None:
    """Prints one line per measurement."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Ratios to a raw floor, from one run.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"which ones (default all that take no more than minutes): {', '.join(BENCHMARKS)}",
    )
    parser.add_argument("--data", type=Path, default=None, help="the folder that holds the benchmark sets")
    parser.add_argument("--chunks", type=int, default=None, help="how many chunks, for `stores`")
    parser.add_argument("--long", action="store_true", help="also run what takes many minutes")
    parser.add_argument("--keep", action="store_true", help="add the run to the history and to the table in the docs")
    given = parser.parse_args()
    for name in given.names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    measured: list[Measurement] = []
    left_out = ONLY_NAMED if given.long else ONLY_NAMED | SLOW
    for name in given.names or [each for each in BENCHMARKS if each not in left_out]:
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as work:
            try:
                for line in BENCHMARKS[name](Setup(given.data, Path(work), given.long, given.chunks)):
                    print(line, flush=True)
                    measured += [line] if isinstance(line, Measurement) else []
            except Skipped as reason:
                print(f"{name}: skipped, {reason}", flush=True)
    run = history.make_run(measured)
    for warning in history.find_worse(run, history.read_history()):
        print(warning, flush=True)
    if given.keep:
        history.append_run(run)
        history.write_table(run)


if __name__ == "__main__":
    main()
