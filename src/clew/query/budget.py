"""What fits: hits are taken best first while the text that holds them all stays within the tokens."""

from collections.abc import Callable, Sequence

from clew.core.types import Dropped, Hit, MergedChunk

Join = Callable[[Sequence[Hit]], list[MergedChunk]]
Render = Callable[[Sequence[MergedChunk]], str]
Count = Callable[[str], int]


def fit(
    hits: Sequence[Hit], *, tokens: int, join: Join, render: Render, count: Count
) -> tuple[list[MergedChunk], list[Dropped]]:
    """The stretches that the fitting hits make, and the ledger of the rest.

    What is counted is the rendered text itself, so the budget holds for numbers, headings and separators too. A hit
    that is too large is passed over, and later ones still try; so a long page that was found from end to end gives
    its best parts, not nothing.
    """
    kept: list[Hit] = []
    passages: list[MergedChunk] = []
    dropped: list[Dropped] = []
    for hit in hits:
        tried = join([*kept, hit])
        if count(render(tried)) <= tokens:
            kept.append(hit)
            passages = tried
        else:
            dropped.append(Dropped(join([hit])[0], "budget", count(hit.chunk.text)))
    return passages, dropped
