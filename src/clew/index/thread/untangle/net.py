"""Two small feed-forward nets: one scores each candidate parent, one scores the start of a new conversation."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from clew.core.errors import SettingsError
from clew.index.thread.untangle.features import MESSAGE_FEATURES, PAIR_FEATURES, Floats, Ints, ReplyFeatures

Layers = tuple[tuple[Floats, Floats], ...]  # weights (inputs × outputs) and bias of each layer


@dataclass(frozen=True, slots=True)
class ReplyNet:
    """The layers of both nets; `pair` scores a candidate, `message` the start of a conversation."""

    pair: Layers
    message: Layers

    def score_parents(self, features: ReplyFeatures) -> Floats:
        """Score m × (1 + REACH): starting a conversation, then each candidate, the nearest first."""
        m, reach, _ = features.pairs.shape
        # The features of the message are the same for each candidate: their part of the first layer is computed once.
        (first, bias), *rest = self.pair
        width = features.pairs.shape[2]
        hidden = (features.pairs.reshape(m * reach, width) @ first[:width]).reshape(m, reach, -1)
        hidden += (features.messages @ first[width:] + bias)[:, None, :]
        pairs = _forward(np.maximum(hidden, 0).reshape(m * reach, -1), tuple(rest)).reshape(m, reach)
        opening = _forward(features.messages, self.message)
        return np.concatenate([opening, np.where(features.valid, pairs, -np.inf)], axis=1)

    def choose_parents(self, features: ReplyFeatures) -> Ints:
        """Return how many messages back the parent is; 0 where a conversation starts."""
        best: Ints = self.score_parents(features).argmax(axis=1)
        return best


def _forward(rows: Floats, layers: Layers) -> Floats:
    """Return the output of the layers, with ReLU between them."""
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
    """Parse the net of a parsed weights file; a SettingsError if its features are not those of this version."""
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
