"""Long runs: `make soak` repeats seeded tests many times more than `make test` does."""

import os


def choose_runs(few: int, many: int) -> int:
    """How often a seeded test repeats: a few times by default, many times in `make soak`."""
    return many if os.environ.get("CLEW_SOAK") else few
