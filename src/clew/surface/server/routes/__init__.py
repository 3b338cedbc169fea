"""The paths of the server, one module per subject; each calls one verb of the engine."""
