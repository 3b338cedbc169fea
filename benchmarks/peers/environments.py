"""The environments of the peers: made once in an ignored folder, from pinned requirements."""

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".peers"


@dataclass(frozen=True, slots=True)
class Peer:
    """A side, the module that runs it, and the distribution whose version is shown."""

    name: str
    side: str
    distribution: str


FLOOR = Peer("floor (numpy + bm25s)", "floor", "bm25s")
CLEW = Peer("Clew", "with_clew", "clew")
PEERS = (
    FLOOR,
    CLEW,
    Peer("LanceDB", "with_lancedb", "lancedb"),
    Peer("LangChain", "with_langchain", "langchain-core"),
    Peer("LlamaIndex", "with_llamaindex", "llama-index-core"),
    Peer("Haystack", "with_haystack", "haystack-ai"),
)


class NotInstalled(Exception):
    """A peer that cannot be installed here, and why."""


def make_environment(peer: Peer) -> Path:
    """The environment's folder; it is made again when its requirements have changed."""
    short = peer.side.removeprefix("with_")
    folder, stamp = FOLDER / short, FOLDER / short / ".made"
    if peer is CLEW:  # as installed by a user: without extras, from this source
        needs = [str(ROOT), "--constraint", str(ROOT / "requirements/run.txt"), "--reinstall-package", "clew"]
        made_of = (ROOT / "pyproject.toml").read_bytes() + str(sum(_list_times(ROOT / "src"))).encode()
    else:
        file = Path(__file__).with_name(f"requirements-{short}.txt")
        needs, made_of = ["--requirement", str(file)], file.read_bytes()
    key = hashlib.sha256(made_of).hexdigest()
    if not stamp.is_file() or stamp.read_text() != key:
        _run_uv("venv", "--quiet", "--clear", "--python", str(ROOT / ".venv/bin/python"), str(folder))
        _run_uv(
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",
            "--link-mode",
            "copy",
            "--python",
            str(folder / "bin/python"),
            *needs,
        )
        stamp.write_text(key)
    return folder


def measure_size(environment: Path) -> float:
    """The MB of what is installed, without compiled modules."""
    files = (each for each in environment.glob("lib/*/site-packages/**/*") if each.suffix != ".pyc")
    return sum(each.stat().st_size for each in files if each.is_file()) / 1e6


def find_version(environment: Path, distribution: str) -> str:
    """The version that is installed."""
    code = f"from importlib.metadata import version; print(version({distribution!r}))"
    python = environment / "bin/python"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def count_lines(side: str) -> int:
    """The lines of a side that hold code: no blank line, comment or docstring."""
    import ast

    source = Path(__file__).with_name("sides") / f"{side}.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.read_text(encoding="utf-8").splitlines(), 1)
    return sum(
        1 for number, line in lines if line.strip() and not line.strip().startswith("#") and number not in skipped
    )


def _list_times(folder: Path) -> list[int]:
    return [each.stat().st_mtime_ns for each in sorted(folder.rglob("*.py"))]


def _run_uv(*arguments: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        ["sh", "scripts/uv.sh", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise NotInstalled(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"uv {arguments[0]} failed")
