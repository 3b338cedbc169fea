"""Thread smoothing: a message gains score and relevance from the messages around it in its conversation.

A message is indexed with the words of the messages before it. Messages after it are not known then, and count here, at
search time: a message gains a share of the scores of the messages after it, and a smaller share of those before it.
Gains fill the gap between a score and 1, so that many weakly matching neighbours never overtake the best match. A
message without content of its own ("ok", "+1") gains nothing. Only messages that were found give and gain.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from clew.core.candidates import ThreadPlace
from clew.core.small_talk import has_content
from clew.core.types import Chunk
from clew.query.rank.calibrate import Signal

FLOW = "flow"  # the name of the score
AFTER = 0.5  # share of the next message's score that a message gains (`make study ARGS=locomo`)
BEFORE = 0.3  # share of the previous message's score; its words are indexed with this message already
PASSED = 0.5  # share of the score of a message that only repeats the query, for the messages after it
LEAST_GAIN = 1e-3  # a smaller gain is not worth reading the text
_NUMBERS = 1 << 32  # more than a thread has messages


def is_message_chunk(chunk: Chunk) -> bool:
    """Return whether a chunk is a message or a part of one."""
    return bool(chunk.meta.get("message"))


def smooth_in_range(scores: Signal, places: Sequence[ThreadPlace], reach: int) -> Signal:
    """Return the scores of messages with their gains from each other, scaled to keep the range of all scores."""
    low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.0, 0.0)
    if high <= low:
        return scores
    return low + (high - low) * add_neighbours((scores - low) / (high - low), places, reach)


def add_neighbours(
    scores: Signal,
    places: Sequence[ThreadPlace],
    reach: int,
    given: Signal | None = None,
    around: Sequence[ThreadPlace] | None = None,
    asks: NDArray[np.bool_] | None = None,
) -> Signal:
    """Return the scores of messages, from 0 to 1, with what each gains from messages near it in its thread.

    1 - (1 - score(i)) · Π (1 - share · (1 - (d - 1) / reach) · score(j)) over the messages at a distance d of up to
    `reach`, where the share is AFTER for messages that follow and BEFORE for messages that precede: a noisy-or (Pearl,
    "Probabilistic Reasoning in Intelligent Systems", 1988). A reply is at distance 1 from the message it answers,
    however far apart they are; of several distant replies the best counts. A message without content keeps its score.

    given, around: The scores and places of the messages to gain from; None: `scores` and `places`.
    asks: Which of these only repeat the query: messages after one gain PASSED, messages before it nothing.
    """
    given, around = scores if given is None else given, places if around is None else around
    if not len(around) or not reach:
        return scores
    threads = {thread: number for number, thread in enumerate({place.thread for place in (*places, *around)})}
    keys, giving = _make_keys(places, threads), _make_keys(around, threads)
    known, at = np.unique(giving, return_inverse=True)
    following, preceding = np.zeros(len(known)), np.zeros(len(known))
    is_question = np.zeros(len(given), bool) if asks is None else asks
    np.maximum.at(following, at, np.where(is_question, 0.0, AFTER * given))  # the best part of a message counts
    np.maximum.at(preceding, at, np.where(is_question, PASSED, BEFORE) * given)

    def look_up(shares: Signal, wanted: NDArray[np.int64]) -> Signal:
        found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[found] == wanted, shares[found], 0.0)

    distances = np.arange(1, reach + 1)
    nearness = 1 - (distances - 1) / reach
    lack: Signal = (1 - scores) * (1 - nearness * look_up(following, keys[:, None] + distances)).prod(axis=1)
    lack *= (1 - nearness * look_up(preceding, keys[:, None] - distances)).prod(axis=1)
    answered, replies = _find_distant_replies(keys, places, giving, around, reach)
    lack *= 1 - np.where(answered >= 0, look_up(preceding, answered), 0.0)
    for key, of in replies:
        lack[keys == key] *= 1 - float(look_up(following, of).max())
    gained = 1 - lack
    for place in np.flatnonzero(gained - scores > LEAST_GAIN).tolist():
        if not has_content(places[place].text):
            gained[place] = scores[place]
    return gained


def _make_keys(places: Sequence[ThreadPlace], threads: Mapping[int, int]) -> NDArray[np.int64]:
    """Return a number for each message; consecutive messages of a thread have consecutive numbers."""
    return np.array([threads[place.thread] * _NUMBERS + place.number for place in places], np.int64)


def _find_distant_replies(
    keys: NDArray[np.int64],
    places: Sequence[ThreadPlace],
    giving: NDArray[np.int64],
    around: Sequence[ThreadPlace],
    reach: int,
) -> tuple[NDArray[np.int64], list[tuple[int, NDArray[np.int64]]]]:
    """Return the key of the distant message that each message answers, or -1, and each key's distant replies."""
    key_of = {(place.thread, place.message): key for place, key in zip(around, giving.tolist(), strict=True)}
    own = {(place.thread, place.message): key for place, key in zip(places, keys.tolist(), strict=True)}
    answered, replies = np.full(len(keys), -1, np.int64), dict[int, list[int]]()
    for at, place in enumerate(places):
        key = key_of.get((place.thread, place.reply_to), -1) if place.reply_to else -1
        if key >= 0 and int(keys[at]) - key > reach:
            answered[at] = key
    for place, key in zip(around, giving.tolist(), strict=True):
        to = own.get((place.thread, place.reply_to), -1) if place.reply_to else -1
        if to >= 0 and key - to > reach:
            replies.setdefault(to, []).append(key)
    return answered, [(key, np.array(of, np.int64)) for key, of in replies.items()]
