"""Training: two small nets learn together which of the messages before is answered, or that none is.

The loss of a message is −log of the probability (softmax over all candidates and opening) of its gold answers. Adam
with a rate that falls to zero; each round sees every log once, some of them without times, names or authors, or at
another pace, so that the nets learn to do without.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import cos, pi

import numpy as np
from numpy.typing import NDArray

from clew.index.thread.untangle.cues import extract_cues
from clew.index.thread.untangle.features import ReplyFeatures, extract_features
from clew.index.thread.untangle.matrices import REACH, ChannelWindow, Floats
from clew.index.thread.untangle.net import INPUTS, Layers, ReplyNet
from studies.untangling.logs import (
    Log,
    make_bursts,
    remove_addressing,
    remove_authors,
    remove_times,
    slow_down,
    split_into_channels,
)

BATCH = 64
BLOCK = 128
GROUP = 12  # logs whose messages are shuffled together
NEAR, SHARE = 30, 0.3  # candidates that are always trained on, and the share of those farther back
SIZES = {"pair": (64, 32), "message": (32,)}


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Evidence and the columns that are right: 0 for opening, else how far back."""

    features: ReplyFeatures
    targets: NDArray[np.bool_]  # m × (1 + REACH)


def make_examples(log: Log) -> TrainingBatch:
    """The annotated messages of a log whose answers can be reached."""
    places = [at for at, message in enumerate(log.messages) if message.role != "system"]
    start = next(at for at, place in enumerate(places) if place >= log.first)
    places, start = places[max(0, start - REACH) :], min(start, REACH)
    order = {place: at for at, place in enumerate(places)}
    said = [extract_cues(log.messages[place]) for place in places]
    parts: list[ReplyFeatures] = []
    right: list[NDArray[np.bool_]] = []
    for begin in range(start, len(said), BLOCK):
        opening = max(0, begin - REACH)
        part = extract_features(ChannelWindow.build(said[opening : begin + BLOCK], begin - opening))
        golden = np.zeros((len(part.messages), 1 + REACH), bool)
        for row, at in enumerate(range(begin, begin + len(part.messages))):
            for answered in log.gold.get(places[at], ()):
                if answered in order and at - order[answered] <= REACH:
                    golden[row, at - order[answered]] = True
        keep = golden.any(axis=1)
        parts.append(ReplyFeatures(part.pairs[keep], part.valid[keep], part.messages[keep]))
        right.append(golden[keep])
    return TrainingBatch(_concatenate(parts), np.concatenate(right))


def _concatenate(parts: Sequence[ReplyFeatures]) -> ReplyFeatures:
    return ReplyFeatures(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("pairs", "valid", "messages"))
    )


def augment(log: Log, chance: random.Random) -> list[Log]:
    """The log as it is, or as a channel of another kind, or with less to go by."""
    draw = chance.random()
    if chance.random() < 0.2:
        log = slow_down(log, 10 ** chance.uniform(0.3, 2))
    if chance.random() < 0.25:
        log = remove_addressing(log)
    if chance.random() < 0.03:
        log = remove_authors(log)
    if draw < 0.30:
        return [make_bursts(log, chance)]
    if draw < 0.40:
        return split_into_channels(log, chance)
    return [remove_times(log) if draw < 0.50 else log]


def make_batches(given: Sequence[Log], chance: random.Random, *, use_augmentation: bool) -> Iterator[TrainingBatch]:
    """Every message once, in shuffled batches."""
    order = chance.sample(list(given), len(given))
    for begin in range(0, len(order), GROUP):
        chosen = [
            each
            for log in order[begin : begin + GROUP]
            for each in (augment(log, chance) if use_augmentation else [log])
        ]
        group = [make_examples(each) for each in chosen]
        all_of, right = (
            _concatenate([each.features for each in group]),
            np.concatenate([each.targets for each in group]),
        )
        rows = list(range(len(right)))
        chance.shuffle(rows)
        for at in range(0, len(rows), BATCH):
            take = rows[at : at + BATCH]
            yield TrainingBatch(
                ReplyFeatures(all_of.pairs[take], all_of.valid[take], all_of.messages[take]), right[take]
            )


