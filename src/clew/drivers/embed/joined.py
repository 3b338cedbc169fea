"""Two embedders as one, for a collection in languages that no one model knows well: "bge-small+multilingual".

A vector is that of the one followed by that of the other, so the cosine of two of them is the weighted sum of both
cosines, and every store keeps them as it keeps any. Each cosine weighs by its scale, the distance from unrelated texts
to equal ones, so that neither model outweighs the other. A question in a language that only one of them knows has the
vector of that one alone.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

import numpy as np

from clew.core.detect import detect_language
from clew.core.errors import SettingsError
from clew.core.languages import find_known_languages
from clew.core.protocols import Embedder, Role
from clew.core.quantize import has_int8_vectors
from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.embed.names import JOIN_MARK
from clew.drivers.embed.vectors import normalize

MakeEmbedder = Callable[[EmbedderConfig], Embedder]


class JoinedEmbedder:
    """Two embedders whose vectors are one; the name has both, so that no other vectors mix with these."""

    def __init__(self, one: Embedder, other: Embedder) -> None:
        if one.name == other.name:
            raise SettingsError(f"{one.name} is joined with itself; name two embedders, as in bge-small+multilingual")
        if marked := next((part.name for part in (one, other) if has_int8_vectors(part.name)), ""):
            raise SettingsError(
                f"{marked} is a part of two; both are stored as int8 or neither: end the name with #int8"
            )
        self._parts = one, other
        scales = np.array([1 - part.min_similarity for part in self._parts])
        self._weights = (1 / scales) / (1 / scales).sum()
        known = [find_known_languages(part) for part in self._parts]
        self._known = known
        self.name = JOIN_MARK.join(part.name for part in self._parts)
        self.dim = one.dim + other.dim
        self.max_tokens = min(one.max_tokens, other.max_tokens)
        self.min_similarity = float(self._weights @ [part.min_similarity for part in self._parts])
        self.is_local = all(getattr(part, "is_local", False) for part in self._parts)
        self.languages = frozenset().union(*known) if all(known) else frozenset()  # empty: any, as far as is known

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        """One unit vector per text, in order."""
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        rows = [
            np.sqrt(weight) * part.embed(texts, role=role)
            for part, weight in zip(self._parts, self._weights, strict=True)
        ]
        if role == "query":
            for place, text in enumerate(texts):
                for part in self._find_foreign(text):
                    rows[part][place] = 0.0
        joined: Matrix = normalize(np.hstack(rows).astype(np.float32), source=self.name)
        return joined

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text: those of the model that has more."""
        return [max(counts) for counts in zip(*(part.count(texts) for part in self._parts), strict=True)]

    def _find_foreign(self, text: str) -> list[int]:
        """The part that does not know the language of a question; none if both know it or neither does."""
        language = detect_language(text)
        if not language:
            return []
        foreign = [place for place, known in enumerate(self._known) if known and language not in known]
        return foreign if len(foreign) < len(self._parts) else []


def join_embedders(config: EmbedderConfig, make: MakeEmbedder, known: Container[str]) -> JoinedEmbedder | None:
    """The two embedders that the name joins; None if it is one name, such as a folder with a plus in it."""
    one, _, other = config.name.partition(JOIN_MARK)
    for name in (one, other):
        prefix, colon, _ = name.partition(":")
        if prefix.partition("#")[0] + colon not in known:
            return None
    if config.dim:
        raise SettingsError(f"embedder.dim is for one embedder; name the lengths of both, as in {one}#128+{other}")
    return JoinedEmbedder(make(replace(config, name=one)), make(replace(config, name=other)))
