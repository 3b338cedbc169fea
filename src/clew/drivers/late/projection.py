"""Token vectors made small: a projection to fewer dimensions (PCA) and four bits for each of them.

A token takes 48 bytes in place of 1,536. The mean of all tokens is taken off before, and added again when a query is
compared, so that the bits tell what is particular to a token. Matrix, mean and steps are in a file that
`python -m studies.projection` makes.
"""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.core.errors import DriverFailed

TokenMatrix = NDArray[np.float32]  # a row for each token

FILE: Final = Path(__file__).with_name("projection.npz")
LEVELS: Final = 16  # values of four bits
MIDDLE: Final = (LEVELS - 1) / 2
MAX_PRODUCT: Final = 200_000  # multiplications; OpenBLAS takes more threads from 262,144 on
STEP: Final = 0.3352  # of the standard deviation: the best for 16 even steps and a normal distribution (Max, 1960)


class WeighedQuery(NamedTuple):
    """The tokens of a query as weights of packed numbers (a column for each), and what is added to their sums."""

    weights: TokenMatrix
    offsets: TokenMatrix


class Projection:
    """Packs unit vectors of tokens into bytes, and compares the tokens of a query with what was packed."""

    def __init__(self, matrix: TokenMatrix, mean: TokenMatrix, steps: TokenMatrix) -> None:
        self._matrix, self._mean, self._steps = matrix, mean, steps

    @property
    def dim(self) -> int:
        """The numbers kept of each token."""
        return int(self._matrix.shape[1])

    def pack(self, vectors: TokenMatrix) -> bytes:
        """The vectors of the tokens of a text as bytes."""
        scaled = (vectors - self._mean) @ self._matrix / self._steps
        codes = np.clip(np.rint(scaled + MIDDLE), 0, LEVELS - 1).astype(np.uint8)
        return (codes[:, 0::2] | codes[:, 1::2] << 4).tobytes()

    def weigh(self, query: TokenMatrix) -> WeighedQuery:
        """The vectors of a query's tokens, ready to be compared with many packed texts."""
        weights = multiply(query, self._matrix) * self._steps
        return WeighedQuery(weights.T.copy(), query @ self._mean - MIDDLE * weights.sum(axis=1))

    def compare(self, query: WeighedQuery, packed: bytes) -> TokenMatrix:
        """The cosine, up to what was rounded, of each token of a query (column) with each that was packed (row)."""
        return multiply(self._unpack(packed), query.weights) + query.offsets

    def count_tokens(self, packed: bytes) -> int:
        """How many tokens were packed; DriverFailed if the bytes are not those of whole tokens."""
        tokens, rest = divmod(len(packed), self.dim // 2)
        if rest or not tokens:
            raise DriverFailed(f"{len(packed)} bytes are not token vectors; `clew doctor` says what is damaged")
        return tokens

    def _unpack(self, packed: bytes) -> TokenMatrix:
        pairs = np.frombuffer(packed, np.uint8).reshape(-1, self.dim // 2)
        codes = np.empty((len(pairs), self.dim), np.float32)
        codes[:, 0::2] = pairs & 0x0F
        codes[:, 1::2] = pairs >> 4
        return codes


def multiply(left: TokenMatrix, right: TokenMatrix) -> TokenMatrix:
    """The product of two matrices, in parts so small that BLAS takes one thread: to wake others takes far longer."""
    rows = max(1, MAX_PRODUCT // right.size)
    parts = [left[at : at + rows] @ right for at in range(0, len(left), rows)]
    return np.concatenate(parts) if parts else left @ right


def fit_projection(vectors: TokenMatrix, dim: int) -> Projection:
    """The projection to the `dim` directions in which these vectors differ most; the same vectors give the same."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    centred = vectors - mean
    values, directions = np.linalg.eigh(centred.T @ centred / len(vectors))
    largest = np.argsort(-values, kind="stable")[:dim]
    matrix = directions[:, largest] * np.sign(directions[np.abs(directions).argmax(axis=0), range(len(mean))])[largest]
    steps = STEP * (centred @ matrix).std(axis=0)
    return Projection(*(each.astype(np.float16).astype(np.float32) for each in (matrix, mean, steps)))


def save_projection(projection: Projection, path: Path = FILE) -> None:
    """Writes a projection to a file."""
    parts = {"matrix": projection._matrix, "mean": projection._mean, "steps": projection._steps}
    np.savez(path, **{name: each.astype(np.float16) for name, each in parts.items()})  # type: ignore[arg-type]


def load_projection(path: Path = FILE) -> Projection:
    """The projection in a file."""
    with np.load(path) as parts:
        return Projection(*(parts[name].astype(np.float32) for name in ("matrix", "mean", "steps")))
