"""`python -m studies.reader.train --written FOLDER --groups FILE … --base FOLDER --out FOLDER`: one network for both.

A question is read with a part or a chunk as a claim is with a passage, and the logit says whether it is answered there.
Groups (`studies.reader.groups`) are learned by the choice among the candidates of a question and by each of them alone;
claims are those of the written contexts and of `--material` (`studies.support.material`), if given. Needs torch and
onnx, which Clew does not; minutes on one large GPU.
"""

import argparse
import gzip
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from studies.reader.written import TRAINED, WrittenContext, is_for_development, load_written
from studies.support.batches import MAX_TOKENS, Rows, open_tokenizer, pad, stream_batches
from studies.support.network import load_base, write_onnx

PARTS, CHUNKS = 10, 4  # of a group that are not evidence and are read in a step
ABSENT = 0.4  # of chunks with evidence that are also read without it
PLAIN = 0.2  # of questions that are written in small letters and without their mark
TURNED = 0.15  # of questions that are read after one on another subject, as in a conversation
WARM_UP = 50
AVERAGE = 0.998
SMOOTHING = 0.02

Json = Mapping[str, Any]
Line = tuple[str, str, int]  # passage, claim or question, label


def read_groups(path: Path) -> list[dict[str, Any]]:
    """The groups of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def draw_lines(group: Json, rng: Random, groups: Sequence[Json]) -> tuple[list[Line], list[tuple[int, int]]]:
    """What is read of a group in one step, and the ranges of lines among which one is chosen."""
    question = group["question"]
    if rng.random() < TURNED:
        question = f"{rng.choice(groups)['question']} {question}"
    if rng.random() < PLAIN:
        question = question.lower().rstrip("?")
    lines: list[Line] = []
    ranges = []
    parts = [(part["text"], part["is_evidence"]) for part in group["parts"]]
    for rows, most in ((parts, PARTS), (group["chunks"], CHUNKS)):
        good = [text for text, evidence in rows if evidence][:2]
        others = [text for text, evidence in rows if not evidence]
        others = rng.sample(others, min(most, len(others)))
        if good:
            ranges.append((len(lines), len(lines) + 1 + len(others)))
            lines += [(rng.choice(good), question, 1), *((text, question, 0) for text in others)]
        else:
            lines += [(text, question, 0) for text in others]
    quote = group.get("quote", "")
    if quote and rng.random() < ABSENT:
        with_quote = [text for text, evidence in group["chunks"] if evidence and quote in text]
        lines += [(text.replace(quote, " "), question, 0) for text in with_quote[:1] if len(text) > 3 * len(quote)]
    return lines, ranges


def list_claims(contexts: Sequence[WrittenContext], rng: Random) -> list[Line]:
    """The claims of contexts, each with its passage and sometimes with that of another context."""
    found = []
    for context in contexts:
        other = rng.choice(contexts)
        found += [(context.passage, claim, 1) for claim in context.truths]
        found += [(context.passage, claim, 0) for claim in context.lies]
        if other is not context and context.truths:
            found.append((other.passage, rng.choice(context.truths), 0))
    return found


def stream_written(
    groups: Sequence[Json],
    contexts: Sequence[WrittenContext],
    tokenizer: Any,
    *,
    size: int,
    tasks: Sequence[str],
    seed: int,
) -> Iterator[tuple[Rows, list[tuple[int, int]], float]]:
    """Batches of groups and claims without end: rows, the ranges of choices, and how many epochs are done."""
    rng = Random(seed)
    epoch = 0
    while True:
        kept = list(groups) if "read" in tasks else []
        claims = list_claims(contexts, rng) if "support" in tasks else []
        rng.shuffle(kept)
        rng.shuffle(claims)
        steps = max(1, -(-len(kept) // size))
        each = -(-len(claims) // steps)
        for at in range(steps):
            lines: list[Line] = []
            ranges = []
            for group in kept[at * size : (at + 1) * size]:
                more, choices = draw_lines(group, rng, kept)
                ranges += [(low + len(lines), high + len(lines)) for low, high in choices]
                lines += more
            lines += claims[at * each : (at + 1) * each]
            yield _encode(lines, tokenizer), ranges, epoch + at / steps
        epoch += 1


def _encode(lines: Sequence[Line], tokenizer: Any) -> Rows:
    """All lines as rows; the end of a passage that is too long is cut off, so that the ranges stay right."""
    encodings = tokenizer.encode_batch([(claim, passage) for passage, claim, _ in lines])
    ids, first = [], []
    for each in encodings:
        row = each.ids if len(each.ids) <= MAX_TOKENS else [*each.ids[: MAX_TOKENS - 1], each.ids[-1]]
        ids.append(np.array(row, np.int32))
        first.append(each.type_ids.index(1))
    return Rows(tuple(ids), tuple(first), tuple(label for _, _, label in lines))


def train(given: argparse.Namespace) -> None:
    """Trains for the epochs or the seconds that are given, and writes the model."""
    begun = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(given.seed)
    torch.set_float32_matmul_precision("high")
    network = load_base(given.base / "model.onnx").to(device)
    mean = {name: value.detach().clone() for name, value in network.state_dict().items()}
    trained = [value for value in network.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=given.rate, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
    tokenizer = open_tokenizer(given.base / "tokenizer.json")
    groups = [each for path in given.groups for each in read_groups(path) if not is_for_development(each["id"])]
    written = [each for name in TRAINED for each in load_written(name, given.written)]
    contexts = [each for each in written if not is_for_development(each.id)]
    batches = stream_written(groups, contexts, tokenizer, size=given.size, tasks=given.tasks, seed=given.seed)
    rehearsal = None
    if given.material:
        rehearsal = stream_batches(
            given.material, given.base / "tokenizer.json",
            seed=given.seed, tokens=given.tokens, processes=given.processes, pool=4,
        )  # fmt: skip
        next(rehearsal)
    entered, step, losses = time.monotonic(), 0, [0.0, 0.0, 0.0]
    while True:
        rows, ranges, epoch = next(batches)
        progress = max(epoch / given.epochs, (time.monotonic() - entered) / given.seconds)
        if progress >= 1:
            break
        rate = given.rate * min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        logits = _run(network, rows, device)
        labels = torch.tensor(rows.labels, dtype=torch.float32, device=device)
        alone = _compute_loss(logits, labels)
        choice = _compute_choice_loss(logits, ranges)
        (alone + given.choice * choice).backward()
        losses[0] += alone.item()
        losses[1] += choice.item()
        if rehearsal is not None:
            more = next(rehearsal)
            loss = _compute_loss(
                _run(network, more, device), torch.tensor(more.labels, dtype=torch.float32, device=device)
            )
            (given.rehearse * loss).backward()
            losses[2] += loss.item()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        decay = min(AVERAGE, (step + 1) / (step + 10))
        with torch.no_grad():
            current = network.state_dict()
            torch._foreach_lerp_(list(mean.values()), [current[name] for name in mean], 1 - decay)
        step += 1
        if step % given.report == 0:
            means = ", ".join(f"{each / given.report:.4f}" for each in losses)
            print(f"step {step}, epoch {epoch:.2f}: {means}, {time.monotonic() - begun:.0f} s", flush=True)
            losses = [0.0, 0.0, 0.0]
    given.out.mkdir(parents=True, exist_ok=True)
    weights = {name: value.float().cpu().numpy() for name, value in mean.items()}
    write_onnx(given.base / "model.onnx", weights, given.out / "model.onnx")
    print(f"{step} steps, {epoch:.1f} epochs, {time.monotonic() - begun:.0f} s", flush=True)


def _run(network: Any, rows: Rows, device: str, *, buckets: int = 4) -> torch.Tensor:
    """The logits of rows, in buckets of about equal length."""
    order = sorted(range(len(rows.ids)), key=lambda at: len(rows.ids[at]))
    size = -(-len(order) // buckets)
    found = []
    for low in range(0, len(order), size):
        part = order[low : low + size]
        some = Rows(tuple(rows.ids[at] for at in part), tuple(rows.first[at] for at in part), (0,) * len(part))
        inputs = [torch.from_numpy(each).to(device, non_blocking=True) for each in pad(some)]
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            found.append(network(*inputs).float())
    places = torch.tensor(order, device=device).argsort()
    return torch.cat(found)[places]


def _compute_choice_loss(logits: torch.Tensor, ranges: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The mean loss of choosing the first of each range."""
    if not ranges:
        return torch.zeros((), device=logits.device)
    return torch.stack([torch.logsumexp(logits[low:high], 0) - logits[low] for low, high in ranges]).mean()


def _compute_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.binary_cross_entropy_with_logits(logits, labels * (1 - 2 * SMOOTHING) + SMOOTHING)


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains and writes the model."""
    parser = argparse.ArgumentParser(prog="studies.reader.train", description="Trains the reader.")
    parser.add_argument("--groups", type=Path, nargs="*", default=[], help="files of studies.reader.groups")
    parser.add_argument("--written", type=Path, required=True, help="the folder of the written contexts")
    parser.add_argument(
        "--material", type=Path, help="the file of studies.support.material: claims that go on being read"
    )
    parser.add_argument("--base", type=Path, required=True, help="the folder of model.onnx and tokenizer.json")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write model.onnx to")
    parser.add_argument("--tasks", nargs="+", choices=("read", "support"), default=["read", "support"])
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--rate", type=float, default=4e-5, help="the highest learning rate")
    parser.add_argument("--size", type=int, default=24, help="groups of a step")
    parser.add_argument("--tokens", type=int, default=32768, help="of a batch of the material")
    parser.add_argument("--rehearse", type=float, default=1.0, help="the weight of the material")
    parser.add_argument("--choice", type=float, default=0.5, help="the weight of the choice among candidates")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--report", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    train(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
