"""The outermost layer: settings and the command line."""
