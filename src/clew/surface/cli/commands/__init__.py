"""The commands, one module per group of verbs; each calls one verb of the engine and prints the result."""
