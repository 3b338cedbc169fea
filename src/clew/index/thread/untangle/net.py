"""The weights: two small feed-forward nets, one that scores each earlier message, one that scores opening anew."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from clew.core.errors import SettingsError
from clew.index.thread.untangle.evidence import OPENS_FEATURES, PAIR_FEATURES, Evidence
from clew.index.thread.untangle.window import Floats, Ints

Layers = tuple[tuple[Floats, Floats], ...]  # weights (inputs × outputs) and bias of each layer


@dataclass(frozen=True, slots=True)
class Net:
    """Scores by the features of a pair and of a message."""

    pair: Layers
    message: Layers

    def scores(self, seen: Evidence) -> Floats:
        """m × (1 + REACH): for opening a conversation, then for each earlier message, the nearest first."""
        m, reach, _ = seen.pairs.shape
        # What belongs to the message itself is the same for each candidate: its part of the first layer is added once.
        (first, bias), *rest = self.pair
        width = seen.pairs.shape[2]
        hidden = (seen.pairs.reshape(m * reach, width) @ first[:width]).reshape(m, reach, -1)
        hidden += (seen.opens @ first[width:] + bias)[:, None, :]
        pairs = _through(np.maximum(hidden, 0).reshape(m * reach, -1), tuple(rest)).reshape(m, reach)
        opening = _through(seen.opens, self.message)
        return np.concatenate([opening, np.where(seen.there, pairs, -np.inf)], axis=1)

    def choices(self, seen: Evidence) -> Ints:
        """How many messages back the one that is answered stands; 0 where a conversation opens."""
        best: Ints = self.scores(seen).argmax(axis=1)
        return best


def _through(rows: Floats, layers: Layers) -> Floats:
    *hidden, (weights, bias) = layers
    for inner, offset in hidden:
        rows = np.maximum(rows @ inner + offset, 0)
    return rows @ weights + bias


INPUTS: Mapping[str, tuple[str, ...]] = {
    "pair": (*PAIR_FEATURES, *(f"mine: {name}" for name in OPENS_FEATURES)),
    "message": OPENS_FEATURES,
}


ORIGIN = {
    "about": "Weights of two feed-forward nets that find which message another answers, by features named here.",
    "made": "python -m studies.untangling --data FOLDER --train --out FILE",
    "source": "Trained on the Ubuntu IRC logs of Kummerfeld et al., A Large-Scale Corpus for Conversation "
    "Disentanglement (ACL 2019), https://github.com/jkkummerfeld/irc-disentanglement",
    "licence": "That corpus is licensed CC BY 4.0, https://creativecommons.org/licenses/by/4.0/; "
    "these weights are derived from it by training.",
}


@cache
def shipped() -> Net:
    """The net that comes with the package."""
    return loaded(json.loads(files("clew.index.thread.untangle").joinpath("weights.json").read_text("utf-8")))


def loaded(kept: Mapping[str, Any]) -> Net:
    """The net that was kept as plain values; its features must be those of this version."""
    nets: dict[str, Layers] = {}
    for name, inputs in INPUTS.items():
        layers = kept[name]
        if tuple(layers[0]["weights"]) != inputs:
            odd = set(layers[0]["weights"]) ^ set(inputs)
            raise SettingsError(
                f"the weights for {name!r} are of other features ({', '.join(sorted(odd)) or 'another order'}); "
                "train them anew: python -m studies.untangling --train"
            )
        nets[name] = tuple(
            (
                np.array([*layer["weights"].values()] if place == 0 else layer["weights"], np.float32),
                np.array(layer["bias"], np.float32),
            )
            for place, layer in enumerate(layers)
        )
    return Net(**nets)


def written(net: Net) -> str:
    """The net as a file to read: where it comes from, then each layer, a line for each of its inputs."""
    parts = [f'"{name}": {json.dumps(value, ensure_ascii=False)}' for name, value in ORIGIN.items()]
    for name, inputs in INPUTS.items():
        layers: Layers = getattr(net, name)
        parts.append(
            f'"{name}": [\n'
            + ",\n".join(_layer(*layer, inputs if layer is layers[0] else ()) for layer in layers)
            + "\n]"
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _layer(weights: Floats, bias: Floats, inputs: tuple[str, ...]) -> str:
    lines = [json.dumps([round(value, 4) for value in row]) for row in weights.astype(float).tolist()]
    if inputs:
        lines = [f"{json.dumps(name)}: {line}" for name, line in zip(inputs, lines, strict=True)]
    opening, closing = "{}" if inputs else "[]"
    offsets = json.dumps([round(value, 4) for value in bias.astype(float).tolist()])
    return f'{{"weights": {opening}\n' + ",\n".join(lines) + f'\n{closing}, "bias": {offsets}}}'
