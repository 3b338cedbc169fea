"""Answers out of a context: the best sentences without a model, checked prose with one."""

from clew.query.answer.confidence import LOOKED_AT, Look
from clew.query.answer.extract import extracted
from clew.query.answer.passages import Shown, shown_in
from clew.query.answer.write import NOT_HERE, written

__all__ = ["LOOKED_AT", "NOT_HERE", "Look", "Shown", "extracted", "shown_in", "written"]
