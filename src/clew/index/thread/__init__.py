"""Threading: messages become threads, from an export or incrementally, one message at a time."""
