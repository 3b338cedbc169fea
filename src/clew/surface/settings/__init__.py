"""Settings from flags, the environment and `clew.toml`."""
