"""`python -m studies.support --data FOLDER`: does a passage support a claim? The verifier beside the rules.

On held-out pairs by source (test splits), on sentences of people's answers as they are and with one thing made false,
and on ten office pages with forty true and forty false sentences. Nothing of these was trained on, and no threshold was
chosen by them; the card of the model says what was seen of them. `--ablate` leaves out one part at a time. Also prints
the size of the model, its calibration error and its time for a pair over the reranker's. Without a GPU all of it takes
hours: `--collect` writes the pairs, `studies.support.score` gives their logits, and `--logits` reads those.
"""

import argparse
import gzip
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np

from clew.core.protocols import Verifier
from clew.core.settings import AnswerConfig, RerankerConfig
from clew.drivers.rerank.cross_encoder import make_ms_marco_minilm
from clew.drivers.verify.cross_encoder import MODEL, make_support_model
from clew.query.answer import check
from studies.perturbations import PERTURBATIONS
from studies.sets import report_missing_set
from studies.support.measures import expected_calibration_error, measure_auc
from studies.support.recorded import RecordedVerifier
from studies.support.sentences import SEED, AnswerSentence, is_kept, judge, load_sentences
from studies.support.tuning import read_pages

Judged = tuple[str, str, int]  # passage, claim, label


# What is printed as one row, in the words of the docs.
ROWS = {
    "a wrong number, year, date or unit": (
        *("increment_number", "swap_number", "swap_year", "shift_day", "shift_month", "swap_unit", "percent_to_points"),
    ),
    "a name that occurs nowhere": ("invent_name",),
    "one name of the passages replaced by another": ("swap_name",),
    "two names swapped": ("exchange_names",),
    'a "not" added or removed': ("negate", "drop_negation"),
    "a word replaced by its opposite": ("invert_word",),
    "a word replaced by another of the passages": ("swap_word",),
    "a word replaced by one from nowhere": ("invent_word",),
}
ABLATIONS: dict[str, tuple[tuple[object, str, object], ...]] = {
    "all of it": (),
    "without exact quotes": ((check, "_explain_misquote", lambda *_: ""),),
    "without addresses": ((check, "_explain_strange_address", lambda *_: ""),),
    "without codes and numbers with units where it is sure": ((check, "_is_exact", lambda _: False),),
    "every name must occur too": ((check, "_is_exact", lambda _: True),),
    "without other passages for a wrong citation": ((check, "OTHER_PASSAGES", 0),),
}


