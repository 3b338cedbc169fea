"""Pages of a made-up company, and short questions after a turn on them: follow-ups, and queries for something new."""
