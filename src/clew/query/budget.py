"""What fits: passages are taken best first while the text that holds them stays within the tokens."""

from collections.abc import Callable, Sequence

from clew.core.types import Dropped, MergedChunk

Render = Callable[[Sequence[MergedChunk]], str]
Count = Callable[[str], int]


def fit(
    passages: Sequence[MergedChunk], *, tokens: int, render: Render, count: Count
) -> tuple[list[MergedChunk], list[Dropped]]:
    """The passages that fit and the ledger of the rest; one that is too large is passed over, later ones still try.

    What is counted is the rendered text itself, so the budget holds for numbers, headings and separators too.
    """
    kept: list[MergedChunk] = []
    dropped: list[Dropped] = []
    for passage in passages:
        if count(render([*kept, passage])) <= tokens:
            kept.append(passage)
        else:
            dropped.append(Dropped(passage, "budget", count(passage.text)))
    return kept, dropped
