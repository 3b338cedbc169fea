"""why_not: runs a search again, keeps the results of each step, and finds the step that lost a target."""

from clew.query.why.diagnose import Attempt, Run, why_not
from clew.query.why.fix import TrialReranker

__all__ = ["Attempt", "Run", "TrialReranker", "why_not"]
