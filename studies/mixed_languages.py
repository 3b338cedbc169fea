"""`python -m studies.mixed_languages --data FOLDER`: does a collection in several languages gain by two embedders?

The paragraphs of XQuAD in English, German and Chinese are one collection, and each question is asked in each of the
three. What answers it is its paragraph, in whichever language. nDCG@10.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import fmean

from clew import Engine, Hit, drivers
from clew.core.settings import EmbedderConfig
from studies.asked import load_part
from studies.late import BARE_SETTINGS
from studies.measures import bootstrap, ndcg_at
from studies.sets import report_missing_set

LANGUAGES = ("en", "de", "zh")
STRATEGIES = ("semantic", "hybrid")


def make_rows(folder: Path, embedders: Sequence[str], *, questions: int, cache: str) -> Iterator[str]:
    """A row for each embedder and strategy; the lead of the last embedder over each other is on all questions."""
    parts = {language: load_part(folder, f"xquad-{language}", questions).data for language in LANGUAGES}
    yield f"| embedder | strategy | {' | '.join(LANGUAGES)} | all | lead of {embedders[-1]} |"
    yield "|---" * (4 + len(LANGUAGES)) + "|"
    found: dict[tuple[str, str], list[list[float]]] = {}
    for name in embedders:
        embedder = drivers.make_embedder(EmbedderConfig(name=name, cache=cache))
        with Engine.open(":memory:", embedder=embedder, settings=BARE_SETTINGS) as engine:
            for language, data in parts.items():
                engine.add_documents([replace(each, id=f"{language} {each.id}") for each in data.documents])
            for strategy in STRATEGIES:
                found[name, strategy] = [
                    [
                        ndcg_at(10, list_paragraphs(engine.search(text, k=3 * 10, strategy=strategy)), data.grades[id_])
                        for id_, text in data.questions.items()
                    ]
                    for language, data in parts.items()
                ]
    for (name, strategy), values in found.items():
        best, own = ([*chain.from_iterable(each)] for each in (found[embedders[-1], strategy], values))
        cells = " | ".join(f"{100 * fmean(each):.1f}" for each in (*values, own))
        yield f"| {name} | {strategy} | {cells} | {'' if name == embedders[-1] else bootstrap(best, own)} |"


def list_paragraphs(hits: Sequence[Hit]) -> list[str]:
    """The paragraphs of the hits, each once, whatever its language."""
    return list(dict.fromkeys(hit.chunk.doc_id.partition(" ")[2] for hit in hits))


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="studies.mixed_languages", description="One collection in three languages.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds xquad")
    parser.add_argument("--embedders", default="bge-small,multilingual,bge-small+multilingual")
    parser.add_argument("--questions", type=int, default=100, help="of each language")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    for row in make_rows(given.data, given.embedders.split(","), questions=given.questions, cache=given.cache):
        print(row, flush=True)


if __name__ == "__main__":
    main()
