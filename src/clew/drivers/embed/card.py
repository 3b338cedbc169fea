"""What a folder says of the model in it: the files that sentence-transformers writes beside the weights.

`config.json` and `tokenizer_config.json` tell how many tokens it takes, `1_Pooling/config.json` how tokens become one
vector, `config_sentence_transformers.json` what is said before a question or a passage. Any of them may be missing.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from clew.core.errors import DriverMissing

Pooling = Literal["cls", "mean"]

USUAL_TOKENS = 512
NO_LIMIT = 1_000_000  # tokenizer_config.json writes 1e30 for a tokeniser without a limit


@dataclass(frozen=True, slots=True)
class Card:
    """How to use a model."""

    name: str
    pooling: Pooling = "mean"
    max_tokens: int = USUAL_TOKENS
    query_prefix: str = ""
    passage_prefix: str = ""
    min_similarity: float = 0.0


def read_card(folder: Path, *, name: str) -> Card:
    """What the folder's files say, and what is usual where they say nothing."""
    pooling = _json(folder / "1_Pooling" / "config.json")
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts") or {}
    limits = [
        _json(folder / "config.json").get("max_position_embeddings"),
        _json(folder / "tokenizer_config.json").get("model_max_length"),
    ]
    known = [int(limit) for limit in limits if isinstance(limit, int | float) and 8 < limit < NO_LIMIT]
    return Card(
        name=name,
        pooling="cls" if pooling.get("pooling_mode_cls_token") else "mean",
        max_tokens=min(known, default=USUAL_TOKENS),
        query_prefix=prompts.get("query", ""),
        passage_prefix=prompts.get("passage", prompts.get("document", "")),
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        read = json.loads(path.read_bytes())
    except ValueError as error:
        raise DriverMissing(f"{path} is not JSON ({error}); copy the model's folder again") from error
    return read if isinstance(read, dict) else {}
