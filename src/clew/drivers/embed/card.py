"""Model cards: how to use the embedding model in a folder, by the files that sentence-transformers writes beside it.

`config.json` and `tokenizer_config.json` hold the token limit, `1_Pooling/config.json` the pooling, and
`config_sentence_transformers.json` the prefixes of questions and passages. Any of them may be missing.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clew.core.errors import DriverMissing
from clew.core.types import Vector
from clew.drivers.onnx import DEFAULT_MAX_TOKENS, read_json_object, read_max_tokens

Pooling = Literal["cls", "mean", "max", "lasttoken", "weightedmean"]
# As sentence-transformers spells them. A sum over the root of the length is a mean once it is of unit length.
_POOLINGS: dict[str, Pooling] = {
    "cls": "cls",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_len_tokens": "mean",
    "weightedmean": "weightedmean",
    "lasttoken": "lasttoken",
}


@dataclass(frozen=True, slots=True)
class ModelCard:
    """How to use an embedding model: the pooling of its token vectors, its limit, and the prefix for each role."""

    name: str
    pooling: Pooling = "mean"
    max_tokens: int = DEFAULT_MAX_TOKENS
    query_prefix: str = ""
    passage_prefix: str = ""
    min_similarity: float = 0.0


def read_model_card(folder: Path, *, name: str) -> ModelCard:
    """Return the card by the files of a folder, with the usual values where they say nothing."""
    config = read_json_object(folder / "config_sentence_transformers.json")
    prompts = config.get("prompts") or {}
    usual = prompts.get(config.get("default_prompt_name"), "")
    return ModelCard(
        name=name,
        pooling=_read_pooling(folder / "1_Pooling" / "config.json"),
        max_tokens=read_max_tokens(folder),
        query_prefix=prompts.get("query", usual),
        passage_prefix=prompts.get("passage", prompts.get("document", usual)),
    )


def pool_tokens(rows: NDArray[np.float32], pooling: Pooling) -> Vector:
    """Pool the vectors of the tokens into one, not normalised."""
    pooled: Vector
    match pooling:
        case "cls":
            pooled = rows[0]
        case "lasttoken":
            pooled = rows[-1]
        case "max":
            pooled = rows.max(axis=0)
        case "weightedmean":  # a later token has seen more in a model that reads from left to right
            pooled = np.average(rows, axis=0, weights=np.arange(1, len(rows) + 1)).astype(np.float32)
        case "mean":
            pooled = rows.mean(axis=0)
    return pooled


def _read_pooling(path: Path) -> Pooling:
    config = read_json_object(path)
    named = config.get("pooling_mode")  # newer files have a word, or several; older ones a switch for each
    if named is None:
        switches = (key.removeprefix("pooling_mode_") for key, is_on in config.items() if is_on is True)
        named = [key if key in _POOLINGS else key.removesuffix("_tokens").removesuffix("_token") for key in switches]
        named = [key for key in named if key in _POOLINGS] or "mean"
    words = [named] if isinstance(named, str) else list(named)
    if len(words) != 1 or words[0] not in _POOLINGS:
        raise DriverMissing(f"{path} says {', '.join(map(str, words))}; Clew pools by one of {', '.join(_POOLINGS)}")
    return _POOLINGS[words[0]]
