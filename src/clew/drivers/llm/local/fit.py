"""Makes a conversation fit a model's context: the middle of its longest message is left out, and says so."""

from collections.abc import Callable, Sequence
from typing import Any

from clew.core.errors import DriverFailed

Message = dict[str, Any]
MARK = "\n[… the middle was left out here, because it is too long …]\n"
LEAST = 32  # tokens that must be left of the message that is cut
FRAME = 40  # tokens that the template puts around it all
EACH = 8  # … and around every message


def fitted(messages: Sequence[Message], count: Callable[[str], int], *, room: int) -> list[Message]:
    """The messages with at most so many tokens, or DriverFailed where cutting one does not do."""
    sizes = [count(message["content"]) for message in messages]
    over = sum(sizes) + EACH * len(sizes) + FRAME - room
    if over <= 0:
        return list(messages)
    longest = max(range(len(sizes)), key=sizes.__getitem__)
    keep = sizes[longest] - over
    if keep < LEAST:
        raise DriverFailed(
            f"the prompt has {sum(sizes)} tokens and the model has room for {room}; ask with less text, or for less"
        )
    cut = {**messages[longest], "content": _without_middle(messages[longest]["content"], count, keep)}
    return [cut if place == longest else message for place, message in enumerate(messages)]


def _without_middle(text: str, count: Callable[[str], int], keep: int) -> str:
    share = keep / count(text)
    while True:
        half = int(len(text) * share / 2)
        cut = text[:half] + MARK + text[len(text) - half :]
        if not half or count(cut) <= keep:
            return cut
        share *= 0.95
