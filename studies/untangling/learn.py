"""Training of the reply net: two small nets learn jointly which earlier message is answered, or none.

The loss of a message is −log of the probability (softmax over all candidates and opening) of its gold answers. Adam
with a learning rate that decays to zero; each round uses every log once, some augmented: without times, names or
authors, or at another pace, so that the nets do not depend on them.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import cos, pi

import numpy as np
from numpy.typing import NDArray

from clew.index.thread.untangle import INPUTS, Layers, ReplyNet
from clew.index.thread.untangle.features import (
    REACH,
    ChannelWindow,
    Floats,
    ReplyFeatures,
    extract_message_cues,
    extract_reply_features,
)
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
GROUP = 12  # logs shuffled together
NEAR, SHARE = 30, 0.3  # candidates always used, and the share sampled of those farther back
SIZES = {"pair": (64, 32), "message": (32,)}


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Features and the right columns: 0 for opening, else how far back."""

    features: ReplyFeatures
    targets: NDArray[np.bool_]  # m × (1 + REACH)


def make_examples(log: Log) -> TrainingBatch:
    """The training examples of a log: annotated messages with an answer within reach."""
    places = [at for at, message in enumerate(log.messages) if message.role != "system"]
    start = next(at for at, place in enumerate(places) if place >= log.first)
    places, start = places[max(0, start - REACH) :], min(start, REACH)
    order = {place: at for at, place in enumerate(places)}
    cues = [extract_message_cues(log.messages[place]) for place in places]
    parts: list[ReplyFeatures] = []
    right: list[NDArray[np.bool_]] = []
    for begin in range(start, len(cues), BLOCK):
        opening = max(0, begin - REACH)
        part = extract_reply_features(ChannelWindow.build(cues[opening : begin + BLOCK], begin - opening))
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


def augment(log: Log, rng: random.Random) -> list[Log]:
    """The log as it is, or like another kind of channel, or with fewer cues."""
    draw = rng.random()
    if rng.random() < 0.2:
        log = slow_down(log, 10 ** rng.uniform(0.3, 2))
    if rng.random() < 0.25:
        log = remove_addressing(log)
    if rng.random() < 0.03:
        log = remove_authors(log)
    if draw < 0.30:
        return [make_bursts(log, rng)]
    if draw < 0.40:
        return split_into_channels(log, rng)
    return [remove_times(log) if draw < 0.50 else log]


def make_batches(given: Sequence[Log], rng: random.Random, *, use_augmentation: bool) -> Iterator[TrainingBatch]:
    """Every message once, in shuffled batches."""
    order = rng.sample(list(given), len(given))
    for begin in range(0, len(order), GROUP):
        chosen = [
            each for log in order[begin : begin + GROUP] for each in (augment(log, rng) if use_augmentation else [log])
        ]
        group = [make_examples(each) for each in chosen]
        all_of, right = (
            _concatenate([each.features for each in group]),
            np.concatenate([each.targets for each in group]),
        )
        rows = list(range(len(right)))
        rng.shuffle(rows)
        for at in range(0, len(rows), BATCH):
            take = rows[at : at + BATCH]
            yield TrainingBatch(
                ReplyFeatures(all_of.pairs[take], all_of.valid[take], all_of.messages[take]), right[take]
            )


class AdamTrainer:
    """The weights, their Adam moments, and one step."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.rng = np.random.default_rng(seed + 1)
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
        """The current net, or the one of averaged weights."""
        flat = iter(self.average if averaged else self.flat)
        made: dict[str, Layers] = {
            name: tuple((next(flat), next(flat)) for _ in range(len(SIZES[name]) + 1)) for name in INPUTS
        }
        return ReplyNet(**made)

    def step(self, batch: TrainingBatch, rate: float, decay: float = 0.01) -> float:
        """Takes one step; returns the mean loss of the batch before it."""
        part, right = batch.features, batch.targets
        m, reach = part.valid.shape
        # Far wrong candidates are sampled: softmax over the sample, each weighted by 1 / its probability.
        far = (np.arange(reach) >= NEAR) & ~right[:, 1:]
        rows, cols = np.nonzero(part.valid & (~far | (self.rng.random((m, reach)) < SHARE)))
        inputs = np.concatenate([part.pairs[rows, cols], part.messages[rows]], axis=1)
        pair, pair_activations = _forward(inputs, self.nets["pair"])
        opening, opening_activations = _forward(part.messages, self.nets["message"])
        scores = np.full((m, 1 + reach), -1e9, np.float32)
        scores[rows, cols + 1] = pair[:, 0] + np.where(far[rows, cols], np.float32(-np.log(SHARE)), 0)
        scores[:, :1] = opening
        scores -= scores.max(axis=1, keepdims=True)
        probabilities = np.exp(scores)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        golden = np.where(right, probabilities, 0)
        hit = np.maximum(golden.sum(axis=1, keepdims=True), 1e-9)
        gradient = ((probabilities - golden / hit) / m).astype(np.float32)
        grads = [
            *_backward(gradient[rows, cols + 1][:, None], pair_activations, self.nets["pair"]),
            *_backward(gradient[:, :1], opening_activations, self.nets["message"]),
        ]
        self.steps += 1
        for weight, grad, first, second, average in zip(
            self.flat, grads, self.first, self.second, self.average, strict=True
        ):
            first += 0.1 * (grad - first)
            second += 0.001 * (grad * grad - second)
            a, b = 1 - 0.9**self.steps, 1 - 0.999**self.steps
            weight -= rate * ((first / a) / (np.sqrt(second / b) + 1e-8) + decay * weight)
            average += (1 - min(0.999, self.steps / (self.steps + 10))) * (weight - average)
        return float(-np.log(hit).mean())


def _forward(rows: Floats, net: list[Floats]) -> tuple[Floats, list[Floats]]:
    activations = [rows]
    for at in range(0, len(net), 2):
        rows = rows @ net[at] + net[at + 1]
        if at + 2 < len(net):
            rows = np.maximum(rows, 0)
            activations.append(rows)
    return rows, activations


def _backward(gradient: Floats, activations: list[Floats], net: list[Floats]) -> list[Floats]:
    grads: list[Floats] = []
    for at in range(len(net) - 2, -1, -2):
        rows = activations[at // 2]
        grads = [rows.T @ gradient, gradient.sum(axis=0), *grads]
        if at:
            gradient = (gradient @ net[at].T) * (rows > 0)
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
    """The net after so many rounds; `on_round` is called with the number, loss and net of each."""
    rng = random.Random(seed)
    learner = AdamTrainer(seed)
    total = rounds * sum(-(-len(log.gold) // BATCH) for log in given)
    for number in range(rounds):
        losses = [
            learner.step(batch, rate * (1 + cos(pi * min(1, learner.steps / total))) / 2)
            for batch in make_batches(given, rng, use_augmentation=use_augmentation)
        ]
        on_round(number + 1, float(np.mean(losses)), learner.build_net(averaged=True))
    return learner.build_net(averaged=True)