def read_heldout(data: Path, *, claims: int) -> dict[str, list[Judged]]:
    """At most so many held-out claims of each source (test splits), drawn with a fixed seed."""
    found: dict[str, list[Judged]] = defaultdict(list)
    with gzip.open(data / "support" / "heldout.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            found[row["source"]] += [(row["premise"], *claim[:2]) for claim in row["claims"] if claim[2] == "test"]
    rng = Random(SEED)
    return {name: rng.sample(rows, min(claims, len(rows))) for name, rows in sorted(found.items())}


def follow_rules(rows: Sequence[Judged]) -> list[float]:
    """1 where the rules keep a claim, 0 where they do not."""
    return [float(is_kept(claim, AnswerSentence(claim, "", (passage,)))) for passage, claim, _ in rows]


def balanced_accuracy(kept: Sequence[bool], labels: Sequence[int]) -> float:
    """The mean of the shares of true claims kept and of false ones not kept."""
    shares = [
        np.mean([each == bool(label) for each, label in zip(kept, labels, strict=True) if label == which])
        for which in (0, 1)
        if which in labels
    ]
    return float(np.mean(shares))


def print_pairs(title: str, groups: dict[str, list[Judged]], verifier: Verifier) -> None:
    """The table of judged pairs."""
    print(
        f"\n{title}\n| source | claims | AUC | balanced accuracy | rules | true: supported / unsure / un. | false: likewise |"
    )
    print("|---|---|---|---|---|---|---|")
    every: list[tuple[float, int]] = []
    for name, rows in groups.items():
        labels = [label for _, _, label in rows]
        chances = verifier.support([(passage, claim) for passage, claim, _ in rows])
        every += zip(chances, labels, strict=True)
        auc = f"{measure_auc(chances, labels):.3f}" if len(set(labels)) > 1 else "–"
        states = [verifier.judge(chance) for chance in chances]
        shares = []
        for which in (1, 0):
            mine = [state for state, label in zip(states, labels, strict=True) if label == which]
            shares.append(_list_shares(mine))
        ours = balanced_accuracy([chance >= 0.5 for chance in chances], labels)
        rules = balanced_accuracy([bool(kept) for kept in follow_rules(rows)], labels)
        print(
            f"| {name} | {len(rows)} | {auc} | {100 * ours:.1f} | {100 * rules:.1f} | {shares[0]} | {shares[1]} |",
            flush=True,
        )
    print(f"\ncalibration error over all: {expected_calibration_error(*zip(*every, strict=True)):.3f}")


Table = dict[str, list[bool]]
Lies = list[tuple[str, str]]  # the row, and the sentence with one thing made false


def read_sentences(data: Path, *, sentences: int, half: str) -> list[tuple[AnswerSentence, Lies]]:
    """So many sentences, with the lies made of each; of half of the questions, or of all.

    By the half that is "seen" it was chosen which sentences of the passages are read.
    """
    found = list(load_sentences(data))
    rng, made = Random(SEED), list[tuple[AnswerSentence, Lies]]()
    for each in Random(SEED).sample(found, min(sentences, len(found))):
        text = "\n".join(each.passages)
        lies = [(name, perturb(each.sentence, text, rng)) for name, perturb in PERTURBATIONS.items()]
        rows = [(row, false) for name, false in lies for row, names in ROWS.items() if name in names]
        made.append((each, [(row, false) for row, false in rows if false and false != each.sentence]))
    sides = {"seen": 0, "unseen": 1}
    return [
        row for row in made if half not in sides or hashlib.md5(row[0].question.encode()).digest()[0] % 2 == sides[half]
    ]


def tabulate_sentences(found: Sequence[tuple[AnswerSentence, Lies]], verifier: Verifier | None) -> tuple[Table, Table]:
    """For people's sentences and the lies made of those that are supported: is it labelled so, is it unsupported?"""
    supported, unsupported = defaultdict[str, list[bool]](list), defaultdict[str, list[bool]](list)
    for each, lies in found:
        verdict = judge(each.sentence, each, verifier=verifier)
        supported["true"].append(verdict == "supported")
        unsupported["true"].append(verdict == "unsupported")
        if verdict == "supported":
            for row, false in lies:
                supported[row].append(judge(false, each, verifier=verifier) == "supported")
    return supported, unsupported


def print_sentences(found: Sequence[tuple[AnswerSentence, Lies]], verifier: Verifier) -> None:
    """The table of people's sentences and of the lies made of those that each checker keeps."""
    (rules, rules_not), (ours, ours_not) = tabulate_sentences(found, None), tabulate_sentences(found, verifier)
    print(f"\n{len(found)} sentences of people's answers, % labelled supported (of how many)\n| sentences | rules | verifier |\n|---|---|---|")  # fmt: skip
    print(f"| as people wrote them | {_share(rules['true'])} | {_share(ours['true'])} |")
    print(f"| the same, labelled not supported | {_share(rules_not['true'])} | {_share(ours_not['true'])} |")
    for row in ROWS:
        print(f"| {row} | {_share(rules[row])} | {_share(ours[row])} |")


def print_ablations(found: Sequence[tuple[AnswerSentence, Lies]], verifier: Verifier) -> None:
    """The office pages, and where there are some people's sentences, with one part of the check left out at a time."""
    office, columns = read_pages("office.txt"), []
    print("Office pages\n| | true: supported / unsure / un. | false: likewise |\n|---|---|---|")
    for title, changes in ABLATIONS.items():
        with ExitStack() as stack:
            for module, name, value in changes:
                stack.enter_context(patch.object(module, name, value))
            columns.append(tabulate_sentences(found, verifier))
            verdicts = [
                (label, judge(claim, AnswerSentence(claim, "", (page,)), verifier=verifier))
                for page, claim, label in office
            ]
        shares = [_list_shares([verdict for label, verdict in verdicts if label == which]) for which in (1, 0)]
        print(f"| {title} | {' | '.join(shares)} |", flush=True)
    if not found:
        return
    print(
        f"\n{len(found)} sentences, % labelled supported\n| | {' | '.join(ABLATIONS)} |\n|---|" + "---|" * len(columns)
    )
    for row in ("true", *ROWS):
        print(f"| {row} | {' | '.join(_share(each[0][row]) for each in columns)} |")
    print(f"| true, labelled not supported | {' | '.join(_share(each[1]['true']) for each in columns)} |")


def _list_shares(verdicts: Sequence[str]) -> str:
    counted = [100 * verdicts.count(state) / max(1, len(verdicts)) for state in ("supported", "unsure", "unsupported")]
    return " / ".join(f"{share:.0f}" for share in counted) if verdicts else "–"


def _share(values: Sequence[bool]) -> str:
    return f"{100 * np.mean(values):.1f} ({len(values)})" if values else "–"


def print_cost(verifier: Verifier) -> None:
    """The size of the file and the time of a pair over the reranker's, alternately measured."""
    reranker = make_ms_marco_minilm(RerankerConfig())
    passage, claim = "The boiler is checked twice a year by the caretaker. " * 12, "The caretaker checks the boiler."
    ratios = []
    for _ in range(9):
        begun = time.perf_counter()
        verifier.support([(passage, claim)])
        between = time.perf_counter()
        reranker.score(claim, [passage])
        ratios.append((between - begun) / (time.perf_counter() - between))
    size = (MODEL / "model.onnx").stat().st_size / 1e6
    print(f"\n{size:.1f} MB; the time for a pair is {np.median(ratios):.2f} times the reranker's")


@report_missing_set
def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(prog="studies.support", description="Does a passage support a claim?")
    parser.add_argument("--data", type=Path, help="the folder that holds the sets; without it, only the office pages")
    parser.add_argument("--claims", type=int, default=200, help="held-out claims of a source")
    parser.add_argument("--sentences", type=int, default=300, help="sentences of people's answers")
    parser.add_argument("--half", choices=("all", "seen", "unseen"), default="all", help="of those sentences")
    parser.add_argument("--ablate", action="store_true", help="leave out one part of the check at a time")
    parser.add_argument(
        "--collect", type=Path, help="only write the pairs to be read to this file, ending in .jsonl.gz"
    )
    parser.add_argument("--logits", type=Path, nargs=2, metavar=("PAIRS", "LOGITS"), help="of studies.support.score")
    given = parser.parse_args(arguments)
    model = make_support_model(AnswerConfig())
    verifier = RecordedVerifier(model, collects=bool(given.collect))
    if given.logits:
        verifier.load(*given.logits)
    found = read_sentences(given.data, sentences=given.sentences, half=given.half) if given.data else []
    if given.ablate:
        print_ablations(found, verifier)
    else:
        print_pairs("Office pages", {"office": read_pages("office.txt")}, verifier)
        if given.data:
            print_sentences(found, verifier)
            print_pairs("Held-out pairs", read_heldout(given.data, claims=given.claims), verifier)
    if given.collect:
        print(f"{verifier.write(given.collect)} pairs")
    else:
        print_cost(model)


if __name__ == "__main__":
    main()
