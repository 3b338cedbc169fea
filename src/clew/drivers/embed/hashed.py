"""temporary"""
from collections.abc import Sequence
import re
import numpy as np
import xxhash
from clew.core.protocols import Role
from clew.core.types import Matrix
class Hashed:
    min_similarity = 0.05
    max_tokens = 100000
    def __init__(self, dim: int = 256) -> None:
        self.dim = dim
        self.name = "hashed" if dim == 256 else f"hashed:{dim}"
    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        out = np.zeros((len(texts), self.dim), np.float32)
        for i, t in enumerate(texts):
            for w in re.findall(r"\w+", t.lower()) or [""]:
                h = xxhash.xxh3_64_intdigest(w[:5].encode())
                out[i, h % self.dim] += 1 if h >> 40 & 1 else -1
            if not out[i].any(): out[i, 0] = 1
        return out / np.linalg.norm(out, axis=1, keepdims=True)
    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(re.findall(r"\w+|[^\w\s]", t)) for t in texts]
