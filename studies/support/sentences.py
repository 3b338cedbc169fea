"""Sentences of people's answers, as they are and with one thing made false, and whether verification keeps them.

The answers of MTRAG's ClapNQ turns were written and corrected by people, from passages that the set names. Each
sentence of an answerable turn is verified against those passages, as it is and with one thing in it made false. A
sentence may say more than its passages, and a change may leave it true, so neither share can be perfect.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from clew.core.answer import SupportVerdict
from clew.core.cite import MergedChunk
from clew.core.protocols import Verifier
from clew.core.sentences import split_sentences
from clew.core.types import Chunk, DocumentRecord, Hit
from clew.query.answer.check import check_sentence
from clew.query.answer.passages import NumberedPassage
from studies.judged import read_grades
from studies.perturbations import PERTURBATIONS
from studies.sets import MissingSet, read_jsonl

SEED = 7
MIN_WORDS = 5  # a shorter sentence is a greeting


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of an answer, its question, and the passages that support the answer."""

    sentence: str
    question: str
    passages: tuple[str, ...]


def load_sentences(folder: Path) -> Iterator[AnswerSentence]:
    """The sentences of the answerable turns, in the order of the conversations."""
    set_folder = folder / "mtrag" / "clapnq"
    if not (set_folder / "conversations.jsonl").is_file():
        raise MissingSet(f"there is no {set_folder}; give the folder that holds the sets with --data")
    grades = read_grades(set_folder / "qrels.tsv")
    gold = {name for each in grades.values() for name in each}
    texts = {row["_id"]: row["text"] for row in read_jsonl(set_folder / "corpus_pool.jsonl.gz") if row["_id"] in gold}
    for talk in read_jsonl(set_folder / "conversations.jsonl"):
        for turn in talk["turns"]:
            known = tuple(texts[name] for name in grades.get(turn["task_id"], {}) if name in texts)
            if turn["answerability"][0] != "ANSWERABLE" or not known:
                continue
            for low, high in split_sentences(turn["agent"]):
                if len(turn["agent"][low:high].split()) >= MIN_WORDS:
                    yield AnswerSentence(" ".join(turn["agent"][low:high].split()), turn["user"], known)


def is_kept(sentence: str, given: AnswerSentence) -> bool:
    """Whether the rules keep a sentence that cites all passages."""
    return judge(sentence, given) == "supported"


def judge(sentence: str, given: AnswerSentence, *, verifier: Verifier | None = None) -> SupportVerdict:
    """The verdict on a sentence that cites all passages."""
    passages = make_passages(given.passages)
    marks = "".join(f"[{each.number}]" for each in passages)
    cited = f"{sentence.rstrip('.')} {marks}."
    return check_sentence(cited, passages, question=given.question, verifier=verifier).verdict


def measure_perturbations(
    sentences: Sequence[AnswerSentence], *, seed: int = SEED
) -> tuple[float, dict[str, tuple[int, int]]]:
    """The share of original sentences that are kept, and for each perturbation how many were made and kept.

    Only sentences that are kept are perturbed: one that is rejected anyway proves nothing.
    """
    rng = Random(seed)
    made: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    true = [each for each in sentences if is_kept(each.sentence, each)]
    for each in true:
        for name, perturb in PERTURBATIONS.items():
            false = perturb(each.sentence, "\n".join(each.passages), rng)
            if false and false != each.sentence:
                made[name] += 1
                kept[name] += is_kept(false, each)
    return len(true) / len(sentences), {name: (made[name], kept[name]) for name in PERTURBATIONS}


def make_passages(texts: Sequence[str]) -> list[NumberedPassage]:
    """Numbered passages of these texts."""
    found = []
    for number, text in enumerate(texts, 1):
        name = f"p{number}"
        chunk = Chunk(name, name, 0, 1, text, 0, len(text))
        passage = MergedChunk(
            text, name, (), "", (Hit(chunk, DocumentRecord(chunk.doc_id), 1.0),), 1.0, len(text), ((0, len(text)),)
        )
        found.append(
            NumberedPassage(number, passage, DocumentRecord(name, "", "", "page", "", "", len(text), 1), ((0, text),))
        )
    return found
