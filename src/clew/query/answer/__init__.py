"""Answers from a context: the best sentences verbatim without a model, checked prose with one."""

from clew.query.answer.confidence import PROBE_HITS, Probe
from clew.query.answer.extract import extract_answer
from clew.query.answer.passages import NumberedPassage, number_passages
from clew.query.answer.write import NO_ANSWER, write_answer

__all__ = ["NO_ANSWER", "PROBE_HITS", "NumberedPassage", "Probe", "extract_answer", "number_passages", "write_answer"]
