"""`python -m studies.support.score --model FILE --tokenizer FILE --pairs FILE --out FILE`: logits of many pairs, by torch.

For tables over whole sets, which take minutes on a GPU and hours without. A line of the pairs is a list that begins with
a passage and a claim; the output is one list of logits in the same order. Long passages are read in overlapping windows,
as the driver reads them.
"""

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.support.batches import MAX_TOKENS, Rows, open_tokenizer, pad
from studies.support.network import Network, load_base

OVERLAP, MAX_HEADING = 96, 48


def cut(passage: list[int], heading: list[int], size: int) -> list[list[int]]:
    """The windows of a passage; after the first, each begins with the passage's first line if that is short."""
    if len(passage) <= size:
        return [passage]
    head = heading if len(heading) <= min(MAX_HEADING, size // 4) else []
    room = size - len(head)
    count = -(-(len(passage) - OVERLAP) // (room - OVERLAP))
    starts = [at * (len(passage) - room) // (count - 1) for at in range(count)]
    return [passage[:room], *(head + passage[start : start + room] for start in starts[1:])]


def make_rows(pairs: Sequence[tuple[str, str]], tokenizer: Any) -> tuple[Rows, list[int]]:
    """The windows of all pairs, and which pair each belongs to."""
    start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    texts = [text for passage, claim in pairs for text in (passage, claim, passage.partition("\n")[0])]
    tokens = [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
    ids, first, owners = [], [], []
    for owner in range(len(pairs)):
        passage, claim, heading = tokens[3 * owner : 3 * owner + 3]
        claim = claim[: (MAX_TOKENS - 3) // 2]
        for window in cut(passage, heading, MAX_TOKENS - 3 - len(claim)):
            ids.append(np.array([start, *claim, end, *window, end], np.int32))
            first.append(len(claim) + 2)
            owners.append(owner)
    return Rows(tuple(ids), tuple(first), (0,) * len(ids)), owners


def score(network: Network, rows: Rows, device: str, *, tokens: int = 131_072, fast: bool = False) -> list[float]:
    """The logit of each row."""
    order = sorted(range(len(rows.ids)), key=lambda at: len(rows.ids[at]))
    found, at = [0.0] * len(order), 0
    network.eval()
    with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=fast):
        while at < len(order):
            size = max(1, min(1024, tokens // max(1, len(rows.ids[order[min(len(order) - 1, at + 255)]]))))
            part = order[at : at + size]
            batch = Rows(tuple(rows.ids[one] for one in part), tuple(rows.first[one] for one in part), (0,) * len(part))
            logits = network(*(torch.from_numpy(each).to(device) for each in pad(batch)))
            for one, logit in zip(part, logits.float().tolist(), strict=True):
                found[one] = logit
            at += size
    network.train()
    return found


def score_pairs(network: Network, pairs: Sequence[tuple[str, str]], tokenizer: Any, device: str) -> list[float]:
    """The logit of each pair: that of its best window."""
    rows, owners = make_rows(pairs, tokenizer)
    best = [-1e9] * len(pairs)
    for owner, logit in zip(owners, score(network, rows, device), strict=True):
        best[owner] = max(best[owner], logit)
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the logits."""
    parser = argparse.ArgumentParser(prog="studies.support.score", description="Logits of many pairs.")
    for name in ("model", "tokenizer", "pairs", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args(arguments)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with gzip.open(given.pairs, "rt", encoding="utf-8") as file:
        pairs = [tuple(json.loads(line)[:2]) for line in file]
    logits = score_pairs(load_base(given.model).to(device), pairs, open_tokenizer(given.tokenizer), device)
    with gzip.open(given.out, "wt", encoding="utf-8") as file:
        json.dump([round(each, 3) for each in logits], file)


if __name__ == "__main__":
    main()