class AdamTrainer:
    """Weights, their moments for Adam, and one step."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.chance = np.random.default_rng(seed + 1)
        self.nets: dict[str, list[Floats]] = {}
        for name, inputs in INPUTS.items():
            sizes = (len(inputs), *SIZES[name], 1)
            self.nets[name] = []
            for a, b in pairwise(sizes):
                scale = np.sqrt(2 / a) if b > 1 else 0.1
                self.nets[name] += [generator.normal(0, scale, (a, b)).astype(np.float32), np.zeros(b, np.float32)]
        self.flat = [each for name in INPUTS for each in self.nets[name]]
        self.first = [np.zeros_like(each) for each in self.flat]
        self.second = [np.zeros_like(each) for each in self.flat]
        self.average = [each.copy() for each in self.flat]
        self.steps = 0

    def build_net(self, *, averaged: bool = False) -> ReplyNet:
        """The net as it stands, or the running mean of its weights."""
        flat = iter(self.average if averaged else self.flat)
        made: dict[str, Layers] = {
            name: tuple((next(flat), next(flat)) for _ in range(len(SIZES[name]) + 1)) for name in INPUTS
        }
        return ReplyNet(**made)

    def step(self, batch: TrainingBatch, rate: float, decay: float = 0.01) -> float:
        """The mean loss of the batch before the step."""
        part, right = batch.features, batch.targets
        m, reach = part.valid.shape
        # Of the far candidates that are wrong some stand for all: softmax over a sample, each counted 1 / its chance.
        far = (np.arange(reach) >= NEAR) & ~right[:, 1:]
        rows, cols = np.nonzero(part.valid & (~far | (self.chance.random((m, reach)) < SHARE)))
        inputs = np.concatenate([part.pairs[rows, cols], part.messages[rows]], axis=1)
        pair, pair_kept = _forward(inputs, self.nets["pair"])
        opening, opening_kept = _forward(part.messages, self.nets["message"])
        scores = np.full((m, 1 + reach), -1e9, np.float32)
        scores[rows, cols + 1] = pair[:, 0] + np.where(far[rows, cols], np.float32(-np.log(SHARE)), 0)
        scores[:, :1] = opening
        scores -= scores.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        odds /= odds.sum(axis=1, keepdims=True)
        golden = np.where(right, odds, 0)
        hit = np.maximum(golden.sum(axis=1, keepdims=True), 1e-9)
        slope = ((odds - golden / hit) / m).astype(np.float32)
        grads = [
            *_backward(slope[rows, cols + 1][:, None], pair_kept, self.nets["pair"]),
            *_backward(slope[:, :1], opening_kept, self.nets["message"]),
        ]
        self.steps += 1
        for weight, grad, first, second, slow in zip(
            self.flat, grads, self.first, self.second, self.average, strict=True
        ):
            first += 0.1 * (grad - first)
            second += 0.001 * (grad * grad - second)
            a, b = 1 - 0.9**self.steps, 1 - 0.999**self.steps
            weight -= rate * ((first / a) / (np.sqrt(second / b) + 1e-8) + decay * weight)
            slow += (1 - min(0.999, self.steps / (self.steps + 10))) * (weight - slow)
        return float(-np.log(hit).mean())


def _forward(rows: Floats, net: list[Floats]) -> tuple[Floats, list[Floats]]:
    kept = [rows]
    for at in range(0, len(net), 2):
        rows = rows @ net[at] + net[at + 1]
        if at + 2 < len(net):
            rows = np.maximum(rows, 0)
            kept.append(rows)
    return rows, kept


def _backward(slope: Floats, kept: list[Floats], net: list[Floats]) -> list[Floats]:
    grads: list[Floats] = []
    for at in range(len(net) - 2, -1, -2):
        rows = kept[at // 2]
        grads = [rows.T @ slope, slope.sum(axis=0), *grads]
        if at:
            slope = (slope @ net[at].T) * (rows > 0)
    return grads


def train(
    given: Sequence[Log],
    *,
    rounds: int,
    seed: int,
    on_round: Callable[[int, float, ReplyNet], None],
    rate: float = 2e-3,
    use_augmentation: bool = True,
) -> ReplyNet:
    """The net after so many rounds; `tell` hears of each."""
    chance = random.Random(seed)
    learner = AdamTrainer(seed)
    total = rounds * sum(-(-len(log.gold) // BATCH) for log in given)
    for number in range(rounds):
        losses = [
            learner.step(batch, rate * (1 + cos(pi * min(1, learner.steps / total))) / 2)
            for batch in make_batches(given, chance, use_augmentation=use_augmentation)
        ]
        on_round(number + 1, float(np.mean(losses)), learner.build_net(averaged=True))
    return learner.build_net(averaged=True)
