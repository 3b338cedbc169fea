"""Is a text code? By the share of its characters that are symbols of code."""

from collections.abc import Sequence

from clew.core.pattern import compile_pattern

MAX_SYMBOLS = 0.03  # prose has half of it or less
_SYMBOL = compile_pattern(r"[(){}\[\]=<>_;|&$#@\\/*+]")
_LOOKED_AT = 1_000  # characters of a text


def measure_symbols(texts: Sequence[str]) -> float:
    """The share of the characters of texts, by their first thousand, that are symbols of code."""
    starts = [text[:_LOOKED_AT] for text in texts]
    return sum(len(_SYMBOL.findall(text)) for text in starts) / max(1, sum(map(len, starts)))
