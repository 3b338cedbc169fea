"""Judged sets for the studies: documents, questions, and the relevance grades of each (qrels).

If a set judges documents, a document is one section without a label and so, at an unlimited chunk size, one chunk.
ClapNQ judges passages: its documents are articles, and each passage of the pool is a section and one chunk.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from clew import Document, Hit, Section
from studies.measures import ndcg_at, recall_at, reciprocal_rank
from studies.sets import MissingSet, read_jsonl

Grades = Mapping[str, float]
Measure = Callable[[Sequence[str], Grades], float]


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Documents, questions by id, relevance grades by question, and the measures, the main one first."""

    name: str
    documents: Sequence[Document]
    names: Mapping[tuple[str, int], str]  # the judged name of a chunk, by its document and index
    questions: Mapping[str, str]
    grades: Mapping[str, Grades]
    measures: Mapping[str, Measure]

    def name_hits(self, hits: Iterable[Hit]) -> list[str]:
        """The judged names of the hits, in order."""
        return [self.names[hit.chunk.doc_id, hit.chunk.index] for hit in hits]


def ndcg10(ranking: Sequence[str], grades: Grades) -> float:
    """nDCG@10."""
    return ndcg_at(10, ranking, grades)


def make_recall(k: int) -> Measure:
    """The measure Recall@k."""
    return lambda ranking, grades: recall_at(k, ranking, [each for each, grade in grades.items() if grade > 0])


def mrr(ranking: Sequence[str], grades: Grades) -> float:
    """The reciprocal rank of the first relevant result."""
    return reciprocal_rank(ranking, [each for each, grade in grades.items() if grade > 0])


USUAL_MEASURES: Mapping[str, Measure] = {"nDCG@10": ndcg10, "Recall@100": make_recall(100)}


def scifact(folder: Path) -> JudgedSet:
    """The training claims of SciFact, and its abstracts with their titles."""
    set_folder = folder / "scifact"
    return _load_set(
        "scifact train", set_folder, "corpus.jsonl.gz", "queries.train.jsonl", "qrels.train.tsv", USUAL_MEASURES
    )


def xquad(folder: Path, *, language: str) -> JudgedSet:
    """Questions of XQuAD in one language, and the paragraphs with their answers."""
    return _load_set(
        f"xquad {language}", folder / "xquad" / language, "corpus.jsonl", "queries.jsonl", "qrels.tsv", USUAL_MEASURES
    )


def cosqa(folder: Path) -> JudgedSet:
    """Web queries about Python, and the functions that answer them."""
    measures = {**USUAL_MEASURES, "MRR": mrr}
    return _load_set("cosqa dev", folder / "cosqa", "corpus.jsonl.gz", "queries.dev.jsonl", "qrels.dev.tsv", measures)


def limit_small(folder: Path) -> JudgedSet:
    """Who likes what: two of 46 people per question, distinguishable by words alone."""
    measures = {"Recall@2": make_recall(2), "nDCG@10": ndcg10}
    return _load_set("limit-small", folder / "limit-small", "corpus.jsonl", "queries.jsonl", "qrels.tsv", measures)


def clapnq(folder: Path, *, query_field: str = "rewrite") -> JudgedSet:
    """Turns of MTRAG's conversations, by default rewritten to be standalone, and passages of Wikipedia.

    The pool of passages was made of the first hits of several systems, so nothing beyond the first ten is measured.
    """
    set_folder = folder / "mtrag" / "clapnq"
    articles: dict[str, list[tuple[str, str]]] = {}
    for line in _read_lines(set_folder / "corpus_pool.jsonl.gz"):
        articles.setdefault(line["_id"].partition("_")[0], []).append((line["_id"], line["text"].strip()))
    questions = {line["_id"]: line[query_field] for line in _read_lines(set_folder / "queries.jsonl")}
    documents = [make_document(id_, [text for _, text in passages]) for id_, passages in articles.items()]
    names = {(id_, at): name for id_, passages in articles.items() for at, (name, _) in enumerate(passages)}
    measures = {"nDCG@10": ndcg10, "Recall@10": make_recall(10), "Recall@5": make_recall(5)}
    return _keep_answerable(
        JudgedSet(f"clapnq {query_field}", documents, names, questions, read_grades(set_folder / "qrels.tsv"), measures)
    )


