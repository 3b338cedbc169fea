"""`python -m studies.support --data FOLDER`: are true sentences kept, and false ones taken out?

The answers of MTRAG's ClapNQ turns were written and mended by people over the passages that the set names. Each
sentence of an answer that they called answerable is held against those passages, and then again with one thing in it
made false. A sentence may say more than its passages do, and a change may leave it true, so neither share can be whole.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from clew.core.text import split_sentences
from clew.core.types import Chunk, DocumentRecord, Hit, MergedChunk
from clew.query.answer.passages import NumberedPassage
from clew.query.answer.verify import check_sentence
from studies.judged import read_grades
from studies.perturbations import PERTURBATIONS
from studies.sets import MissingSet, read_jsonl

SEED = 7
MIN_WORDS = 5  # a sentence of fewer is a greeting


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of an answer, what was asked, and the passages that the answer rests on."""

    sentence: str
    question: str
    passages: tuple[str, ...]


def load_sentences(folder: Path) -> Iterator[AnswerSentence]:
    """The sentences of the answers that the passages hold, in the order of the conversations."""
    place = folder / "mtrag" / "clapnq"
    if not (place / "conversations.jsonl").is_file():
        raise MissingSet(f"there is no {place}; give the folder that holds the sets with --data")
    grades = read_grades(place / "qrels.tsv")
    gold = {name for each in grades.values() for name in each}
    texts = {row["_id"]: row["text"] for row in read_jsonl(place / "corpus_pool.jsonl.gz") if row["_id"] in gold}
    for talk in read_jsonl(place / "conversations.jsonl"):
        for turn in talk["turns"]:
            known = tuple(texts[name] for name in grades.get(turn["task_id"], {}) if name in texts)
            if turn["answerability"][0] != "ANSWERABLE" or not known:
                continue
            for low, high in split_sentences(turn["agent"]):
                if len(turn["agent"][low:high].split()) >= MIN_WORDS:
                    yield AnswerSentence(" ".join(turn["agent"][low:high].split()), turn["user"], known)


def is_kept(sentence: str, given: AnswerSentence) -> bool:
    """Whether a sentence that cites all the passages would be shown."""
    shown = _make_passages(given.passages)
    marks = "".join(f"[{each.number}]" for each in shown)
    return not check_sentence(f"{sentence.rstrip('.')} {marks}.", shown, question=given.question).reason


def measure_perturbations(
    all_said: Sequence[AnswerSentence], *, seed: int = SEED
) -> tuple[float, dict[str, tuple[int, int]]]:
    """The share of the sentences as they are that is kept; then how many of each lie there were and were kept.

    Lies are told only of sentences that are kept: what is taken out anyway proves nothing.
    """
    rng = Random(seed)
    told: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    true = [each for each in all_said if is_kept(each.sentence, each)]
    for each in true:
        for name, lie in PERTURBATIONS.items():
            false = lie(each.sentence, "\n".join(each.passages), rng)
            if false and false != each.sentence:
                told[name] += 1
                kept[name] += is_kept(false, each)
    return len(true) / len(all_said), {name: (told[name], kept[name]) for name in PERTURBATIONS}


def _make_passages(texts: Sequence[str]) -> list[NumberedPassage]:
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


def main() -> None:
    """Prints the share of the true that is kept, and of each kind of lie."""
    parser = argparse.ArgumentParser(prog="studies.support", description="What the check of answers lets pass.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the benchmark sets")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="also the first N that are taken out")
    given = parser.parse_args()
    try:
        found = list(load_sentences(given.data))
    except MissingSet as error:
        parser.error(str(error))
    share, lies = measure_perturbations(found)
    print(f"{len(found)} sentences of people's answers, {100 * share:.1f} % kept")
    print("| made false by | told | kept | % |\n|---|---|---|---|")
    for name, (told, kept) in lies.items():
        print(f"| {name.replace('_', ' ')} | {told} | {kept} | {100 * kept / max(told, 1):.1f} |")
    told, kept = (sum(each[place] for each in lies.values()) for place in (0, 1))
    print(f"| all | {told} | {kept} | {100 * kept / told:.1f} |")
    for each in [each for each in found if not is_kept(each.sentence, each)][: given.show]:
        reason = check_sentence(each.sentence, _make_passages(each.passages), question=each.question).reason
        print(f"- {each.sentence} ({reason})")


if __name__ == "__main__":
    main()
