"""Makes a conversation fit a model's context: the middles of its longest messages are left out, and that is said."""

from collections.abc import Callable, Sequence
from typing import Any

from clew.core.errors import DriverFailed

Message = dict[str, Any]
MARK = "\n[… the middle was left out here, because it is too long …]\n"
LEAST = 32  # tokens that must be left of the message that is cut
FRAME = 40  # tokens that the template puts around it all
EACH = 8  # … and around every message


def fitted(messages: Sequence[Message], count: Callable[[str], int], *, room: int) -> list[Message]:
    """The messages with at most so many tokens, or DriverFailed where cutting them does not do."""
    fit = list(messages)
    sizes = [count(message["content"]) for message in fit]
    whole = sum(sizes)
    while (over := sum(sizes) + EACH * len(sizes) + FRAME - room) > 0:
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        if sizes[longest] <= LEAST:
            raise DriverFailed(
                f"the prompt has {whole} tokens and the model has room for {room}; ask with less text, or for less"
            )
        keep = max(LEAST, sizes[longest] - over)
        fit[longest] = {**fit[longest], "content": _without_middle(fit[longest]["content"], count, keep)}
        sizes[longest] = min(keep, count(fit[longest]["content"]))
    return fit


def _without_middle(text: str, count: Callable[[str], int], keep: int) -> str:
    share = keep / count(text)
    while True:
        half = int(len(text) * share / 2)
        cut = text[:half] + MARK + text[len(text) - half :]
        if not half or count(cut) <= keep:
            return cut
        share *= 0.95
