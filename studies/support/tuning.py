"""`python -m studies.support.tuning --data FOLDER --out FILE`: the examples by which thresholds are chosen.

Nothing is trained on them, and nothing that is measured at the end is among them: the dev splits of WiCE and SummEdits,
premises of the training sets that were kept for this (only claims that do not recur in training), sentences that people
wrote about meetings of another split, and ten pages of ours. Of true claims, lies of each kind are made.
"""

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from random import Random

from studies.support import edits
from studies.support.material import is_for_tuning, read_meetings, read_rows, split_text

SEED = 4242
CAP = 400  # true claims of a source, and as many false ones
MAX_WORDS = 330
LIES = {
    "number": edits.edit_number,
    "month": edits.edit_month,
    "unit": edits.edit_unit,
    "name": edits.edit_name,
    "names exchanged": edits.exchange_names,
    "negation": edits.edit_negation,
    "opposite": edits.edit_opposite,
    "word": edits.edit_word,
    "strange word": edits.edit_far_word,
}


@dataclass(frozen=True, slots=True)
class TuningExample:
    """Where a passage and a claim are from, what was changed in the claim, whether it follows."""

    source: str
    kind: str
    passage: str
    claim: str
    label: int


def read_pages(name: str) -> list[tuple[str, str, int]]:
    """The sentences about the pages of a file of this folder."""
    text = (Path(__file__).parent / name).read_text("utf-8")
    found = []
    for block in text.split("\n\n")[1:]:
        lines = block.strip().splitlines()
        page = "\n".join(line for line in lines if line[:2] not in ("+ ", "- ")).removeprefix("= ")
        found += [(page, line[2:], int(line[0] == "+")) for line in lines if line[:2] in ("+ ", "- ")]
    return found


def list_tuning(data: Path) -> list[TuningExample]:
    """The examples, of each source and label at most so many as they are, and a lie of each kind for true ones."""

    found: list[TuningExample] = []
    taken: Counter[tuple[str, int]] = Counter()
    for source, premise, claim, label in _read_natural(data):
        taken[source, label] += 1
        if taken[source, label] <= CAP and len(premise.split()) + len(claim.split()) <= MAX_WORDS:
            found.append(TuningExample(source, "as it is", premise, claim, label))
    rng = Random(SEED)
    true = [each for each in found if each.label and each.source in ("wice", "summary", "qmsum", "fever", "fm2_long")]
    for each in true:
        for kind, edit in LIES.items():
            false = edit(each.claim, each.passage, rng)
            if false and false != each.claim:
                found.append(TuningExample(each.source, kind, each.passage, false, 0))
        other = rng.choice(true)
        if other.passage != each.passage and other.source == each.source:
            found.append(TuningExample(each.source, "another passage", other.passage, each.claim, 0))
    return found + [TuningExample("pages", "as it is", *each) for each in read_pages("tuning_pages.txt")]


def _read_natural(data: Path) -> Iterator[tuple[str, str, str, int]]:
    trained: set[str] = set()
    rows = list(read_rows(data / "support" / "train.jsonl.gz"))
    for row in rows:
        if not is_for_tuning(row["premise"]):
            trained.update(claim for claim, _ in row["claims"])
    for row in rows:
        if is_for_tuning(row["premise"]) and row["source"] in ("fever", "fm2", "fm2_long", "infotabs", "scifact"):
            yield from ((row["source"], row["premise"], *claim) for claim in row["claims"] if claim[0] not in trained)
    for row in read_rows(data / "support" / "heldout.jsonl.gz"):
        for claim, label, split in row["claims"]:
            if split == "dev" and claim not in trained:
                yield row["source"].partition("_")[0], row["premise"], claim, label
                if label and row["source"].startswith("summedits"):
                    sentences = [each for each in split_text(claim) if len(each.split()) > 5]
                    yield from (("summary", row["premise"], each, 1) for each in sentences[:2])
    for row in read_meetings(data / "qmsum" / "val.jsonl.gz"):
        yield from (("qmsum", row["premise"], claim, label) for claim, label in row["claims"])


def load_tuning(path: Path) -> list[TuningExample]:
    """The examples of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [TuningExample(*json.loads(line)) for line in file]


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the file and prints how many examples it has."""
    parser = argparse.ArgumentParser(prog="studies.support.tuning", description="Examples to choose thresholds by.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the public sets")
    parser.add_argument("--out", type=Path, required=True, help="the file to write, ending in .jsonl.gz")
    given = parser.parse_args(arguments)
    found = list_tuning(given.data)
    with gzip.GzipFile(given.out, "wb", mtime=0) as file:
        for each in found:
            file.write((json.dumps(astuple(each), ensure_ascii=False) + "\n").encode())
    print(f"{len(found)} examples: {dict(Counter(each.source for each in found))}")


if __name__ == "__main__":
    main()
