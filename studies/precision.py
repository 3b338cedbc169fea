"""`python -m studies.precision --data FOLDER`: what do shorter vectors (`embedder.dim`) and int8 ones cost?

The same questions with whole vectors, with the first numbers of each, and with a byte per number; nDCG@10 by meaning
and by `hybrid`, the bytes of a chunk's vector, and those of a chunk with all that is kept of it, in a folder. bge-small
was not trained for its vectors to be cut.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from clew import Engine, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig
from studies.judged import SETS, JudgedSet, take_part
from studies.measures import bootstrap, ndcg_at
from studies.sets import report_missing_set
from studies.strategies import SETTINGS

STRATEGIES = ("semantic", "hybrid")


def list_configs(name: str, cache: str, dims: Sequence[int]) -> list[EmbedderConfig]:
    """Whole and cut vectors, each with four bytes a number and with one."""
    return [EmbedderConfig(name, cache=cache, dim=dim, int8=int8) for dim in dims for int8 in (False, True)]


def measure_set(data: JudgedSet, embedder: Embedder) -> tuple[Mapping[str, list[float]], float]:
    """nDCG@10 of each question by strategy, and the bytes on disk of a chunk."""
    values: dict[str, list[float]] = {name: [] for name in STRATEGIES}
    with TemporaryDirectory() as folder:
        with Engine.open(folder, embedder=embedder, settings=SETTINGS) as engine:
            engine.add_documents(data.documents)
            chunks = engine.status().chunks
            for id_, question in data.questions.items():
                for name, found in values.items():
                    hits = data.name_hits(engine.search(question, k=10, strategy=name))
                    found.append(ndcg_at(10, hits, data.grades[id_]))
        return values, measure_folder(folder) / chunks


def measure_folder(folder: str) -> int:
    """The bytes of all files in a folder, without SQLite's shared memory; nobody has it open, so its log is empty."""
    files = [path for path in Path(folder).rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return sum(path.stat().st_size for path in files)


def parse_parts(text: str, sets: Sequence[str]) -> dict[str, int]:
    """The number for each set: "4" for all, or "clapnq:4,cosqa:10"."""
    if text.isdecimal():
        return dict.fromkeys(sets, int(text))
    given = dict(part.split(":") for part in text.split(","))
    return {name: int(given.get(name, 1)) for name in sets}


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one row per set, length and precision."""
    parser = argparse.ArgumentParser(prog="studies.precision", description="Shorter and smaller vectors.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--sets", default="xquad-en,scifact")
    parser.add_argument("--every", default="1", help="ask every nth question, of all sets or as set:n,set:n")
    parser.add_argument("--share", default="1", help="keep every nth document without an answer, likewise")
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--dims", default="0,256,128", help="numbers of a vector; 0: all")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    sets = given.sets.split(",")
    every, share = parse_parts(given.every, sets), parse_parts(given.share, sets)
    heads = " | ".join(f"{name} | lead" for name in STRATEGIES)
    print(f"| set | questions | embedder | bytes of a vector | of a chunk on disk | {heads} |\n{'|---' * 9}|")
    for name in sets:
        data = take_part(SETS[name](given.data), every[name], share[name])
        whole: Mapping[str, list[float]] = {}
        for config in list_configs(given.embedder, given.cache, [int(dim) for dim in given.dims.split(",")]):
            embedder = drivers.make_embedder(config)
            values, size = measure_set(data, embedder)
            whole = whole or values
            cells = " | ".join(
                f"{100 * fmean(found):.2f} | {'' if values is whole else bootstrap(found, whole[strategy])}"
                for strategy, found in values.items()
            )
            stored = embedder.dim * (1 if config.int8 else 4)
            row = f"{data.name} | {len(data.questions)} | {embedder.name} | {stored} | {size:,.0f} | {cells}"
            print(f"| {row} |", flush=True)


if __name__ == "__main__":
    main()
