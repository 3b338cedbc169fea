"""Counted nouns in what is said to people."""


def format_count(count: int, noun: str, plural: str = "") -> str:
    """The count with its noun, singular for one: `1 document`, `2,000 documents`, `3 replies`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
