"""Truncates a conversation to a model's context: cuts the middle out of the longest messages, and marks the cut."""

from collections.abc import Callable, Sequence
from typing import Any

from clew.core.errors import DriverFailed

Message = dict[str, Any]
OMISSION = "\n[… the middle was left out here, because it is too long …]\n"
MIN_KEPT_TOKENS = 32  # of a message that is cut
TEMPLATE_TOKENS = 40  # that the chat template adds to the conversation
TOKENS_PER_MESSAGE = 8  # … and to each message


def truncate_messages(messages: Sequence[Message], count: Callable[[str], int], *, max_tokens: int) -> list[Message]:
    """The messages within `max_tokens`: the longest lose their middle; DriverFailed if that is not enough."""
    fitted = list(messages)
    sizes = [count(message["content"]) for message in fitted]
    total = sum(sizes)
    while (excess := sum(sizes) + TOKENS_PER_MESSAGE * len(sizes) + TEMPLATE_TOKENS - max_tokens) > 0:
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        if sizes[longest] <= MIN_KEPT_TOKENS:
            raise DriverFailed(
                f"the prompt has {total} tokens and the model has room for {max_tokens}; "
                "shorten the prompt, or ask for a shorter answer"
            )
        keep = max(MIN_KEPT_TOKENS, sizes[longest] - excess)
        fitted[longest] = {**fitted[longest], "content": _cut_middle(fitted[longest]["content"], count, keep)}
        sizes[longest] = min(keep, count(fitted[longest]["content"]))
    return fitted


def _cut_middle(text: str, count: Callable[[str], int], keep: int) -> str:
    share = keep / count(text)
    while True:
        half = int(len(text) * share / 2)
        cut = text[:half] + OMISSION + text[len(text) - half :]
        if not half or count(cut) <= keep:
            return cut
        share *= 0.95
