"""Startup: `clew --help` over the help of an empty application, to see that nothing heavy is imported."""

import subprocess
import sys
from collections.abc import Sequence

from benchmarks import Measurement, Setup, p50, time_interleaved

EMPTY = """
import typer
app = typer.Typer()
@app.callback()
def main() -> None: ...
@app.command()
def nothing() -> None: ...
app()
"""


def measure_help(setup: Setup) -> Sequence[Measurement]:
    """The time of our help over that of an empty application, each in a process of its own."""
    script = setup.work / "empty.py"
    script.write_text(EMPTY, encoding="utf-8")

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments, "--help"], check=True, capture_output=True)

    ours, empty = time_interleaved(lambda _: run("-m", "clew"), lambda _: run(str(script)), rounds=15)
    return [Measurement("clew --help / help of an empty typer application", p50(ours) / p50(empty), "≤ 1.3")]
