"""`python -m studies.equivalence --data FOLDER --postgres URL|started`: do both stores give the same results?

SciFact and three languages of XQuAD are added to an embedded collection, exported, restored into PostgreSQL, exported
from there and restored into another embedded collection: all three must be equal row by row. Then both stores answer
the same questions, in four kinds of language and under four filters, and their ten best hits are compared. Both are
forced to use their approximate index, although so few chunks would be searched exactly.
"""

import argparse
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from clew import Document, Engine, Filter, Settings
from clew.core.settings import IngestionConfig, SearchConfig, StoreConfig
from studies.judged import JudgedSet, scifact, xquad
from studies.server import open_server
from studies.sets import report_missing_set

K = 10
BUCKETS = 50  # so that one holds 2 % of the documents
LANGUAGES = ("en", "de", "zh")
SETTINGS = Settings(
    ingestion=IngestionConfig(),
    search=SearchConfig(min_similarity=-1.0, cache=0),
    store=StoreConfig(exact_below=500),
)
MODES = {"exact": ("semantic", "exact", 0.99), "ANN": ("semantic", "ann", 0.95), "lexical": ("lexical", "ann", 0.95)}


@dataclass(frozen=True, slots=True)
class FilteredQuestion:
    """A question, its language (`mixed`: two of them), and its filters by name."""

    text: str
    language: str
    filters: Mapping[str, Filter]


@dataclass(frozen=True, slots=True)
class StoreComparison:
    """The overlap of the ten best hits of two stores, and whether order and scores are the same too."""

    mode: str
    language: str
    filter: str
    overlap: float
    is_same: bool


def load_sets(folder: Path) -> dict[str, JudgedSet]:
    """The sets by the prefix of their document ids; its last two letters are the language."""
    found = {f"xquad-{language}": xquad(folder, language=language) for language in LANGUAGES}
    return {"scifact-en": scifact(folder), **found}


def make_documents(given: Mapping[str, JudgedSet]) -> Iterator[Document]:
    """The documents of all sets, with language and bucket as meta."""
    for name, made in given.items():
        for at, document in enumerate(made.documents):
            id_ = f"{name}/{document.id}"
            meta = {**document.meta, "language": name[-2:], "bucket": at % BUCKETS, "half": at % 2}
            yield replace(document, id=id_, uri=id_, meta=meta)


def draw_questions(given: Mapping[str, JudgedSet], count: int) -> list[FilteredQuestion]:
    """So many questions: a quarter each in English (of both sets), German, Chinese, and two languages at once."""
    rng = random.Random(0)
    texts: dict[str, list[str]] = {language: [] for language in LANGUAGES}
    for name, made in given.items():
        texts[name[-2:]] += made.questions.values()
    for language in LANGUAGES:
        rng.shuffle(texts[language])
    share = count // 4
    questions = [(text, language) for language in LANGUAGES for text in texts[language][:share]]
    pairs = zip(texts["en"][::-1], [*texts["de"][::-2], *texts["zh"][::-2]], strict=False)
    questions += [(f"{one} {other}", "mixed") for one, other in list(pairs)[:share]]
    return [
        FilteredQuestion(
            text,
            language,
            {
                "none": Filter(),
                "language": Filter(meta={"language": language if language != "mixed" else ["en", "zh"]}),
                "half": Filter(meta={"half": at % 2}),
                "2 %": Filter(meta={"bucket": at % BUCKETS}),
            },
        )
        for at, (text, language) in enumerate(questions)
    ]


def compare_stores(one: Engine, other: Engine, questions: Sequence[FilteredQuestion]) -> Iterator[StoreComparison]:
    """One comparison per question, filter and mode."""
    for each in questions:
        for mode, (strategy, how, _) in MODES.items():
            settings = replace(SETTINGS, search=replace(SETTINGS.search, mode=how))  # type: ignore[arg-type]
            for name, where in each.filters.items():
                first, second = (
                    [
                        (hit.chunk.id, round(hit.score, 5))
                        for hit in engine.search(each.text, k=K, strategy=strategy, where=where, settings=settings)
                    ]
                    for engine in (one, other)
                )
                common = len({found for found, _ in first} & {found for found, _ in second})
                overlap = common / max(len(first), len(second)) if first or second else 1.0
                yield StoreComparison(mode, each.language, name, overlap, first == second)


def check_round_trip(folder: Engine, server: Engine, back: Engine, file: Path) -> tuple[int, int]:
    """How many documents made the round trip, and how many are not equal in all three collections."""
    folder.export(file)
    server.restore(file)
    server.export(file)
    back.restore(file)
    prints = [
        {each.document.id: each.fingerprint() for each in engine.opened.store.stored_documents()}
        for engine in (folder, server, back)
    ]
    names = set[str]().union(*prints)
    return len(names), sum(len({each.get(name) for each in prints}) > 1 for name in names)


def make_table(outcomes: Sequence[StoreComparison]) -> str:
    """The table of overlaps by mode, language and filter."""
    groups = [("all", "")]
    groups += [("language", name) for name in dict.fromkeys(each.language for each in outcomes)]
    groups += [("filter", name) for name in dict.fromkeys(each.filter for each in outcomes)]
    lines = ["| mode | goal | " + " | ".join(f"{kind} {name}".strip() for kind, name in groups) + " | identical |"]
    lines.append("|---" * (len(groups) + 3) + "|")
    for mode, (_, _, goal) in MODES.items():
        of = [each for each in outcomes if each.mode == mode]
        shares = [
            fmean(each.overlap for each in of if kind == "all" or getattr(each, kind) == name) for kind, name in groups
        ]
        same = fmean(each.is_same for each in of)
        lines.append(f"| {mode} | ≥ {goal} | {' | '.join(f'{share:.4f}' for share in shares)} | {same:.4f} |")
    return "\n".join(lines)


def run_study(data: Path, address: str, *, embedder: str, max_questions: int) -> str:
    """The report as text."""
    with ExitStack() as stack:
        work = Path(stack.enter_context(TemporaryDirectory(prefix="clew-equivalence-")))
        name = f"equivalence-{uuid.uuid4().hex[:8]}"
        one, server, back = (
            stack.enter_context(Engine.open(place, collection=name, embedder=embedder, settings=SETTINGS))
            for place in (work / "one", address, work / "back")
        )
        given = load_sets(data)
        one.add_documents(make_documents(given))
        many_documents, differing = check_round_trip(one, server, back, work / "all.zip")
        outcomes = list(compare_stores(one, server, draw_questions(given, max_questions)))
        facts = [engine.status() for engine in (one, server)]
        server.drop(*(record.id for record in server.list()))
    head = f"{facts[0].documents:,} documents, {facts[0].chunks:,} chunks, {embedder}; {facts[0].index} and "
    head += f"{facts[1].index}; {len(outcomes) // len(MODES):,} searches in each mode and store"
    trip = f"Round trip: {many_documents:,} documents, {differing} not equal row by row"
    return f"{head}\n\n{make_table(outcomes)}\n\n{trip}"


@report_missing_set
def main() -> None:
    """Prints the report."""
    parser = argparse.ArgumentParser(
        prog="studies.equivalence", description="Results of the embedded store and PostgreSQL compared."
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the sets")
    parser.add_argument("--postgres", default="started", help="the address of a server, or `started` to start one")
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--queries", type=int, default=1000)
    given = parser.parse_args()
    with open_server(given.postgres) as address:
        print(run_study(given.data, address, embedder=given.embedder, max_questions=given.queries))


if __name__ == "__main__":
    main()
