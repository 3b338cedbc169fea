"""`python -m studies.xquad --data FOLDER`: do words and vectors find texts in other languages, and across languages?

XQuAD in English, German and Chinese: the same paragraphs and questions in each. The first table compares `lexical` with
bm25s, which gets the best of several analysers for each language, chosen by the questions themselves. The second has
the legs and the hybrid for each embedder, questions in one language and paragraphs in the same or another; the lead is
over the better leg.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

from clew import Engine, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig
from studies.judged import JudgedSet, ndcg10, xquad
from studies.measures import bootstrap
from studies.sets import report_missing_set
from studies.strategies import SETTINGS

LANGUAGES = ("en", "de", "zh")
K = 10
LEGS = ("semantic", "lexical")
Analyser = Callable[[str], list[str]]
_WORD = re.compile(r"(?u)\b\w\w+\b")
_HAN = re.compile("([\u4e00-\u9fff]+)|([a-z0-9]+)")


def list_analysers(language: str) -> Iterator[tuple[str, Analyser]]:
    """The analysers that bm25s may choose from."""
    import Stemmer
    from bm25s import stopwords

    if language == "zh":
        yield "characters", lambda text: _split_han(text, list)
        yield "bigrams", lambda text: _split_han(text, _split_bigrams)
        yield "characters and bigrams", lambda text: _split_han(text, lambda run: [*run, *_split_bigrams(run)])
        try:
            import rjieba
        except ImportError:
            print("rjieba is not installed: bm25s cannot choose its words")
            return
        yield "jieba", lambda text: _split_han(text, rjieba.cut)
        yield "jieba, for search", lambda text: _split_han(text, rjieba.cut_for_search)
        return
    stemmer = Stemmer.Stemmer({"en": "english", "de": "german"}[language])
    common = frozenset({"en": stopwords.STOPWORDS_EN, "de": stopwords.STOPWORDS_GERMAN}[language])
    yield "words", lambda text: _WORD.findall(text.lower())
    yield "stems", lambda text: list(stemmer.stemWords(_WORD.findall(text.lower())))
    yield (
        "stems without stop words",
        lambda text: list(stemmer.stemWords([word for word in _WORD.findall(text.lower()) if word not in common])),
    )


def _split_han(text: str, split: Callable[[str], Sequence[str]]) -> list[str]:
    return [term for run, word in _HAN.findall(text.lower()) for term in (split(run) if run else [word])]


def _split_bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def measure_bm25s(data: JudgedSet, ids: Sequence[str], analyser: Analyser, k1: float) -> list[float]:
    """nDCG@10 of each question by bm25s."""
    import bm25s

    names = [document.id for document in data.documents]
    tokens = [analyser(document.text) for document in data.documents]
    numbers: dict[str, int] = {}
    coded = [[numbers.setdefault(term, len(numbers)) for term in terms] for terms in tokens]
    index = bm25s.BM25(k1=k1, b=0.75, method="lucene")
    index.index((coded, numbers), show_progress=False)
    values = []
    for id_ in ids:
        known = [numbers[term] for term in analyser(data.questions[id_]) if term in numbers]
        scores = index.get_scores_from_ids(known) if known else []
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:K]
        values.append(ndcg10([names[at] for at in best if scores[at] > 0], data.grades[id_]))
    return values


def measure_strategy(
    engine: Engine, data: JudgedSet, questions: Sequence[str], ids: Sequence[str], strategy: str
) -> list[float]:
    """nDCG@10 of each question by a strategy."""
    return [
        ndcg10(data.name_hits(engine.search(text, k=K, strategy=strategy, settings=SETTINGS)), data.grades[id_])
        for text, id_ in zip(questions, ids, strict=True)
    ]


def select_ids(sets: Sequence[JudgedSet], count: int | None) -> list[str]:
    """The ids of so many questions that all sets have, spread evenly."""
    ids = [id_ for id_ in sets[0].questions if all(id_ in each.questions and id_ in each.grades for each in sets)]
    return ids if count is None or count >= len(ids) else [ids[at * len(ids) // count] for at in range(count)]


def make_lexical_rows(sets: dict[str, JudgedSet], count: int | None) -> Iterator[str]:
    """The rows of the table of `lexical` and bm25s."""
    yield "| language | questions | lexical | bm25s | its analyser | lead of lexical |"
    yield "|---" * 6 + "|"
    for language, data in sets.items():
        ids = select_ids([data], count)
        with Engine.open(":memory:", embedder="hashed:8", settings=SETTINGS) as engine:
            engine.add_documents(data.documents)
            ours = measure_strategy(engine, data, [data.questions[id_] for id_ in ids], ids, "lexical")
        theirs = {
            f"{name}, k1 {k1}": measure_bm25s(data, ids, analyser, k1)
            for name, analyser in list_analysers(language)
            for k1 in (0.9, 1.2, 1.5)
        }
        best = max(theirs, key=lambda name: fmean(theirs[name]))
        scores = f"{100 * fmean(ours):.2f} | {100 * fmean(theirs[best]):.2f}"
        yield f"| {language} | {len(ids)} | {scores} | {best} | {bootstrap(ours, theirs[best])} |"


def make_embedder_rows(sets: dict[str, JudgedSet], embedder: Embedder, count: int | None) -> Iterator[str]:
    """The rows of the table of an embedder."""
    yield f"| {embedder.name}: question, text | questions | semantic | lexical | hybrid | lead over the better leg |"
    yield "|---" * 6 + "|"
    ids = select_ids(list(sets.values()), count)
    for language, data in sets.items():
        with Engine.open(":memory:", embedder=embedder, settings=SETTINGS) as engine:
            engine.add_documents(data.documents)
            for asked, other in sets.items():
                questions = [other.questions[id_] for id_ in ids]
                values = {name: measure_strategy(engine, data, questions, ids, name) for name in (*LEGS, "hybrid")}
                better = max((values[leg] for leg in LEGS), key=fmean)
                cells = " | ".join(f"{100 * fmean(each):.2f}" for each in values.values())
                yield f"| {asked}, {language} | {len(ids)} | {cells} | {bootstrap(values['hybrid'], better)} |"


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="studies.xquad", description="Languages, by words and by vectors.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--embedders", default="bge-small,wordllama,multilingual", help="empty: by words alone")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--questions", type=int, default=None, help="at most so many per table row (default all)")
    given = parser.parse_args(arguments)
    sets = {language: xquad(given.data, language=language) for language in LANGUAGES}
    for row in make_lexical_rows(sets, given.questions):
        print(row, flush=True)
    for name in filter(None, given.embedders.split(",")):
        print()
        embedder = drivers.make_embedder(EmbedderConfig(name=name, cache=given.cache))
        for row in make_embedder_rows(sets, embedder, given.questions):
            print(row, flush=True)


if __name__ == "__main__":
    main()
