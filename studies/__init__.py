"""Studies of retrieval quality on public judged sets: they chose the defaults, and print tables."""
