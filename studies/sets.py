"""Loaders of the public judged sets, from a folder of the user; none is shipped."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from studies.measures import Span

P = ParamSpec("P")


class MissingSet(Exception):
    """A set that is not in the folder, or incomplete."""


def report_missing_set(main: Callable[P, None]) -> Callable[P, None]:
    """Decorates the main function of a study: a missing set becomes a one-line error."""

    @wraps(main)
    def run(*args: P.args, **given: P.kwargs) -> None:
        try:
            main(*args, **given)
        except MissingSet as error:
            raise SystemExit(f"error: {error}") from None

    return run


@dataclass(frozen=True, slots=True)
class SpanQuestion:
    """A question and its gold spans in one text."""

    text: str
    corpus: str
    gold: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class SpanSet:
    """Texts by name, and questions with gold spans."""

    corpora: dict[str, str]
    questions: list[SpanQuestion]


@dataclass(frozen=True, slots=True)
class SplitFile:
    """A file that is split into given pieces; joined in order, they are its text."""

    id: str
    path: str
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PieceQuestion:
    """A question and its relevant pieces, by their stripped text."""

    id: str
    text: str
    gold: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PieceSet:
    """Files in pieces, and questions with relevant pieces."""

    files: list[SplitFile]
    questions: list[PieceQuestion]


@dataclass(frozen=True, slots=True)
class QuoteQuestion:
    """A question, the uri of the document that answers it best, and the quote there that does."""

    id: str
    text: str
    document: str
    quote: str


def load_chunking_eval(folder: Path) -> SpanSet:
    """Chroma's chunking evaluation: the corpora in the folder, and their questions."""
    corpora = {}
    for path in sorted(_find_file(folder, "corpora").glob("*.md")):
        with path.open(
            encoding="utf-8", newline=""
        ) as file:  # indices count characters, so newlines must stay as they are
            corpora[path.stem] = file.read()
    questions = [
        SpanQuestion(
            line["question"],
            line["corpus_id"],
            tuple((each["start_index"], each["end_index"]) for each in line["references"]),
        )
        for line in read_jsonl(_find_file(folder, "questions.jsonl"))
        if line["corpus_id"] in corpora
    ]
    if not questions:
        raise MissingSet(f"{folder} has no corpus that a question belongs to")
    return SpanSet(corpora, questions)


def load_contextual_retrieval(folder: Path) -> PieceSet:
    """Anthropic's contextual retrieval: code files in given pieces, and questions with their relevant pieces."""
    pieces: dict[str, list[tuple[int, str]]] = {}
    texts: dict[str, str] = {}
    for line in read_jsonl(_find_file(folder, "chunks.jsonl.gz")):
        pieces.setdefault(line["doc_id"], []).append((line["original_index"], line["content"]))
        texts[line["chunk_id"]] = line["content"].strip()
    files = [
        SplitFile(line["doc_id"], line.get("path", ""), tuple(text for _, text in sorted(pieces[line["doc_id"]])))
        for line in read_jsonl(_find_file(folder, "documents.jsonl.gz"))
    ]
    questions = [
        PieceQuestion(line["_id"], line["text"], tuple(dict.fromkeys(texts[id_] for id_ in line["golden_chunk_ids"])))
        for line in read_jsonl(_find_file(folder, "queries.jsonl"))
    ]
    return PieceSet(files, questions)


def load_quote_questions(file: Path) -> list[QuoteQuestion]:
    """The judged questions of a file like `examples/questions.jsonl`."""
    return [
        QuoteQuestion(line["id"], line["question"], line["documents"][0], line["quote"]) for line in read_jsonl(file)
    ]


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file, gzipped or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _find_file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.exists():
        raise MissingSet(f"there is no {name} in {folder}; give the folder of the set with --data")
    return path
