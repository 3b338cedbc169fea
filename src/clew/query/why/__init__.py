"""Why was it not found? A search is run again with everything kept that came out of each step."""

from clew.query.why.diagnose import Attempt, Run, why_not

__all__ = ["Attempt", "Run", "why_not"]
