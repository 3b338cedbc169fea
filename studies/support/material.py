"""`python -m studies.support.material --data FOLDER --out FILE`: everything that training reads, in one file.

FOLDER holds the public sets: `support/train.jsonl.gz` (pairs that may be trained on), `qmsum` (meetings, and what people
wrote about them) and `multihop` (paragraphs of Wikipedia). Paragraphs and pairs that share twelve words in a row with a held-out premise or with a passage of the
ClapNQ answers are left out; nothing else is read of those two.
"""

import argparse
import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

SHINGLE = 12  # words in a row that must not recur
MAX_MEETING = 300  # words of a part of a meeting
TUNING = 25  # one premise in so many is for tuning
_END = re.compile(r"(?<=[.!?]) +(?=[A-Z\"“(])")
_NOISE = re.compile(r"\{\w+\}|\s(?=[.,?!])")
_ABBREVIATION = re.compile(r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof|No|vs|etc|Inc|Ltd|Co|U\.S)\.)$")


@dataclass(frozen=True, slots=True)
class Pairs:
    """A premise and what is claimed of it, each with its label."""

    source: str
    premise: str
    claims: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of Wikipedia: its title and its sentences."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Material:
    """The pairs and the paragraphs of one part: training or tuning."""

    pairs: tuple[Pairs, ...]
    paragraphs: tuple[Paragraph, ...]


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a compressed file, one a line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def is_for_tuning(text: str) -> bool:
    """Whether a premise or a title belongs to the tuning part."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % TUNING == 0


def split_text(text: str) -> list[str]:
    """The sentences of a paragraph; one that ends in an abbreviation is joined with the next."""
    found: list[str] = []
    for part in _END.split(" ".join(text.split())):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] += f" {part}"
        else:
            found.append(part)
    return found


def load_material(path: Path, *, tuning: bool = False) -> Material:
    """The part of the file for training, or that for tuning."""
    pairs, paragraphs = [], []
    for row in read_rows(path):
        if "premise" in row:
            if is_for_tuning(row["premise"]) == tuning:
                pairs.append(
                    Pairs(row["source"], row["premise"], tuple((text, label) for text, label in row["claims"]))
                )
        elif is_for_tuning(row["title"]) == tuning:
            paragraphs.append(Paragraph(row["title"], tuple(row["sentences"])))
    return Material(tuple(pairs), tuple(paragraphs))


def list_shingles(text: str) -> Iterator[int]:
    """Hashes of all runs of twelve words."""
    words = re.findall(r"\w+", text.lower())
    for at in range(len(words) - SHINGLE + 1):
        yield hash(tuple(words[at : at + SHINGLE]))


def read_meetings(path: Path) -> Iterator[dict[str, Any]]:
    """Short parts of meetings and the sentences in which people answered a question from them: true in other words."""
    for meeting in read_rows(path):
        turns = meeting["meeting_transcripts"]
        for query in meeting["specific_query_list"]:
            parts = [turn for low, high in query["relevant_text_span"] for turn in turns[int(low) : int(high) + 1]]
            lines = [f"{turn['speaker']}: {_NOISE.sub('', turn['content'])}" for turn in parts]
            text = "\n".join(" ".join(line.split()) for line in lines)
            claims = [[each, 1] for each in split_text(query["answer"]) if 6 <= len(each.split()) <= 45]
            if 20 <= len(text.split()) <= MAX_MEETING and claims:
                yield {"source": "qmsum", "premise": text, "claims": claims}


def split_summaries(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The single sentences of true summaries, each of which is true as well."""
    for row in rows:
        if row["source"].startswith("summedits"):
            true = [each for text, label in row["claims"] if label for each in split_text(text)]
            claims = [[each, 1] for each in dict.fromkeys(true) if len(each.split()) >= 6]
            if claims:
                yield {"source": "summary", "premise": row["premise"], "claims": claims}


def write_material(data: Path, out: Path) -> tuple[int, int, int]:
    """Writes the file; how many premises and paragraphs it has, and how many were left out."""
    kept_back: set[int] = set()
    for row in read_rows(data / "support" / "heldout.jsonl.gz"):
        kept_back.update(list_shingles(row["premise"]))
    for row in read_rows(data / "mtrag" / "clapnq" / "corpus_pool.jsonl.gz"):
        kept_back.update(list_shingles(row["text"]))
    premises = paragraphs = dropped = 0
    rows = []
    for row in read_rows(data / "support" / "train.jsonl.gz"):
        if row["source"] in _RECURRING or kept_back.isdisjoint(list_shingles(row["premise"])):
            rows.append(row)
            premises += 1
        else:
            dropped += 1
    for row in [*read_meetings(data / "qmsum" / "train.jsonl.gz"), *list(split_summaries(rows))]:
        if kept_back.isdisjoint(list_shingles(row["premise"])):
            rows.append(row)
            premises += 1
        else:
            dropped += 1
    titles: set[str] = set()
    for name in ("musique", "hotpotqa", "2wikimultihopqa"):
        for row in read_rows(data / "multihop" / name / "corpus.jsonl.gz"):
            sentences = [each for each in split_text(row["text"]) if 4 <= len(each.split()) <= 70]
            key = row["title"] + row["text"][:40]
            if len(sentences) < 2 or key in titles:
                continue
            titles.add(key)
            if kept_back.isdisjoint(list_shingles(row["text"])):
                rows.append({"title": row["title"], "sentences": sentences})
                paragraphs += 1
            else:
                dropped += 1
    Random(1).shuffle(rows)
    with gzip.GzipFile(out, "wb", mtime=0) as file:
        for row in rows:
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
    return premises, paragraphs, dropped


# Sets of made or of single sentences, which recur across their own splits.
_RECURRING = frozenset(
    [
        "med",
        "breaking_nli",
        "semanto",
        "infotabs",
        "tabfact",
        "cur_boolean",
        "cur_comparative",
        "cur_conditional",
        "cur_control",
        "cur_coreference",
        "cur_counting",
        "cur_drop",
        "cur_kg_relations",
        "cur_lexical",
        "cur_monotonicity_infer",
        "cur_negation",
        "cur_quantifier",
        "cur_spatial",
        "cur_syntactic_alternation",
        "cur_syntactic_variation",
        "cur_temporal",
        "cur_verbnet",
    ]
)


def main() -> None:
    """Writes the material and prints its size."""
    parser = argparse.ArgumentParser(
        prog="studies.support.material", description="The material of training, in one file."
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the public sets")
    parser.add_argument("--out", type=Path, required=True, help="the file to write, ending in .jsonl.gz")
    given = parser.parse_args()
    for name in ("support", "multihop", "mtrag", "qmsum"):
        if not (given.data / name).is_dir():
            parser.error(f"there is no {given.data / name}; give the folder that holds the sets with --data")
    premises, paragraphs, dropped = write_material(given.data, given.out)
    print(f"{premises} premises and {paragraphs} paragraphs; {dropped} left out, being close to what is held out")


if __name__ == "__main__":
    main()
