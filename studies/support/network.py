"""The reranker's network in torch: its weights out of the ONNX file, and back into it in int8.

The file is quantised: a weight is an int8 matrix with one scale. The graph is kept as it is; only its weights change,
with one scale a column, which keeps what was learned (one for the whole matrix does not). The word, position and type
embeddings are not trained, so that they stay exact.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import nn
from torch.nn import functional

LAYERS, HIDDEN, HEADS, INNER = 12, 384, 12, 1536
Arrays = dict[str, NDArray[Any]]


class Layer(nn.Module):  # type: ignore[misc,unused-ignore]
    """One transformer layer, as in BERT."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
        self.mixed, self.mixed_norm = nn.Linear(HIDDEN, HIDDEN), nn.LayerNorm(HIDDEN, eps=1e-12)
        self.inner, self.outer = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)
        self.outer_norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The states after attention and the inner layer."""
        rows, length, _ = states.shape
        query, key, value = (
            part(states).view(rows, length, HEADS, HIDDEN // HEADS).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        seen = seen.transpose(1, 2).reshape(rows, length, HIDDEN)
        states = self.mixed_norm(states + self.dropout(self.mixed(seen)))
        return self.outer_norm(states + self.dropout(self.outer(functional.gelu(self.inner(states)))))  # type: ignore[no-any-return,unused-ignore]


class Network(nn.Module):  # type: ignore[misc,unused-ignore]
    """The whole cross-encoder: token ids of a claim and a passage in, one logit out."""

    def __init__(self, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.words, self.places, self.types = (
            nn.Embedding(30522, HIDDEN),
            nn.Embedding(512, HIDDEN),
            nn.Embedding(2, HIDDEN),
        )
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(LAYERS))
        self.pooler, self.classifier = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)
        self.dropout = nn.Dropout(dropout)
        for table in (self.words, self.places, self.types):
            table.weight.requires_grad_(False)

    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """One logit a row; `mask` is true where there is a token."""
        states = self.words(ids) + self.places.weight[: ids.shape[1]] + self.types(types)
        states = self.dropout(self.norm(states))
        wide = mask[:, None, None, :]
        for layer in self.layers:
            states = layer(states, wide)
        return self.classifier(self.dropout(torch.tanh(self.pooler(states[:, 0])))).squeeze(-1)  # type: ignore[no-any-return,unused-ignore]


def name_parameters() -> dict[str, str]:
    """From the names of the file, without .weight and .bias, to those of the network."""
    found = {"bert.embeddings.LayerNorm": "norm", "bert.pooler.dense": "pooler", "classifier": "classifier"}
    for at in range(LAYERS):
        old, new = f"bert.encoder.layer.{at}", f"layers.{at}"
        found |= {f"{old}.attention.self.{part}": f"{new}.{part}" for part in ("query", "key", "value")}
        found |= {
            f"{old}.attention.output.dense": f"{new}.mixed",
            f"{old}.attention.output.LayerNorm": f"{new}.mixed_norm",
        }
        found |= {f"{old}.intermediate.dense": f"{new}.inner", f"{old}.output.dense": f"{new}.outer"}
        found[f"{old}.output.LayerNorm"] = f"{new}.outer_norm"
    return found


def _find_matrices(graph: Any) -> dict[str, str]:
    """From the name of each quantised matrix, without its ending, to the layer whose bias is added to its product."""
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    known = {each.name for each in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type != "MatMulInteger":
            continue
        at = node
        while True:
            at = next(each for each in readers[at.output[0]] if each.op_type in ("Cast", "Mul", "Add"))
            bias = [name for name in at.input if name.endswith(".bias") and name in known]
            if at.op_type == "Add" and bias:
                break
        found[node.input[1].removesuffix("_quantized")] = bias[0].removesuffix(".bias")
    return found


def load_base(path: Path, *, dropout: float = 0.1) -> Network:
    """The network with the weights of the file."""
    graph = onnx.load(path).graph
    arrays = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    names, weights = name_parameters(), dict[str, NDArray[Any]]()

    def restore(name: str) -> NDArray[Any]:
        zero, scale = arrays[f"{name}_zero_point"], arrays[f"{name}_scale"]
        values: NDArray[Any] = (arrays[f"{name}_quantized"].astype(np.float32) - zero.astype(np.float32)) * scale
        return values

    for matrix, layer in _find_matrices(graph).items():
        weights[f"{names[layer]}.weight"] = restore(matrix).T
    for old, new in names.items():
        weights[f"{new}.bias"] = arrays[f"{old}.bias"]
        if "norm" in new:
            weights[f"{new}.weight"] = arrays[f"{old}.weight"]
    for old, new in (("word", "words"), ("position", "places"), ("token_type", "types")):
        weights[f"{new}.weight"] = restore(f"bert.embeddings.{old}_embeddings.weight")
    network = Network(dropout=dropout)
    network.load_state_dict({name: torch.from_numpy(np.array(value, np.float32)) for name, value in weights.items()})
    return network


def write_onnx(base: Path, weights: Mapping[str, NDArray[Any]], out: Path, *, levels: int = 127) -> None:
    """The file of the base with other weights, in int8 with one scale a column; `levels` is the greatest value."""
    model = onnx.load(base)
    graph, names = model.graph, name_parameters()
    replaced: Arrays = {}
    for matrix, layer in _find_matrices(graph).items():
        values = np.asarray(weights[f"{names[layer]}.weight"], np.float32).T  # in × out
        scale = np.maximum(np.abs(values).max(axis=0), 1e-8) / levels
        replaced[f"{matrix}_quantized"] = np.clip(np.rint(values / scale), -levels, levels).astype(np.int8)
        replaced[f"{matrix}_scale"] = scale.astype(np.float32)
        replaced[f"{matrix}_zero_point"] = np.zeros(len(scale), np.int8)
    for old, new in names.items():
        replaced[f"{old}.bias"] = np.asarray(weights[f"{new}.bias"], np.float32)
        if "norm" in new:
            replaced[f"{old}.weight"] = np.asarray(weights[f"{new}.weight"], np.float32)
    for each in graph.initializer:
        if each.name in replaced:
            each.CopyFrom(numpy_helper.from_array(replaced.pop(each.name), each.name))
    assert not replaced, f"not in the file: {sorted(replaced)}"
    del graph.value_info[:]
    onnx.save(model, out)
