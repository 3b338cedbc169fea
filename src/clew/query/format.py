"""Passages into prompt text."""

from collections.abc import Sequence

from clew.core.types import MergedChunk


def numbered(passages: Sequence[MergedChunk]) -> str:
    """Each passage under its number and heading path, with its source after it."""
    return "\n\n---\n\n".join(
        f"[{number}] {passage.heading_display}".rstrip() + f"\n{passage.text}\n(Source: {passage.source})"
        for number, passage in enumerate(passages, 1)
    )


RENDERERS = {"numbered": numbered}
