"""`python -m studies.support.calibrate --tuning FILE --model FILE --out FILE`: chances and thresholds from logits of the tuning part.

The chance is logistic(scale · logit + offset), fitted so that every source and label counts the same. Above the first
threshold pass 8 % of the made lies (numbers, names, negations, opposites), every source and kind counting the same, and
not more of the lies of the written contexts that are kept for choosing (sources "written …", where there are any); below
the second lie 5 % of the truths of those, or else 10 % of all. What is between them is unsure.
"""

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MADE = frozenset(("number", "name", "names exchanged", "negation", "opposite"))
LIES_PASSED, TRUTHS_LOST, WRITTEN_TRUTHS_LOST = 0.08, 0.10, 0.05
MIN_COUNT = 15  # examples of a source and kind that count
LANGUAGES = ("en",)

Row = tuple[str, str, int, float]  # source, kind, label, logit


def fit_calibration(rows: Sequence[Row]) -> dict[str, Any]:
    """The scale, the offset and the two thresholds."""
    found_as_is = [row for row in rows if row[1] == "as it is"]
    both = {
        source for source in {row[0] for row in rows} if {row[2] for row in found_as_is if row[0] == source} == {0, 1}
    }
    natural = [row for row in found_as_is if row[0] in both]
    labels = np.array([row[2] for row in natural], np.float64)
    logits = np.array([row[3] for row in natural], np.float64)
    weights = _balance([(row[0], str(row[2])) for row in natural])
    features = np.stack([logits, np.ones_like(logits)], axis=1)
    found = np.array([0.5, 0.0])
    for _ in range(200):  # Newton's method, in short steps
        chances = 1 / (1 + np.exp(-features @ found))
        gradient = features.T @ (weights * (chances - labels))
        curvature = (features * (weights * chances * (1 - chances))[:, None]).T @ features + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        found = found - step * min(1.0, 0.2 / max(1e-12, float(np.linalg.norm(step))))
    lies, truths = ([row for row in rows if row[1] in MADE], [row for row in found_as_is if row[2]])
    supported = _find_quantile(lies, 1 - LIES_PASSED)
    unsupported = _find_quantile(truths, TRUTHS_LOST)
    if written := [row for row in found_as_is if row[0].startswith("written")]:
        supported = max(supported, _find_quantile([row for row in written if not row[2]], 1 - LIES_PASSED))
        unsupported = _find_quantile([row for row in written if row[2]], WRITTEN_TRUTHS_LOST)
    unsupported = min(unsupported, supported)

    def to_chance(logit: float) -> float:
        return float(1 / (1 + np.exp(-found @ np.array([logit, 1.0]))))

    return {
        "scale": round(float(found[0]), 4),
        "offset": round(float(found[1]), 4),
        "supported": round(to_chance(supported), 4),
        "unsupported": round(to_chance(unsupported), 4),
        "languages": list(LANGUAGES),
    }


def _find_quantile(rows: Sequence[Row], share: float) -> float:
    """The logit below which this share of the rows lies, every source and kind counting the same."""
    counts = Counter((row[0], row[1]) for row in rows)
    kept = [row for row in rows if counts[row[0], row[1]] >= MIN_COUNT]
    return _quantile(np.array([row[3] for row in kept]), _balance([(row[0], row[1]) for row in kept]), share)


def _balance(keys: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Weights by which each key counts the same."""
    counts: dict[tuple[str, str], int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return np.array([1 / counts[key] for key in keys])


def _quantile(values: NDArray[np.float64], weights: NDArray[np.float64], share: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(below, share)])


def main() -> None:
    """Writes the file beside the model."""
    parser = argparse.ArgumentParser(prog="studies.support.calibrate", description="Chances and thresholds.")
    parser.add_argument("--tuning", type=Path, required=True, help="the file tuning.json that training writes")
    parser.add_argument("--model", type=Path, required=True, help="the file model.onnx that these are for")
    parser.add_argument("--out", type=Path, required=True, help="the file calibration.json to write")
    given = parser.parse_args()
    found = fit_calibration([tuple(row) for row in json.loads(given.tuning.read_text("utf-8"))])
    found["sha256"] = hashlib.sha256(given.model.read_bytes()).hexdigest()
    given.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