def multihop(folder: Path, *, name: str) -> JudgedSet:
    """Questions that need several paragraphs of Wikipedia."""
    set_folder = folder / "multihop" / name
    return _load_set(name, set_folder, "corpus.jsonl.gz", "queries.jsonl", "qrels.tsv", USUAL_MEASURES)


def make_document(id_: str, texts: Sequence[str]) -> Document:
    """A plain-text document with one section per text, separated by blank lines."""
    parts = [*(f"{text}\n\n" for text in texts[:-1]), texts[-1]]
    sections, at = [], 0
    for part in parts:
        sections.append(Section(at, at + len(part)))
        at += len(part)
    return Document(id_, "".join(parts), tuple(sections), meta={"format": "text"})


def read_grades(path: Path) -> dict[str, dict[str, float]]:
    """The grades of a qrels file, by question."""
    if not path.is_file():
        raise MissingSet(f"there is no {path}; give the folder that holds the sets with --data")
    found: dict[str, dict[str, float]] = {}
    for row in path.read_text(encoding="utf-8").splitlines()[1:]:
        question, name, grade = row.split("\t")
        found.setdefault(question, {})[name] = float(grade)
    return found


def take_part(data: JudgedSet, every: int, share: int) -> JudgedSet:
    """Every nth question, and of the documents those with an answer to one of them and every nth of the others."""
    questions = dict(list(data.questions.items())[::every])
    answers = {name for id_ in questions for name, grade in data.grades[id_].items() if grade > 0}
    wanted = {doc_id for (doc_id, _), name in data.names.items() if name in answers}
    others = [each.id for each in data.documents if each.id not in wanted][::share]
    kept = wanted | set(others)
    documents = [each for each in data.documents if each.id in kept]
    return replace(data, questions=questions, documents=documents)


SETS: Mapping[str, Callable[[Path], JudgedSet]] = {
    "scifact": scifact,
    "xquad-en": partial(xquad, language="en"),
    "xquad-de": partial(xquad, language="de"),
    "xquad-zh": partial(xquad, language="zh"),
    "cosqa": cosqa,
    "clapnq": clapnq,
    "clapnq-last": partial(clapnq, query_field="last_turn"),
    "limit-small": limit_small,
    **{name: partial(multihop, name=name) for name in ("musique", "hotpotqa", "2wikimultihopqa")},
}


def _load_set(
    name: str, folder: Path, corpus: str, queries: str, qrels: str, measures: Mapping[str, Measure]
) -> JudgedSet:
    documents = []
    for line in _read_lines(folder / corpus):
        title, text = line["title"].strip(), line["text"].strip()
        documents.append(make_document(line["_id"], [f"{title}\n{text}" if title else text]))
    questions = {line["_id"]: line["text"] for line in _read_lines(folder / queries)}
    names = {(each.id, 0): each.id for each in documents}
    return _keep_answerable(JudgedSet(name, documents, names, questions, read_grades(folder / qrels), measures))


def _keep_answerable(data: JudgedSet) -> JudgedSet:
    """The set with only the questions that have a relevant result, in the order of the file."""
    kept = {id_: text for id_, text in data.questions.items() if any(v > 0 for v in data.grades.get(id_, {}).values())}
    if not kept:
        raise MissingSet(f"no question of {data.name} has an answer; is the folder complete?")
    return JudgedSet(data.name, data.documents, data.names, kept, data.grades, data.measures)


def _read_lines(path: Path) -> Iterable[dict[str, str]]:
    if not path.is_file():
        raise MissingSet(f"there is no {path}; give the folder that holds the sets with --data")
    return read_jsonl(path)
