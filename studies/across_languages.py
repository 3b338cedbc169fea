"""`python -m studies.across_languages --data FOLDER`: is a text found that is not in the language of the question?

The paragraphs of XQuAD are one collection, a third of them in each of English, German and Chinese and none in two, so
that a question in one language is answered in one language alone. Each third is in each language in turn. In the
`paragraph` layout the paragraphs of an article are in different languages, so that there are texts about the subject in
the language of the question that do not answer it; in the `article` layout an article is in one language; in the
`single` layout each collection is in one language. Of the articles every second is a half of its own: 0 is the one on
which the expected words were chosen, 1 was kept back.

`--expect` prints instead how many words hits in the language of the question have, by their meaning.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from clew import Engine, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig
from studies.judged import JudgedSet, xquad
from studies.measures import bootstrap, ndcg_at
from studies.relevance import search_with_evidence
from studies.sets import report_missing_set
from studies.strategies import SETTINGS

LANGUAGES = ("en", "de", "zh")
LEGS = ("semantic", "lexical")
ARTICLE = 5  # paragraphs, one after the other
LAYOUTS: Mapping[str, Callable[[int, int], str]] = {  # the language of a paragraph, by its number and the turn
    "paragraph": lambda number, turn: LANGUAGES[(number + turn) % 3],
    "article": lambda number, turn: LANGUAGES[(number // ARTICLE + turn) % 3],
    "single": lambda _, turn: LANGUAGES[turn],
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in a language, and the one paragraph that answers it, which is in `text`."""

    language: str
    text: str
    words: str
    answer: str


def build_collections(
    sets: Mapping[str, JudgedSet], engine: Callable[[], Engine], *, half: int, layout: str, count: int
) -> Iterator[tuple[Engine, list[Asked]]]:
    """A filled engine for each turn, and `count` questions about its paragraphs in each language, in each language."""
    by_id = {language: {each.id: each for each in data.documents} for language, data in sets.items()}
    kept = [each.id for at, each in enumerate(sets["en"].documents) if at // ARTICLE % 2 == half]
    shared = [id_ for id_ in sets["en"].questions if all(id_ in data.questions for data in sets.values())]
    answers = {id_: next(iter(sets["en"].grades[id_])) for id_ in shared}
    for turn in range(3):
        placed = {id_: LAYOUTS[layout](number, turn) for number, id_ in enumerate(kept)}
        asked = []
        for text in LANGUAGES:
            ids = [id_ for id_ in shared if placed.get(answers[id_]) == text]
            chosen = [ids[at * len(ids) // count] for at in range(min(count, len(ids)))]
            for language, data in sets.items():
                asked += [Asked(language, text, data.questions[id_], f"{text} {answers[id_]}") for id_ in chosen]
        with engine() as opened:
            opened.add_documents([replace(by_id[code][id_], id=f"{code} {id_}") for id_, code in placed.items()])
            yield opened, asked


def make_rows(collections: Iterator[tuple[Engine, list[Asked]]], name: str, strategies: Sequence[str]) -> Iterator[str]:
    """A row for each pair of languages: nDCG@10 and the share of right first hits, and the lead over the better leg."""
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for engine, questions in collections:
        for each in questions:
            row = found.setdefault((each.language, each.text), {strategy: [] for strategy in strategies})
            for strategy, values in row.items():
                names = [hit.chunk.doc_id for hit in engine.search(each.words, k=10, strategy=strategy)]
                values.append((ndcg_at(10, names, {each.answer: 1.0}), float(names[:1] == [each.answer])))
    heads = " | ".join(f"{strategy}, first" for strategy in strategies)
    yield f"| {name}: question, text | questions | {heads} | lead of {strategies[-1]} over the better leg |"
    yield "|---" * (3 + len(strategies)) + "|"
    for (asked_in, text), row in sorted(found.items()):
        scores = {strategy: [score for score, _ in values] for strategy, values in row.items()}
        better = max((scores[leg] for leg in LEGS), key=fmean)
        cells = [f"{100 * fmean(scores[each]):.1f}, {100 * fmean(first for _, first in row[each]):.0f}" for each in row]
        last = scores[strategies[-1]]
        yield f"| {asked_in}, {text} | {len(last)} | {' | '.join(cells)} | {bootstrap(last, better)} |"


def make_expectation_rows(collections: Iterator[tuple[Engine, list[Asked]]]) -> Iterator[str]:
    """The mean words and share of terms of hits in the language of the question, by their meaning."""
    rows: list[tuple[float, float, float]] = []
    for engine, questions in collections:
        for each in questions:
            hits, evidence, _ = search_with_evidence(engine, each.words)
            columns = zip(hits, evidence.meaning, evidence.words, evidence.share, strict=False)
            rows += [values for hit, *values in columns if hit.chunk.doc_id.startswith(each.language)]  # type: ignore[misc]
    known = np.array(rows)
    yield "| meaning | hits | words | words / meaning | share | share / meaning |"
    yield "|---" * 6 + "|"
    for low in np.arange(0.2, 1.2, 0.2):
        part = known[(known[:, 0] >= low) & (known[:, 0] < low + 0.2)]
        if len(part):
            meaning, words, share = part.mean(axis=0)
            ratios = f"{words:.3f} | {words / meaning:.2f} | {share:.3f} | {share / meaning:.2f}"
            yield f"| {low:.1f}–{low + 0.2:.1f} | {len(part)} | {ratios} |"


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table for each embedder and layout."""
    parser = argparse.ArgumentParser(prog="studies.across_languages", description="Answers in other languages.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds xquad")
    parser.add_argument("--embedders", default="multilingual")
    parser.add_argument("--layouts", default="paragraph,article,single")
    parser.add_argument("--strategies", default="semantic,lexical,hybrid", help="the last is compared with the legs")
    parser.add_argument("--half", type=int, default=1, choices=(0, 1))
    parser.add_argument("--questions", type=int, default=25, help="about the texts of a language in a collection")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--expect", action="store_true", help="print the words to expect")
    given = parser.parse_args(arguments)
    sets = {language: xquad(given.data, language=language) for language in LANGUAGES}
    for name in given.embedders.split(","):
        embedder = drivers.make_embedder(EmbedderConfig(name=name, cache=given.cache))

        def open_engine(embedder: Embedder = embedder) -> Engine:
            return Engine.open(":memory:", embedder=embedder, settings=SETTINGS)

        for layout in given.layouts.split(","):
            made = build_collections(sets, open_engine, half=given.half, layout=layout, count=given.questions)
            print(f"\n{layout}\n")
            rows = make_expectation_rows(made) if given.expect else make_rows(made, name, given.strategies.split(","))
            for row in rows:
                print(row, flush=True)


if __name__ == "__main__":
    main()
