"""Model cards: how to use the embedding model in a folder, by the files that sentence-transformers writes beside it.

`config.json` and `tokenizer_config.json` hold the token limit, `1_Pooling/config.json` the pooling, and
`config_sentence_transformers.json` the prefixes of questions and passages. Any of them may be missing.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clew.drivers.onnx import DEFAULT_MAX_TOKENS, read_json_object, read_max_tokens

Pooling = Literal["cls", "mean"]


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
    """The card by the files of a folder, with the usual values where they say nothing."""
    pooling = read_json_object(folder / "1_Pooling" / "config.json")
    prompts = read_json_object(folder / "config_sentence_transformers.json").get("prompts") or {}
    return ModelCard(
        name=name,
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        max_tokens=read_max_tokens(folder),
        query_prefix=prompts.get("query", ""),
        passage_prefix=prompts.get("passage", prompts.get("document", "")),
    )
