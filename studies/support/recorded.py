"""A verifier whose logits were computed before (`studies.support.score`), so that tables over whole sets take minutes."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from clew.core.answer import SupportVerdict
from clew.drivers.verify.cross_encoder import SupportModel


class RecordedVerifier:
    """The verifier with recorded logits; a pair that was not recorded is read, or kept for `write` to record."""

    def __init__(self, model: SupportModel, *, collects: bool = False) -> None:
        self.name, self.languages = model.name, model.languages
        self._model, self._collects = model, collects
        self._logits: dict[tuple[str, str], float] = {}
        self._missing: dict[tuple[str, str], None] = {}

    def load(self, pairs: Path, logits: Path) -> None:
        """Takes over the logits of pairs, in the same order."""
        with gzip.open(logits, "rt", encoding="utf-8") as file:
            values = json.load(file)
        with gzip.open(pairs, "rt", encoding="utf-8") as file:
            keys = [_normalise(*json.loads(line)[:2]) for line in file]
        self._logits |= dict(zip(keys, values, strict=False))

    def write(self, path: Path) -> int:
        """Writes the pairs that were asked for and not known; how many they are."""
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(pair, ensure_ascii=False) + "\n" for pair in self._missing)
        return len(self._missing)

    def support(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """For each pair of a passage and a claim, the chance that the passage supports the claim."""
        return [self._read(passage, claim) for passage, claim in pairs]

    def judge(self, chance: float) -> SupportVerdict:
        """As the verifier judges."""
        return self._model.judge(chance)

    def _read(self, passage: str, claim: str) -> float:
        key = _normalise(passage, claim)
        if key in self._logits:
            return self._model.calibrate(self._logits[key])
        self._missing[passage, claim] = None
        return 0.0 if self._collects else self._model.support([(passage, claim)])[0]


def _normalise(passage: str, claim: str) -> tuple[str, str]:
    return " ".join(passage.split()), " ".join(claim.split())
