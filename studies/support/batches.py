"""Tokenised examples in batches of about equal length, made by several processes while the network trains."""

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.support.material import load_material
from studies.support.mix import Mixture

MAX_TOKENS = 448  # a longer example is left out: its evidence might be cut off
CHUNK = 2048  # examples that a process makes at once
POOL = 16  # chunks that are sorted by length together


@dataclass(frozen=True, slots=True)
class Rows:
    """Token ids of examples, how many of them are the claim's with its special tokens, and the labels."""

    ids: tuple[NDArray[np.int32], ...]
    first: tuple[int, ...]
    labels: tuple[int, ...]


def open_tokenizer(path: Path) -> Any:
    """The tokenizer of a file, without padding and truncation."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def tokenize(examples: Sequence[tuple[str, str, int]], tokenizer: Any, *, max_tokens: int = MAX_TOKENS) -> Rows:
    """The examples as the model reads them, the claim first; those that are too long are left out."""
    encodings = tokenizer.encode_batch([(claim, passage) for passage, claim, _ in examples])
    kept = [
        (np.array(each.ids, np.int32), each.type_ids.index(1), label)
        for each, (_, _, label) in zip(encodings, examples, strict=True)
        if len(each.ids) <= max_tokens and 1 in each.type_ids
    ]
    ids, first, labels = zip(*kept, strict=True)
    return Rows(ids, first, labels)


_worker: dict[str, Any] = {}


def _start_worker(material: Path, tokenizer: Path) -> None:
    _worker["mixture"] = Mixture(load_material(material))
    _worker["tokenizer"] = open_tokenizer(tokenizer)


def _make_chunk(seed: int) -> Rows:
    rng = Random(seed)
    return tokenize([_worker["mixture"].draw(rng) for _ in range(CHUNK)], _worker["tokenizer"])


def stream_batches(
    material: Path,
    tokenizer: Path,
    *,
    seed: int,
    start: int = 0,
    tokens: int = 65536,
    processes: int = 1,
    pool: int = POOL,
) -> Iterator[Rows]:
    """Batches without end; `start` is the first chunk, so that a later run does not repeat an earlier one."""
    seeds = (seed * 10_000_000 + at for at in range(start, 10_000_000))
    if processes > 1:
        with multiprocessing.get_context("fork").Pool(processes, _start_worker, (material, tokenizer)) as workers:
            yield from _arrange(_bound(workers, seeds, 3 * processes + pool), Random(seed + start), tokens, pool)
    else:
        _start_worker(material, tokenizer)
        yield from _arrange(map(_make_chunk, seeds), Random(seed + start), tokens, pool)


def _bound(workers: Any, seeds: Iterator[int], ahead: int) -> Iterator[Rows]:
    """The chunks in order, with at most so many in the making."""
    waiting = [workers.apply_async(_make_chunk, (next(seeds),)) for _ in range(ahead)]
    while True:
        waiting.append(workers.apply_async(_make_chunk, (next(seeds),)))
        yield waiting.pop(0).get()


def _arrange(chunks: Iterator[Rows], rng: Random, tokens: int, pool: int) -> Iterator[Rows]:
    """Batches of examples of about equal length, in random order."""
    while True:
        group = [next(chunks) for _ in range(pool)]
        rows = [row for rows in group for row in zip(rows.ids, rows.first, rows.labels, strict=True)]
        rng.shuffle(rows)
        rows.sort(key=lambda row: len(row[0]))
        batches, batch = [], list[Any]()
        for row in rows:
            if batch and len(row[0]) * (len(batch) + 1) > tokens:
                batches.append(batch)
                batch = []
            batch.append(row)
        batches.append(batch)
        rng.shuffle(batches)
        for each in batches:
            ids, first, labels = zip(*each, strict=True)
            yield Rows(ids, first, labels)


def pad(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The ids, the token types and the mask of a batch, padded to its longest row."""
    length = -(-max(map(len, rows.ids)) // 8) * 8
    ids = np.zeros((len(rows.ids), length), np.int64)
    types, mask = np.zeros_like(ids), np.zeros(ids.shape, np.bool_)
    for at, (row, first) in enumerate(zip(rows.ids, rows.first, strict=True)):
        ids[at, : len(row)], types[at, first : len(row)], mask[at, : len(row)] = row, 1, True
    return ids, types, mask
