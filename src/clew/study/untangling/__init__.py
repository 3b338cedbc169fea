"""Are flat channels untangled? Training and judging the reply links of `clew.index.untangle` on annotated logs."""
