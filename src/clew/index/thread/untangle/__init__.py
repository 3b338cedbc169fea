"""Conversation disentanglement: for each message of a flat channel the earlier one that it replies to.

It runs between reading and chunking and infers the replies that an export does not state. `cues` looks at one message,
`matrices` at the messages around it, `features` at each pair of a message and a candidate, and `net` scores the
candidates with weights that we trained.
"""

from collections import defaultdict
from collections.abc import Sequence

from clew.core.types import Message
from clew.index.thread.untangle.cues import MessageCues, extract_message_cues
from clew.index.thread.untangle.features import REACH, ChannelWindow, extract_reply_features
from clew.index.thread.untangle.net import ReplyNet, load_default_net

__all__ = ["REACH", "infer_reply_parents"]

_BLOCK_MESSAGES = 128  # scored at once: enough to hide the cost of a call, few enough to stay in the CPU cache


def infer_reply_parents(
    messages: Sequence[Message], *, before: Sequence[Message] = (), net: ReplyNet | None = None
) -> list[int | None]:
    """Return the parent of each message as a position in before + messages; None if it starts a conversation.

    Messages are in the order they were sent. An explicit `reply_to` always wins; where it names no earlier message that
    is given, the result is None. Next comes a quote ("> quoted text"), then the choice of the net (default: the shipped
    one). Each decision depends on the `REACH` messages of the same channel before it and nothing else, so one new
    message after the last hundred gets the same result as in the whole channel. Messages of role "system" neither reply
    nor get replies.
    """
    everything = [*before, *messages]
    channels: defaultdict[str, list[int]] = defaultdict(list)
    seen: dict[str, int] = {}
    links: list[int | None] = [None] * len(everything)
    for position, message in enumerate(everything):
        if message.reply_to:
            links[position] = seen.get(message.reply_to)
        seen[message.id] = position
        if message.role != "system":
            channels[message.channel].append(position)
    for positions in channels.values():
        new = next((at for at, position in enumerate(positions) if position >= len(before)), len(positions))
        if all(everything[position].reply_to for position in positions[new:]):
            continue  # nothing to guess
        guesses = _guess_parents([everything[position] for position in positions], new, net or load_default_net())
        for at, guess in enumerate(guesses, new):
            if guess is not None and not everything[positions[at]].reply_to:
                links[positions[at]] = positions[guess]
    return links[len(before) :]


def _guess_parents(messages: Sequence[Message], new: int, net: ReplyNet) -> list[int | None]:
    """Return the positions of the parents of the messages from `new` on, by a quote or by the net."""
    found: list[int | None] = []
    for start in range(new, len(messages), _BLOCK_MESSAGES):
        first = max(0, start - REACH)
        cues = [extract_message_cues(message) for message in messages[first : start + _BLOCK_MESSAGES]]
        choices = net.choose_parents(extract_reply_features(ChannelWindow.build(cues, start - first))).tolist()
        for row, back in enumerate(choices, start - first):
            guess = row - back if back else None
            quoted = _find_quoted_message(cues, row) if cues[row].quote else None
            parent = guess if quoted is None else quoted
            found.append(None if parent is None else first + parent)
    return found


def _find_quoted_message(cues: Sequence[MessageCues], row: int) -> int | None:
    """Find the nearest message in reach that contains what this one quotes, or None."""
    reach = range(row - 1, max(0, row - REACH) - 1, -1)
    return next((position for position in reach if cues[row].quote in cues[position].text), None)
