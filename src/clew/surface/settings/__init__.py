"""Settings from the command line, the environment and `clew.toml`."""
