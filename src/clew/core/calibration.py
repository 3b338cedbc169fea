"""The calibration of an embedder's cosines in a collection: the scores of unrelated texts and of a text with itself.

Cosines are not comparable across models and languages: unrelated texts score .45 with one model and .05 with another,
and more in a language that the model does not know. A calibration is measured once on a sample of the collection and
stored with it, so that relevance stays the same while the collection grows.
"""

import base64
import json
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clew.core.types import Vector

VERSION = 1
MIN_REACH, MAX_DIFFERENCE = 1e-3, 2.0  # of cosines
MAX_SQUARE = 1.01  # of the squared length of a mean of unit vectors


@dataclass(frozen=True, slots=True)
class Calibration:
    """The background of an embedder's cosines in a collection.

    The cosine of a query with an unrelated chunk is about `background(query)`. A sentence and its own chunk score on
    average `reach` above the background. So (cosine − background) / reach is about 0 for an unrelated chunk and 1 for
    the sentence's own, whatever the model. `spread` is the standard deviation of unrelated chunks: the smaller `reach`
    is in comparison, the less the model knows the language.
    """

    embedder: str
    reach: float
    spread: float
    mean: float = 0.0  # of unrelated cosines, if there is no centre
    centre: Vector | None = field(default=None, compare=False)  # the mean vector of the sample
    chunks: int = 0  # in the sample; 0: not measured
    version: int = VERSION

    def background(self, query: Vector) -> float:
        """Return the cosine to expect between a query and an unrelated chunk."""
        return self.mean if self.centre is None else float(query @ self.centre)

    def scale(self, cosines: NDArray[np.float64], background: float) -> NDArray[np.float64]:
        """Put cosines on a scale where 0 is unrelated and 1 is a sentence and its own chunk."""
        return (cosines - background) / self.reach

    def to_json(self) -> str:
        """Write the calibration as JSON, for a store to keep."""
        centre = "" if self.centre is None else base64.b64encode(self.centre.astype("<f4").tobytes()).decode()
        values = {"reach": self.reach, "spread": self.spread, "mean": self.mean, "chunks": self.chunks}
        return json.dumps({"version": self.version, "embedder": self.embedder, **values, "centre": centre})

    @classmethod
    def from_json(cls, text: str, embedder: str, dim: int | None = None) -> "Calibration | None":
        """Parse a calibration that `to_json` wrote; None if there is none for this embedder and version.

        dim: The dimension of the embedder. With it, every value is checked; ValueError if one is invalid.
        """
        try:
            kept = json.loads(text) if text else {}
            if kept.get("version") != VERSION or kept.get("embedder") != embedder or not kept["reach"] > 0:
                return None
            centre = np.frombuffer(base64.b64decode(kept.pop("centre")), "<f4")
            made = cls(**kept, centre=centre if len(centre) else None)
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"it cannot be read ({type(error).__name__}: {error})") from error
        if dim is not None:
            made._check(dim)
        return made

    def _check(self, dim: int) -> None:
        numbers = (self.reach, self.spread, self.mean)
        if any(type(each) not in (int, float) for each in numbers) or type(self.chunks) is not int:
            raise ValueError("it has values that are not numbers")
        if not (MIN_REACH <= self.reach <= MAX_DIFFERENCE and 0 <= self.spread <= MAX_DIFFERENCE):
            raise ValueError("it has numbers that no cosines have")
        if not -1 <= self.mean <= 1:
            raise ValueError("its mean is that of no cosines")
        if self.centre is not None and not (len(self.centre) == dim and self.centre @ self.centre <= MAX_SQUARE):
            raise ValueError(f"its centre is not the mean of unit vectors of {dim} dimensions")


def assume_calibration(embedder: str, min_similarity: float) -> Calibration:
    """Assume a calibration for an embedder that was not measured, from its cosine of unrelated texts."""
    min_similarity = min(max(min_similarity, -1.0), 0.99) if min_similarity == min_similarity else 0.0
    return Calibration(
        embedder, reach=0.5 * (1 - min_similarity), spread=0.1 * (1 - min_similarity), mean=min_similarity
    )
