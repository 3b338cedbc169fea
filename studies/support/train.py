"""`python -m studies.support.train --material FILE --base FOLDER --out FOLDER`: trains the support checker.

FOLDER of --base holds the reranker's model.onnx and tokenizer.json. Needs torch and onnx, which Clew does not; takes
about twenty minutes on one large GPU. With --checkpoint, a run that was stopped after --seconds goes on where it was.
Writes model.onnx (int8) and tuning.json (the logits of the tuning part, by which it is calibrated).
"""

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from studies.support.batches import open_tokenizer, pad, stream_batches
from studies.support.measures import measure_auc
from studies.support.network import Network, load_base, write_onnx
from studies.support.score import score_pairs
from studies.support.tuning import TuningExample, load_tuning

WARM_UP = 300  # steps
SMOOTHING = 0.03  # of the labels, some of which are wrong
AVERAGE = 0.9995  # of the running mean of the weights, which is what is kept


def learning_rate(step: int, progress: float, peak: float) -> float:
    """Up in the first steps, then down to zero along a cosine, as the share of the work that is done grows to 1."""
    return peak * min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def train(given: argparse.Namespace) -> None:
    """Trains until the steps or the seconds are over, then writes the checkpoint and, at the end, the model."""
    begun = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(given.seed)
    torch.set_float32_matmul_precision("high")
    network = load_base(given.base / "model.onnx").to(device)
    mean = {name: value.detach().clone() for name, value in network.state_dict().items()}
    parts: list[dict[str, Any]] = [
        {
            "params": [value for value in network.parameters() if value.requires_grad and value.ndim > 1],
            "weight_decay": 0.01,
        },
        {
            "params": [value for value in network.parameters() if value.requires_grad and value.ndim < 2],
            "weight_decay": 0.0,
        },
    ]
    optimizer = torch.optim.AdamW(parts, lr=given.rate, betas=(0.9, 0.98), eps=1e-6, fused=device == "cuda")
    step, chunk, spent = 0, 0, 0.0
    if given.checkpoint and given.checkpoint.exists():
        state = torch.load(given.checkpoint, map_location=device, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        mean, step, chunk, spent = state["mean"], state["step"], state["chunk"], state["spent"]
    tokenizer = open_tokenizer(given.base / "tokenizer.json")
    tuning = load_tuning(given.tuning)
    batches = stream_batches(
        given.material, given.base / "tokenizer.json",
        seed=given.seed, start=chunk, tokens=given.tokens, processes=given.processes, pool=given.pool,
    )  # fmt: skip
    examples, loss_sum, since = 0, torch.zeros((), device=device), time.monotonic()
    run = torch.compile(network, dynamic=True) if given.compile else network
    rows, entered, progress = next(batches), time.monotonic(), 0.0
    while time.monotonic() - begun < given.seconds:
        progress = max(step / given.steps, (spent + time.monotonic() - entered) / given.total)
        if progress >= 1:
            break
        rows = next(batches)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, progress, given.rate)
        inputs = [torch.from_numpy(each).to(device, non_blocking=True) for each in pad(rows)]
        labels = torch.tensor(rows.labels, dtype=torch.float32, device=device)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = run(*inputs)
        target = labels * (1 - 2 * SMOOTHING) + SMOOTHING
        loss = functional.binary_cross_entropy_with_logits(logits.float(), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        decay = min(AVERAGE, (step + 1) / (step + 10))
        if step % 5 == 0:
            with torch.no_grad():
                current = network.state_dict()
                torch._foreach_lerp_(list(mean.values()), [current[name] for name in mean], 1 - decay**5)
        step += 1
        examples += len(rows.labels)
        loss_sum += loss.detach()
        if step % given.report == 0:
            took = time.monotonic() - since
            print(f"step {step}: loss {loss_sum.item() / given.report:.4f}, {examples / took:.0f} examples/s, {time.monotonic() - begun:.0f} s", flush=True)  # fmt: skip
            examples, since = 0, time.monotonic()
            loss_sum.zero_()
        if step % given.check == 0:
            print_tuning(network, tuning, tokenizer, device)
    if given.checkpoint:
        state = {
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "mean": mean,
            "step": step,
            "spent": spent + time.monotonic() - entered,
        }
        torch.save({**state, "chunk": chunk + step}, given.checkpoint)  # a step uses less than a chunk
    network.load_state_dict(mean)  # and leave the running weights in the checkpoint
    given.out.mkdir(parents=True, exist_ok=True)
    write_onnx(
        given.base / "model.onnx",
        {name: value.float().cpu().numpy() for name, value in mean.items()},
        given.out / "model.onnx",
    )
    logits = print_tuning(network, tuning, tokenizer, device)
    judged = [[each.source, each.kind, each.label, round(logit, 3)] for each, logit in zip(tuning, logits, strict=True)]
    (given.out / "tuning.json").write_text(json.dumps(judged), "utf-8")
    print(f"{step} steps, {100 * progress:.1f} % done, after {time.monotonic() - begun:.0f} s", flush=True)


def print_tuning(network: Network, tuning: list[TuningExample], tokenizer: Any, device: str) -> list[float]:
    """Prints the AUC by source of the tuning part; its logits."""
    logits = score_pairs(network, [(each.passage, each.claim) for each in tuning], tokenizer, device)
    groups: dict[str, list[int]] = {}
    for at, each in enumerate(tuning):
        groups.setdefault(each.source, []).append(at)
    found = {
        name: measure_auc([logits[at] for at in places], [tuning[at].label for at in places])
        for name, places in groups.items()
        if len({tuning[at].label for at in places}) > 1
    }
    print("  AUC " + ", ".join(f"{name} {value:.3f}" for name, value in sorted(found.items())), flush=True)
    print(f"  mean {sum(found.values()) / max(1, len(found)):.4f}", flush=True)
    return logits


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains and writes the model."""
    parser = argparse.ArgumentParser(prog="studies.support.train", description="Trains the support checker.")
    parser.add_argument("--material", type=Path, required=True, help="the file that studies.support.material writes")
    parser.add_argument(
        "--base", type=Path, required=True, help="the folder of the reranker's model.onnx and tokenizer.json"
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to write model.onnx and tuning.json to")
    parser.add_argument("--checkpoint", type=Path, help="a file to go on from, and to write when stopped")
    parser.add_argument("--steps", type=int, default=25_000, help="in all")
    parser.add_argument(
        "--total", type=float, default=math.inf, help="seconds of training in all, instead of the steps"
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop this run after so long")
    parser.add_argument("--tokens", type=int, default=65536, help="of a batch, with its padding")
    parser.add_argument("--rate", type=float, default=1.5e-4, help="the highest learning rate")
    parser.add_argument("--processes", type=int, default=14, help="that make examples")
    parser.add_argument("--pool", type=int, default=16, help="chunks that are sorted by length together")
    parser.add_argument("--tuning", type=Path, required=True, help="the file that studies.support.tuning writes")
    parser.add_argument("--report", type=int, default=200)
    parser.add_argument("--check", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="compile the network first, which takes a minute")
    train(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
