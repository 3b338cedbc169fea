"""`python -m studies.late --data FOLDER`: what does the strategy `late` gain over `hybrid`, and against `rerank`?

The first 50 hits of `hybrid` are ordered again as the strategy does it: by half their own score and half MaxSim over
token vectors of 96 dimensions and four bits. The same with the whole states of the model (384 numbers each) shows what
the projection costs. Token vectors are made for these hits alone, not for whole collections. Nothing is fitted to the
sets. `--every N` asks every Nth question only, of all or for each set ("clapnq:4"), and `--share N` keeps of the
documents those that answer one of them and every Nth other.

`--times` adds a set to a collection with `ingestion.late`, and times the strategies side by side, one engine each.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from time import process_time

from clew import Engine, Hit, KeepsTokens, drivers
from clew.core.protocols import Embedder
from clew.core.settings import EmbedderConfig
from clew.drivers.late.colbert import ColbertEncoder
from clew.drivers.late.projection import TokenMatrix, load_projection
from clew.query.search.late import join_scores
from studies.judged import SETS, USUAL_MEASURES, JudgedSet, make_document
from studies.measures import bootstrap, ndcg_at
from studies.reranking import load_run
from studies.sets import report_missing_set
from studies.strategies import SETTINGS

DEPTH = 50
WHOLE = "late, whole states"
TIMED = 60  # questions
BARE_SETTINGS = replace(
    SETTINGS, ingestion=replace(SETTINGS.ingestion, summaries=False)
)  # which no strategy here reads
LATE_SETTINGS = replace(SETTINGS, ingestion=replace(BARE_SETTINGS.ingestion, late=True))


class TokenStates:
    """The token states of texts, each made once, and MaxSim with them as they are and as they are stored."""

    def __init__(self) -> None:
        self._encoder, self._projection = ColbertEncoder(), load_projection()
        self._kept: dict[str, TokenMatrix] = {}

    def match(self, question: str, texts: Mapping[str, str]) -> dict[str, dict[str, float]]:
        """MaxSim of each text, by system and the id of the text."""
        fresh = [text for text in dict.fromkeys(texts.values()) if text not in self._kept]
        self._kept |= zip(fresh, self._encoder.encode_texts(fresh), strict=True)
        states = {id_: self._kept[text] for id_, text in texts.items()}
        packed = [self._projection.pack(each) for each in states.values()]
        asked = self._encoder.encode_query(question)
        return {
            "late": dict(zip(states, self._encoder.match(question, packed), strict=True)),
            WHOLE: {id_: max_sim(asked, each) for id_, each in states.items()},
        }


def max_sim(question: TokenMatrix, text: TokenMatrix) -> float:
    """The mean over the tokens of the question of the greatest cosine with a token of the text."""
    return float((question @ text.T).max(axis=1).mean())


def measure_set(
    data: JudgedSet, embedder: Embedder, states: TokenStates | None, *, with_rerank: bool
) -> Mapping[str, list[float]]:
    """nDCG@10 of each question, by system; without token states `late` is left out."""
    values: dict[str, list[float]] = {}
    with Engine.open(":memory:", embedder=embedder, settings=BARE_SETTINGS) as engine:
        engine.add_documents(data.documents)
        for id_, question in data.questions.items():
            hits = engine.search(question, k=DEPTH, strategy="hybrid")
            rankings: dict[str, Sequence[Hit]] = {"hybrid": hits}
            if states:
                matched = states.match(question, {hit.chunk.id: hit.chunk.embed_text for hit in hits})
                rankings |= {name: join_scores(hits, scores) for name, scores in matched.items()}
            if with_rerank:
                rankings["rerank"] = engine.search(question, k=10, strategy="rerank")
            for name, ranking in rankings.items():
                values.setdefault(name, []).append(ndcg_at(10, data.name_hits(ranking), data.grades[id_]))
    return values


def measure_times(data: JudgedSet, embedder: str, systems: Sequence[str]) -> Mapping[str, list[float]]:
    """CPU seconds of each question by strategy, one after the other, over a collection with token vectors.

    Of the process, since what else runs on the machine changes them less than the time that passes.
    """
    questions = list(data.questions.values())[:TIMED]
    seconds: dict[str, list[float]] = {name: [] for name in ("hybrid", *systems)}
    with TemporaryDirectory() as folder:
        with Engine.open(folder, embedder=embedder, settings=BARE_SETTINGS) as engine:
            engine.add_documents(data.documents)
        before = measure_folder(folder)
        with Engine.open(folder, settings=LATE_SETTINGS) as engine:
            store, chunks = engine.opened.store, engine.status().chunks
            assert isinstance(store, KeepsTokens)
            store.add_missing_tokens(ColbertEncoder())  # and no summaries, which `backfill` adds too
        tokens = sum(ColbertEncoder().count([each.text for each in data.documents]))
        each = (measure_folder(folder) - before) / chunks
        size = f"{tokens / chunks:.0f} tokens and {each:,.0f} bytes of token vectors each"
        print(f"{chunks} chunks, {size}, {250 * each * chunks / tokens:,.0f} for 250 tokens")
        engines = {name: Engine.open(folder, settings=LATE_SETTINGS) for name in seconds}
        for name, engine in engines.items():
            engine.search("a question that loads the models", strategy=name)
        for question in questions:
            for name, engine in engines.items():
                started = process_time()
                engine.search(question, strategy=name)
                seconds[name].append(process_time() - started)
        for engine in engines.values():
            engine.close()
    return seconds


def measure_folder(folder: str) -> int:
    """The bytes of all files in a folder, without SQLite's shared memory; nobody has it open, so its log is empty."""
    files = [path for path in Path(folder).rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    return sum(path.stat().st_size for path in files)


def load_pool(folder: Path) -> JudgedSet:
    """The questions of TREC Deep Learning 2019, and all passages of the pool."""
    run = load_run(folder / "trec-dl-pool" / "dl19", "bm25")
    documents = [make_document(id_, [text]) for id_, text in run.passages.items()]
    names = {(id_, 0): id_ for id_ in run.passages}
    return JudgedSet("dl19 pool", documents, names, run.questions, run.grades, USUAL_MEASURES)


def take_part(data: JudgedSet, every: int, share: int) -> JudgedSet:
    """Every nth question, and of the documents those with an answer to one of them and every nth of the others."""
    questions = dict(list(data.questions.items())[::every])
    answers = {name for id_ in questions for name, grade in data.grades[id_].items() if grade > 0}
    wanted = {doc_id for (doc_id, _), name in data.names.items() if name in answers}
    others = [each.id for each in data.documents if each.id not in wanted][::share]
    kept = wanted | set(others)
    documents = [each for each in data.documents if each.id in kept]
    return replace(data, questions=questions, documents=documents)


def parse_parts(text: str, sets: Sequence[str]) -> dict[str, int]:
    """The number for each set: "4" for all, or "clapnq:4,cosqa:10"."""
    if text.isdecimal():
        return dict.fromkeys(sets, int(text))
    given = dict(part.split(":") for part in text.split(","))
    return {name: int(given.get(name, 1)) for name in sets}


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one row per set and system, or per strategy."""
    parser = argparse.ArgumentParser(prog="studies.late", description="Late interaction over the default ranking.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--sets", default="xquad-en,clapnq,scifact,cosqa,dl19")
    parser.add_argument("--every", default="1", help="ask every nth question, of all sets or as set:n,set:n")
    parser.add_argument("--share", default="1", help="keep every nth document without an answer, likewise")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    parser.add_argument("--systems", default="late,rerank", help="what is compared with hybrid")
    parser.add_argument("--times", action="store_true", help="time the strategies instead")
    given = parser.parse_args(arguments)
    sets = given.sets.split(",")
    every, share = parse_parts(given.every, sets), parse_parts(given.share, sets)
    embedder = drivers.make_embedder(EmbedderConfig(name="bge-small", cache=given.cache))
    states = TokenStates() if "late" in given.systems else None
    print("" if given.times else "| set | documents | questions | system | nDCG@10 | lead |\n|---|---|---|---|---|---|")
    for name in sets:
        data = load_pool(given.data) if name == "dl19" else SETS[name](given.data)
        data = take_part(data, every[name], share[name])
        if given.times:
            seconds = measure_times(data, "bge-small", given.systems.split(","))
            base = median(seconds["hybrid"])
            for system, found in seconds.items():
                print(
                    f"| {data.name} | {system} | {1000 * median(found):.0f} ms | {median(found) / base:.2f} |",
                    flush=True,
                )
            continue
        values = measure_set(data, embedder, states, with_rerank="rerank" in given.systems)
        for system, found in values.items():
            lead = "" if system == "hybrid" else str(bootstrap(found, values["hybrid"]))
            size = f"{len(data.documents)} | {len(found)}"
            print(f"| {data.name} | {size} | {system} | {100 * fmean(found):.2f} | {lead} |", flush=True)


if __name__ == "__main__":
    main()
