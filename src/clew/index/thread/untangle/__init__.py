"""Flat channels untangled: for each message the earlier one that it answers.

Stands between reading and chunking: what it returns fills in the replies that an export does not carry, so that a flat
channel becomes conversations. `reading` sees what one message says, `window` what stood around it, `evidence` what
speaks for each of the messages before it, and `net` weighs that by a file of weights of our own training.
"""

from collections import defaultdict
from collections.abc import Sequence

from clew.core.types import Message
from clew.index.thread.untangle.evidence import evidence
from clew.index.thread.untangle.net import Net, shipped
from clew.index.thread.untangle.reading import Said, read
from clew.index.thread.untangle.window import REACH, Window

__all__ = ["REACH", "untangle"]

_BLOCK = 128  # messages judged at once: enough to hide the cost of a call, few enough to stay in the cache


def untangle(
    messages: Sequence[Message], *, before: Sequence[Message] = (), net: Net | None = None
) -> list[int | None]:
    """For each message the position (in before + messages) of the one it answers, None where it opens a conversation.

    Messages stand in the order they were sent. An explicit `reply_to` always wins; where it names no earlier message
    that is given, what it answers stands elsewhere and the result is None. Next comes a quote ("> what was said"), then
    the judgement of the net that is shipped, or of another. Each decision sees the `REACH` messages of the same channel
    before it and nothing else, so one new message after the last hundred gets the same answer as in the whole channel.
    What the system says (role "system") answers nothing and is not answered.
    """
    everything = [*before, *messages]
    channels: defaultdict[str, list[int]] = defaultdict(list)
    seen: dict[str, int] = {}
    links: list[int | None] = [None] * len(everything)
    for place, message in enumerate(everything):
        if message.reply_to:
            links[place] = seen.get(message.reply_to)
        seen[message.id] = place
        if message.role != "system":
            channels[message.channel].append(place)
    for places in channels.values():
        new = next((at for at, place in enumerate(places) if place >= len(before)), len(places))
        if all(everything[place].reply_to for place in places[new:]):
            continue  # nothing to guess
        guesses = _guessed([everything[place] for place in places], new, net or shipped())
        for at, guess in enumerate(guesses, new):
            if guess is not None and not everything[places[at]].reply_to:
                links[places[at]] = places[guess]
    return links[len(before) :]


def _guessed(messages: Sequence[Message], new: int, net: Net) -> list[int | None]:
    """The positions that the messages from `new` on answer by a quote or by the net's judgement."""
    found: list[int | None] = []
    for start in range(new, len(messages), _BLOCK):
        first = max(0, start - REACH)
        said = [read(message) for message in messages[first : start + _BLOCK]]
        choices = net.choices(evidence(Window.of(said, start - first))).tolist()
        for row, back in enumerate(choices, start - first):
            guess = row - back if back else None
            quoted = _quoted(said, row) if said[row].quote else None
            answered = guess if quoted is None else quoted
            found.append(None if answered is None else first + answered)
    return found


def _quoted(said: Sequence[Said], row: int) -> int | None:
    """The nearest message in reach that says what this one quotes, if one does."""
    reach = range(row - 1, max(0, row - REACH) - 1, -1)
    return next((place for place in reach if said[row].quote in said[place].text), None)
