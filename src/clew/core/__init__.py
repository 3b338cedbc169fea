"""What everything speaks: the nouns, the protocols, the errors, the trace, text and ids. Imports nothing of Clew."""
