"""Training and judging the reply links of `clew.index.thread.untangle` on annotated logs."""
