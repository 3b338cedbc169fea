"""The verifier and the reader "builtin": one small cross-encoder that reads a claim or a question with a passage.

It was trained for both (`studies.support`, `studies.reader`) from the reranker's network, and costs as much to run;
`model/README.md` describes its training data and accuracy. One pair per run, as for the reranker (see `drivers.onnx`).

A passage over the token limit is read in overlapping windows, each with the passage's first line if that is short: it
may be the headings. The best window counts.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock

import numpy as np

from clew.core.answer import SupportVerdict
from clew.core.errors import DriverFailed, DriverMissing
from clew.core.parallel import run_parallel
from clew.core.settings import AnswerConfig
from clew.drivers.onnx import MIN_TOKENS, OnnxModel, PairTemplate, count_cores
from clew.drivers.windows import keep_both_ends, logistic, max_score_per_text, split_windows

MODEL = Path(__file__).parent / "model"
MAX_TOKENS = 448  # of a pair, as in training
OVERLAP = 96  # minimum tokens that two windows share
_opening = Lock()
MAX_HEADING = 48  # tokens; a longer first line is not repeated in every window


class SupportModel:
    """A support model in a folder: `model.onnx`, `tokenizer.json`, and fitted parameters in `calibration.json`."""

    def __init__(self, folder: Path, *, name: str, max_tokens: int = MAX_TOKENS) -> None:
        self._model = OnnxModel(folder, name=name)
        self._template = PairTemplate(self._model.tokenizer)
        try:
            fitted = json.loads((folder / "calibration.json").read_text("utf-8"))
            self._scale, self._offset = float(fitted["scale"]), float(fitted["offset"])
            self._supported, self._unsupported = float(fitted["supported"]), float(fitted["unsupported"])
            self._answer_scale, self._answer_offset = map(float, fitted["answers"])
            self.languages = frozenset(fitted["languages"])
            expected = str(fitted["sha256"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DriverMissing(f"{name}: {folder / 'calibration.json'} cannot be read; install clew again") from error
        if hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest() != expected:
            raise DriverMissing(
                f"{name}: {folder / 'model.onnx'} is not the file that it was made with; install clew again"
            )
        self.name = name
        self.max_tokens = max(max_tokens, MIN_TOKENS)

    def support(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return, for each (passage, claim) in order, the probability that the passage supports the claim."""
        return [self.calibrate(logit) for logit in self.read(pairs)]

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return, for each (passage, claim or question) in order, the logit of the best window."""
        if not pairs:
            return []
        size = self.max_tokens - self._template.size
        contents = self._model.tokenize([text for pair in pairs for text in pair])
        headings = self._model.tokenize([passage.partition("\n")[0] for passage, _ in pairs])
        inputs: list[tuple[list[int], list[int]]] = []
        owners: list[int] = []
        for owner, (passage, claim) in enumerate(zip(contents[::2], contents[1::2], strict=True)):
            short = [token for part in keep_both_ends(len(claim), size // 2) for token in claim[part]]
            windows = self._split_passage(passage, headings[owner], size - len(short))
            inputs += [self._template.encode_pair(short, window) for window in windows]
            owners += [owner] * len(windows)
        order = sorted(range(len(inputs)), key=lambda at: -len(inputs[at][0]))  # longest first, to balance the cores
        logits = run_parallel([partial(self._run, *inputs[at]) for at in order], max_concurrent=count_cores())
        return max_score_per_text(logits, [owners[at] for at in order], len(pairs))

    def judge(self, chance: float) -> SupportVerdict:
        """Judge a probability: supported, unsupported or, between the two thresholds, unsure."""
        if chance >= self._supported:
            return "supported"
        return "unsupported" if chance < self._unsupported else "unsure"

    def calibrate(self, logit: float) -> float:
        """Return the probability of support for a logit of the model."""
        return logistic(self._scale * logit + self._offset)

    def calibrate_answer(self, logit: float) -> float:
        """Return the probability, for a logit of the model, that a part of a passage answers a question."""
        return logistic(self._answer_scale * logit + self._answer_offset)

    def _split_passage(self, passage: list[int], heading: list[int], size: int) -> list[list[int]]:
        """Split a passage into windows; all but the first begin with the passage's first line, if that is short."""
        if len(passage) <= size:
            return [passage]
        head = heading if len(heading) <= min(MAX_HEADING, size // 4) else []
        windows = [passage[part] for part in split_windows(len(passage), size - len(head), OVERLAP)]
        return [windows[0], *(head + window for window in windows[1:])]

    def _run(self, ids: list[int], types: list[int]) -> float:
        output = self._model.run(ids, types, output=self._model.outputs[0])
        if output.size != 1:
            raise DriverFailed(f"{self.name} gives {output.shape} for a pair and not one number; it is no verifier")
        logit = float(output.reshape(()))
        if not np.isfinite(logit):
            raise DriverFailed(f"{self.name} gave a value that is not a number; trying again will not help")
        return logit


def make_support_model(config: AnswerConfig) -> SupportModel:  # noqa: ARG001 - nothing can be set
    """Make the verifier "builtin"."""
    with _opening:  # concurrent threads share one model
        return _open_builtin()


@lru_cache(1)
def _open_builtin() -> SupportModel:
    return SupportModel(MODEL, name="builtin")


class AnswerModel:
    """A reader that scores how well texts answer a question, trained to tell answers from near misses."""

    def __init__(self, model: SupportModel) -> None:
        self._model = model
        self.name, self.languages = model.name, model.languages

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the logit of each text, in order."""
        return self._model.read([(text, query) for text in texts])

    def calibrate(self, score: float) -> float:
        """Return the probability that a text with this score answers."""
        return self._model.calibrate_answer(score)


def make_answer_reader(config: AnswerConfig) -> AnswerModel:
    """Make the reader "builtin"."""
    return AnswerModel(make_support_model(config))
