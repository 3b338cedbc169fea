"""Answers from a context: the passages that answer without a model, checked prose with one."""

from clew.query.answer.passages import NumberedPassage, number_passages
from clew.query.answer.write import write_answer

__all__ = ["NumberedPassage", "number_passages", "write_answer"]
