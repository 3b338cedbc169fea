"""Messages become threads: from an export, or one message at a time."""
