"""Does a passage support a claim? Data, training and evaluation of the verifier, and the rules beside it."""
