"""Conversation disentanglement: find the earlier message that each message of a flat channel replies to.

It runs between reading and chunking and infers the replies that an export does not state. `features` describes each
message and each pair of a message and a candidate parent. Two small feed-forward nets, trained by us, score these: one
each candidate, one the start of a new conversation.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from clew.core.errors import SettingsError
from clew.core.types import Message
from clew.index.thread.untangle.features import (
    MESSAGE_FEATURES,
    PAIR_FEATURES,
    REACH,
    ChannelWindow,
    Floats,
    Ints,
    MessageCues,
    ReplyFeatures,
    extract_message_cues,
    extract_reply_features,
)

Layers = tuple[tuple[Floats, Floats], ...]  # weights (inputs × outputs) and bias of each layer

_BLOCK_MESSAGES = 128  # scored at once: enough to amortise a call, few enough for the CPU cache


@dataclass(frozen=True, slots=True)
class ReplyNet:
    """The layers of both nets: `pair` scores a candidate, `message` the start of a conversation."""

    pair: Layers
    message: Layers

    def score_parents(self, features: ReplyFeatures) -> Floats:
        """Return m × (1 + REACH) scores: for starting a conversation, then for each candidate, nearest first."""
        m, reach, _ = features.pairs.shape
        # The message features are the same for all candidates: compute their part of the first layer once.
        (first, bias), *rest = self.pair
        width = features.pairs.shape[2]
        hidden = (features.pairs.reshape(m * reach, width) @ first[:width]).reshape(m, reach, -1)
        hidden += (features.messages @ first[width:] + bias)[:, None, :]
        pairs = _forward(np.maximum(hidden, 0).reshape(m * reach, -1), tuple(rest)).reshape(m, reach)
        opening = _forward(features.messages, self.message)
        return np.concatenate([opening, np.where(features.valid, pairs, -np.inf)], axis=1)

    def choose_parents(self, features: ReplyFeatures) -> Ints:
        """Return how many messages back each parent is; 0 if a conversation starts."""
        best: Ints = self.score_parents(features).argmax(axis=1)
        return best


def _forward(rows: Floats, layers: Layers) -> Floats:
    """Apply the layers, with ReLU between them."""
    *hidden, (weights, bias) = layers
    for inner, offset in hidden:
        rows = np.maximum(rows @ inner + offset, 0)
    return rows @ weights + bias


INPUTS: Mapping[str, tuple[str, ...]] = {
    "pair": (*PAIR_FEATURES, *(f"mine: {name}" for name in MESSAGE_FEATURES)),
    "message": MESSAGE_FEATURES,
}


@cache
def load_default_net() -> ReplyNet:
    """Load the net that comes with the package."""
    return parse_net_weights(
        json.loads(files("clew.index.thread.untangle").joinpath("weights.json").read_text("utf-8"))
    )


def parse_net_weights(values: Mapping[str, Any]) -> ReplyNet:
    """Build the net from a parsed weights file; raise SettingsError if it was trained on other features."""
    nets: dict[str, Layers] = {}
    for name, inputs in INPUTS.items():
        layers = values[name]
        if tuple(layers[0]["weights"]) != inputs:
            differing = ", ".join(sorted(set(layers[0]["weights"]) ^ set(inputs))) or "another order"
            raise SettingsError(
                f"the weights for {name!r} were trained on other features ({differing}); "
                "train them again: python -m studies.untangling --train"
            )
        nets[name] = tuple(
            (
                np.array([*layer["weights"].values()] if position == 0 else layer["weights"], np.float32),
                np.array(layer["bias"], np.float32),
            )
            for position, layer in enumerate(layers)
        )
    return ReplyNet(**nets)


def infer_reply_parents(
    messages: Sequence[Message], *, before: Sequence[Message] = (), net: ReplyNet | None = None
) -> list[int | None]:
    """Return the parent of each message as a position in before + messages; None if it starts a conversation.

    Messages are in the order they were sent. An explicit `reply_to` always wins; if it names no earlier message, the
    result is None. Next comes a quote ("> quoted text"), then the choice of the net (default: the shipped one). A
    decision depends only on the `REACH` preceding messages of the channel, so a new message gets the same result with
    these as in the whole channel. Messages of role "system" neither reply nor get replies.
    """
    everything = [*before, *messages]
    channels: defaultdict[str, list[int]] = defaultdict(list)
    seen: dict[str, int] = {}
    links: list[int | None] = [None] * len(everything)
    for position, message in enumerate(everything):
        if message.reply_to:
            links[position] = seen.get(message.reply_to)
        seen[message.id] = position
        if message.role != "system":
            channels[message.channel].append(position)
    for positions in channels.values():
        new = next((at for at, position in enumerate(positions) if position >= len(before)), len(positions))
        if all(everything[position].reply_to for position in positions[new:]):
            continue  # nothing to guess
        guesses = _guess_parents([everything[position] for position in positions], new, net or load_default_net())
        for at, guess in enumerate(guesses, new):
            if guess is not None and not everything[positions[at]].reply_to:
                links[positions[at]] = positions[guess]
    return links[len(before) :]


def _guess_parents(messages: Sequence[Message], new: int, net: ReplyNet) -> list[int | None]:
    """Return the positions of the parents of messages[new:], by a quote or by the net."""
    found: list[int | None] = []
    for start in range(new, len(messages), _BLOCK_MESSAGES):
        first = max(0, start - REACH)
        cues = [extract_message_cues(message) for message in messages[first : start + _BLOCK_MESSAGES]]
        choices = net.choose_parents(extract_reply_features(ChannelWindow.build(cues, start - first))).tolist()
        for row, back in enumerate(choices, start - first):
            guess = row - back if back else None
            quoted = _find_quoted_message(cues, row) if cues[row].quote else None
            parent = guess if quoted is None else quoted
            found.append(None if parent is None else first + parent)
    return found


def _find_quoted_message(cues: Sequence[MessageCues], row: int) -> int | None:
    """Find the nearest message in reach that contains the quoted text, or None."""
    reach = range(row - 1, max(0, row - REACH) - 1, -1)
    return next((position for position in reach if cues[row].quote in cues[position].text), None)
