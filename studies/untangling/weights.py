"""The file of trained weights: its origin, and the JSON of a net."""

import json

from clew.index.thread.untangle import INPUTS, Layers, ReplyNet
from clew.index.thread.untangle.features import Floats

ORIGIN = {
    "about": "Weights of two feed-forward nets that find which message another answers, by features named here.",
    "made": "python -m studies.untangling --data FOLDER --train --out FILE",
    "source": "Trained on the Ubuntu IRC logs of Kummerfeld et al., A Large-Scale Corpus for Conversation "
    "Disentanglement (ACL 2019), https://github.com/jkkummerfeld/irc-disentanglement",
    "licence": "That corpus is licensed CC BY 4.0, https://creativecommons.org/licenses/by/4.0/; "
    "these weights are derived from it by training.",
}


def format_net_as_json(net: ReplyNet) -> str:
    """Format the net as the JSON of a weights file: its origin, then each layer, one line per input."""
    parts = [f'"{name}": {json.dumps(value, ensure_ascii=False)}' for name, value in ORIGIN.items()]
    for name, inputs in INPUTS.items():
        layers: Layers = getattr(net, name)
        parts.append(
            f'"{name}": [\n'
            + ",\n".join(_format_layer(*layer, inputs if layer is layers[0] else ()) for layer in layers)
            + "\n]"
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _format_layer(weights: Floats, bias: Floats, inputs: tuple[str, ...]) -> str:
    lines = [json.dumps([round(value, 4) for value in row]) for row in weights.astype(float).tolist()]
    if inputs:
        lines = [f"{json.dumps(name)}: {line}" for name, line in zip(inputs, lines, strict=True)]
    opening, closing = "{}" if inputs else "[]"
    offsets = json.dumps([round(value, 4) for value in bias.astype(float).tolist()])
    return f'{{"weights": {opening}\n' + ",\n".join(lines) + f'\n{closing}, "bias": {offsets}}}'
