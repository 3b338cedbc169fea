"""Texts for the benchmarks, from public sets in a folder of the user; none is shipped."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import Setup, Skipped
from clew.core.sentences import split_sentences


@dataclass(frozen=True, slots=True)
class CorpusText:
    """A text and its id."""

    id: str
    text: str


def load_scifact(setup: Setup) -> tuple[list[CorpusText], list[CorpusText]]:
    """The 5,183 abstracts of SciFact with their titles, and its training questions."""
    folder = _find_folder(setup, "scifact")
    corpus = [
        CorpusText(each["_id"], f"{each['title']}\n{each['text']}") for each in _read_jsonl(folder / "corpus.jsonl.gz")
    ]
    queries = [CorpusText(each["_id"], each["text"]) for each in _read_jsonl(folder / "queries.train.jsonl")]
    return corpus, queries


def load_texts(setup: Setup, count: int) -> list[CorpusText]:
    """So many distinct short texts: sentences and passages of several sets."""
    seen: set[str] = set()
    texts: list[CorpusText] = []
    for text in _iter_texts(setup):
        if len(text) > 30 and text not in seen:
            seen.add(text)
            texts.append(CorpusText(f"t{len(texts)}", text))
            if len(texts) == count:
                return texts
    raise Skipped(f"the sets hold only {len(texts)} of the {count} texts that are needed")


def _iter_texts(setup: Setup) -> Iterator[str]:
    for text in load_scifact(setup)[0]:
        yield from (text.text[start:end] for start, end in split_sentences(text.text))
    for name in ("trec-dl-pool/dl19/corpus_pool.jsonl.gz", "cosqa/corpus.jsonl.gz"):
        for line in _read_jsonl(_find_folder(setup, "scifact").parent / name):
            yield str(next(line[key] for key in ("text", "contents", "code", "passage") if key in line))
    for line in _read_jsonl(_find_folder(setup, "qmsum") / "train.jsonl.gz"):
        for turn in _iter_strings(line):
            yield from (turn[start:end] for start, end in split_sentences(turn))


def _iter_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _iter_strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _iter_strings(member)


def _find_folder(setup: Setup, name: str) -> Path:
    if setup.data is None or not (setup.data / name).is_dir():
        raise Skipped(f"needs the set {name!r}; give its folder with --data")
    return setup.data / name


def _read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
