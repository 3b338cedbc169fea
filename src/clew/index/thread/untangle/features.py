"""The features of reply candidates, named numbers from about 0 to 1: of each pair, and of the message by itself.

A window of a channel becomes matrices: who speaks, who addresses whom, and which words are shared. Its first `start`
messages are only candidates; those from there on need a parent. Authors and words are numbered within the window, so
its cost does not grow with the channel. Every feature of a message is computed over the `REACH` messages before it
alone, wherever the window starts.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.index.thread.untangle.cues import FORMS, MessageCues

REACH = 100  # candidates: the messages before each

Floats = NDArray[np.float32]
Ints = NDArray[np.intp]
Numbers = NDArray[Any]  # of any dtype: they become float32 when they are joined
_USUAL_SHARE = 0.8  # of the gaps, the shortest ones: nights and weekends do not count for the pace
_MIN_PACE = 1 / 6  # minutes per message; times are whole minutes
_DECAY_MESSAGES = 20.0  # messages after which my earlier words count 1/e
# In these names "I" is the author of the message, "he" the author of the candidate. The weights file uses them too.
PAIR_NAMES = (
    "distance", "nearest", "second", "third", "nearness",
    "timed", "minutes", "same minute", "within two", "within five", "beyond thirty", "against pace",
    "silence", "silence against pace",
    "authored", "same author", "my last", "my turns since", "others since", "his turns since", "his last", "his first",
    "his turns", "run goes on", "run begins",
    "I call him", "I name him", "I call another", "last of called", "he calls me", "he names me", "he calls anyone",
    "he calls another", "same called", "last call to me", "calls to him since", "calls to me since",
    "I called him before", "he called me before", "I called him since", "he called me since", "he answers my call",
    "my partner", "calls my partner", "caller of me",
    "shared words", "likeness", "count shared", "best shared", "share of best", "shared with him", "shared with mine",
)  # fmt: skip
MESSAGE_NAMES = (
    "fill", "timed", "pace", "gap", "gap against pace",
    "authored", "voices", "seen before", "since my last", "minutes since my last", "my turns", "last is mine",
    "calls", "calls many", "calling usual", "names", "called me", "since called", "called since my last",
    "partner spoke since",
    "most shared", "most like", "rare words",
)  # fmt: skip
PAIR_FEATURES = (*PAIR_NAMES, *(f"his: {form}" for form in FORMS))
MESSAGE_FEATURES = (*MESSAGE_NAMES, *FORMS)


@dataclass(frozen=True, slots=True)
class ChannelWindow:
    """n messages, of which `judged` need a parent; a authors, w words that occur in two messages or more."""

    judged: Ints  # positions of the messages that need a parent
    authors: Ints  # n
    has_author: NDArray[np.bool_]  # n
    minutes: NDArray[np.float64]  # n, nan where there is no time
    forms: Floats  # n × forms
    calls: Floats  # n × a: addresses the author
    names: Floats  # n × a: has the author's name somewhere
    words: Floats  # n × w
    unshared: Floats  # n: how many words no other message here has

    @classmethod
    def build(cls, cues: Sequence[MessageCues], start: int) -> "ChannelWindow":
        """Build the matrices of the messages; those from `start` on need a parent."""
        numbers: dict[str, int] = {}
        # Each message without an author gets an author of its own.
        authors = [numbers.setdefault(cue.author or f"\0{position}", len(numbers)) for position, cue in enumerate(cues)]
        by_alias: defaultdict[str, set[int]] = defaultdict(set)
        for cue, author in zip(cues, authors, strict=True):
            for name in cue.aliases:
                by_alias[name].add(author)
        calls, names = (np.zeros((len(cues), len(numbers)), np.float32) for _ in range(2))
        for position, cue in enumerate(cues):
            for name in cue.tokens & by_alias.keys():
                names[position, list(by_alias[name])] = 1
            for name in cue.addressed & by_alias.keys():
                calls[position, list(by_alias[name])] = 1
        author_ids = np.array(authors, np.intp)
        for own in (calls, names):  # nobody addresses themselves
            own[np.arange(len(cues)), author_ids] = 0
        words, single = _build_word_matrix(cues)
        return cls(
            np.arange(start, len(cues)),
            author_ids,
            np.array([bool(cue.author) for cue in cues]),
            np.array([cue.minute for cue in cues]),
            np.array([cue.forms for cue in cues], np.float32),
            calls,
            np.maximum(names, calls),
            words,
            single,
        )


@dataclass(frozen=True, slots=True)
class LookBack:
    """The r = REACH candidates of each of m messages."""

    window: ChannelWindow
    rows: Ints  # m: positions of the messages
    before: Ints  # m × r: positions of the candidates, the nearest first; 0 where there are no more
    valid: NDArray[np.bool_]  # m × r: whether there is a candidate
    low: Ints  # m: the first position in reach
    me: Ints  # m: the author of the message
    him: Ints  # m × r: the author of the candidate
    inside: Floats  # m × n: 1 in reach

    @classmethod
    def build(cls, window: ChannelWindow) -> "LookBack":
        """Build the candidates of every message of the window that needs a parent."""
        rows = window.judged
        back = rows[:, None] - np.arange(1, REACH + 1)
        before = np.maximum(back, 0)
        positions = np.arange(len(window.authors))
        low = np.maximum(rows - REACH, 0)
        inside = (positions >= low[:, None]) & (positions < rows[:, None])
        authors = window.authors
        return cls(window, rows, before, back >= 0, low, authors[rows], authors[before], inside.astype(np.float32))

    def gather_candidates(self, full: Numbers) -> Numbers:
        """Gather the columns of the candidates: m × n becomes m × r."""
        return np.take_along_axis(full, self.before, axis=1)


class FeatureGroup(NamedTuple):
    """Some of the features by name: of pairs (m × r each) and of messages (m each)."""

    pairs: dict[str, Numbers]
    messages: dict[str, Numbers]


def log_scale(values: Numbers, unit_at: float = REACH) -> Numbers:
    """Count on a logarithmic scale: 0 at 0, 1 at `unit_at`."""
    scaled: Numbers = np.log1p(np.maximum(values, 0)) / np.log1p(unit_at)
    return scaled


def prefix_sums(matrix: Floats) -> Floats:
    """Return the sum of the rows before each row, and of all rows at the end: one row more than given."""
    return np.concatenate([np.zeros((1, matrix.shape[1]), np.float32), np.cumsum(matrix, axis=0)])


def find_last_nonzero_row(matrix: Floats) -> Ints:
    """Find, for each row and the end, the last row before it where the column is not 0, else -1."""
    positions = np.where(matrix > 0, np.arange(len(matrix))[:, None], -1)
    return np.concatenate([np.full((1, matrix.shape[1]), -1), np.maximum.accumulate(positions, axis=0)])


def _build_word_matrix(cues: Sequence[MessageCues]) -> tuple[Floats, Floats]:
    """Return which message has which of the shared words, and how many unshared words each has."""
    counts = Counter(word for cue in cues for word in cue.words)
    column = {
        word: position for position, word in enumerate(sorted(word for word, count in counts.items() if count > 1))
    }
    matrix = np.zeros((len(cues), len(column)), np.float32)
    for position, cue in enumerate(cues):
        shared = [column[word] for word in cue.words if word in column]
        matrix[position, shared] = 1
    lone = [len(cue.words) for cue in cues] - matrix.sum(axis=1)
    return matrix, lone.astype(np.float32)


def compute_timing_features(view: LookBack) -> FeatureGroup:
    """Return how far back each candidate is, in messages and in minutes, and the longest silence since."""
    back = np.arange(1, REACH + 1)
    order: dict[str, Numbers] = {
        "distance": log_scale(back),
        "nearest": back == 1,
        "second": back == 2,
        "third": back == 3,
        "nearness": 1 / back,
    }
    minutes = view.window.minutes
    timed = ~np.isnan(minutes)
    both = timed[view.rows][:, None] & timed[view.before]
    gap = np.where(both, np.maximum(minutes[view.rows][:, None] - minutes[view.before], 0), 0)
    waits = _compute_candidate_waits(view)
    pace = _compute_mean_wait(waits, view.valid)
    silence = np.maximum.accumulate(waits, axis=1)
    pairs: dict[str, Numbers] = {
        "timed": both,
        "minutes": log_scale(gap, 60),
        "same minute": both & (gap < 1),
        "within two": both & (gap <= 2),
        "within five": both & (gap <= 5),
        "beyond thirty": both & (gap > 30),
        "against pace": log_scale(gap / pace[:, None]),
        "silence": log_scale(silence, 60),
        "silence against pace": log_scale(silence / pace[:, None]),
    }
    opens: dict[str, Numbers] = {
        "fill": log_scale(np.minimum(view.rows, REACH)),
        "timed": timed[view.rows],
        "pace": log_scale(pace, 60),
        "gap": log_scale(gap[:, 0], 60),
        "gap against pace": log_scale(gap[:, 0] / pace),
    }
    return FeatureGroup(order | pairs, opens)


def _compute_candidate_waits(view: LookBack) -> NDArray[np.float64]:
    """Compute m × r: the minutes between each candidate and the message after it; 0 where a time is missing."""
    minutes = view.window.minutes
    waits = np.nan_to_num(np.maximum(np.diff(minutes, append=np.nan), 0))
    return np.where(view.valid, waits[view.before], 0)


def _compute_mean_wait(waits: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Compute m: the mean of the usual waits in reach, in minutes per message."""
    ordered = np.sort(np.where(there, waits, np.inf), axis=1)
    usual = np.ceil(there.sum(axis=1) * _USUAL_SHARE)
    is_usual = np.arange(there.shape[1]) < usual[:, None]
    total = np.where(is_usual, np.where(np.isinf(ordered), 0, ordered), 0).sum(axis=1)
    pace: NDArray[np.float64] = np.maximum(total / np.maximum(usual, 1), _MIN_PACE)
    return pace


def compute_speaker_features(view: LookBack) -> FeatureGroup:
    """Compute the relation of the author of a message to the author of each candidate."""
    window, rows, me, him, low = view.window, view.rows, view.me, view.him, view.low
    spoken = np.zeros_like(window.calls)
    spoken[np.arange(len(spoken)), window.authors] = 1
    last, last_call = find_last_nonzero_row(spoken), find_last_nonzero_row(window.calls)
    mine = last[rows, me]
    mine = np.where(mine >= low, mine, -1)
    caller = last_call[rows, me]
    caller = np.where(caller >= low, caller, -1)
    around = (last[rows + 1] >= low[:, None]).astype(np.float32)  # m × a: who speaks in reach
    partner = window.calls[np.maximum(mine, 0)] * around * (mine >= 0)[:, None]  # whom I addressed when I last spoke
    turns, turn_pairs = _compute_turn_features(view, spoken, last, mine)
    calls, call_pairs = _compute_address_features(view, around, caller)
    partners: dict[str, Numbers] = {
        "my partner": np.take_along_axis(partner, him, axis=1),
        "calls my partner": view.gather_candidates(partner @ window.calls.T) > 0,
        "caller of me": (caller >= 0)[:, None] & (window.authors[np.maximum(caller, 0)][:, None] == him),
        "last of called": call_pairs["I call him"] * turn_pairs["his last"],
    }
    both: dict[str, Numbers] = {
        "called since my last": caller > mine,
        "partner spoke since": ((last[rows] > mine[:, None]) * partner).sum(axis=1) > 0,
    }
    return FeatureGroup(turn_pairs | call_pairs | _compute_exchange_features(view) | partners, turns | calls | both)


def _compute_turn_features(
    view: LookBack, spoken: Floats, last: Numbers, mine: Numbers
) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
    """Compute message and pair features: how often each speaks, and how long ago."""
    window, rows, before, me, him, low = view.window, view.rows, view.before, view.me, view.him, view.low
    count = prefix_sums(spoken)
    within = count[rows] - count[low]  # m × a
    mine_since = count[rows, me][:, None] - count[before + 1, me[:, None]]
    his_since = count[rows[:, None], him] - count[before + 1, him]
    back = np.arange(1, REACH + 1)
    authors, minutes = window.authors, window.minutes
    follows = authors[np.minimum(before + 1, len(authors) - 1)] == him
    leads = (authors[np.maximum(before - 1, 0)] == him) & (before > low[:, None])
    away = np.where(mine >= 0, np.nan_to_num(minutes[rows] - minutes[np.maximum(mine, 0)]), 60)
    messages: dict[str, Numbers] = {
        "authored": window.has_author[rows],
        "voices": log_scale((within > 0).sum(axis=1)),
        "seen before": mine >= 0,
        "since my last": log_scale(np.where(mine >= 0, rows - mine, REACH)),
        "minutes since my last": log_scale(away, 60),
        "my turns": log_scale(np.take_along_axis(within, me[:, None], axis=1)[:, 0], 50),
        "last is mine": (mine >= 0) & (mine == rows - 1),
    }
    pairs: dict[str, Numbers] = {
        "authored": window.has_author[rows][:, None] & window.has_author[before],
        "same author": me[:, None] == him,
        "my last": before == mine[:, None],
        "my turns since": log_scale(mine_since, 20),
        "others since": log_scale(back - 1 - mine_since),
        "his turns since": log_scale(his_since, 20),
        "his last": his_since == 0,
        "his first": last[before, him] < low[:, None],
        "his turns": log_scale(np.take_along_axis(within, him, axis=1), 50),
        "run goes on": follows & (back > 1),
        "run begins": ~leads,
    }
    return messages, pairs


def _compute_address_features(
    view: LookBack, around: Floats, caller: Numbers
) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
    """Compute message and pair features: whom the two address, and who addressed them since."""
    window, rows, before, me, him = view.window, view.rows, view.before, view.me, view.him
    called, named = window.calls[rows] * around, window.names[rows] * around  # m × a
    all_called = called.sum(axis=1)
    count = prefix_sums(window.calls)
    of_him = np.take_along_axis(called, him, axis=1)
    of_me = window.calls[before, me[:, None]]
    of_any = view.gather_candidates(around @ window.calls.T)
    messages: dict[str, Numbers] = {
        "calls": all_called > 0,
        "calls many": all_called > 1,
        # Where people usually address each other, a message that addresses nobody means more.
        "calling usual": ((of_any > 0) & view.valid).sum(axis=1) / np.maximum(view.valid.sum(axis=1), 1),
        "names": named.sum(axis=1) > 0,
        "called me": caller >= 0,
        "since called": log_scale(np.where(caller >= 0, rows - caller, REACH)),
    }
    pairs: dict[str, Numbers] = {
        "I call him": of_him,
        "I name him": np.take_along_axis(named, him, axis=1),
        "I call another": all_called[:, None] > of_him,
        "he calls me": of_me,
        "he names me": window.names[before, me[:, None]],
        "he calls anyone": of_any > 0,
        "he calls another": of_any > of_me,
        "same called": view.gather_candidates(called @ window.calls.T) > 0,
        "last call to me": before == caller[:, None],
        "calls to him since": log_scale(count[rows[:, None], him] - count[before + 1, him], 10),
        "calls to me since": log_scale(count[rows, me][:, None] - count[before + 1, me[:, None]], 10),
    }
    return messages, pairs


def _compute_exchange_features(view: LookBack) -> dict[str, Numbers]:
    """Compute pair features: how often the two addressed each other in reach, and since the candidate."""
    window, authors, me = view.window, view.window.authors, view.me
    positions = np.arange(len(authors))
    mine = (authors == me[:, None]) * view.inside  # m × n: messages of mine
    to_me = window.calls[:, me].T * view.inside  # m × n: messages that address me
    to_him = window.calls[:, authors]  # n × n: a message addresses the author of another
    by_him = (authors[:, None] == authors).astype(np.float32)  # n × n: same author
    later = (positions[:, None] > positions).astype(np.float32)  # n × n
    i_called = view.gather_candidates(mine @ to_him)
    return {
        "I called him before": log_scale(i_called, 10),
        "he called me before": log_scale(view.gather_candidates(to_me @ by_him), 10),
        "I called him since": log_scale(view.gather_candidates(mine @ (to_him * later)), 10),
        "he called me since": log_scale(view.gather_candidates(to_me @ (by_him * later)), 10),
        "he answers my call": window.calls[view.before, me[:, None]] * (i_called > 0),
    }


def compute_shared_word_features(view: LookBack) -> FeatureGroup:
    """Compute the words that messages share with their candidates, the candidates' authors, and my latest messages."""
    words, rows = view.window.words, view.rows
    counts = prefix_sums(words)
    found = counts[rows + 1] - counts[view.low]  # m × w: how many messages in reach have the word
    size = (np.minimum(rows, REACH) + 1).astype(np.float32)[:, None]
    rarity = np.log1p(size / np.maximum(found, 1))
    alone = np.log1p(size)  # the weight of an unshared word
    own = words[rows] * rarity
    shared = (own @ words.T) * view.inside  # m × n
    weight = rarity @ words.T + alone * view.window.unshared  # m × n: the weight of all words of each candidate
    own_weight = own.sum(axis=1) + alone[:, 0] * view.window.unshared[rows]
    likeness = shared / np.sqrt(np.maximum(weight * own_weight[:, None], 1e-6))
    most = shared.max(axis=1, initial=0)
    authors = view.window.authors
    by_him = (authors[:, None] == authors).astype(np.float32)  # n × n
    fading = np.exp((np.arange(len(authors)) - rows[:, None]) / _DECAY_MESSAGES)
    mine = (authors == view.me[:, None]) * view.inside * np.minimum(fading, 1)
    lately = np.minimum(mine.astype(np.float32) @ words, 1) * rarity
    here = view.gather_candidates(shared)
    return FeatureGroup(
        {
            "shared words": log_scale(here, 20),
            "likeness": view.gather_candidates(likeness),
            "count shared": log_scale(view.gather_candidates(words[rows] @ words.T), 10),
            "best shared": (here > 0) & (here == most[:, None]),
            "share of best": here / np.maximum(most, 1e-6)[:, None],
            "shared with him": log_scale(view.gather_candidates(shared @ by_him), 50),
            "shared with mine": log_scale(
                view.gather_candidates(lately @ words.T) * (view.him != view.me[:, None]), 20
            ),
        },
        {
            "most shared": log_scale(most, 20),
            "most like": likeness.max(axis=1, initial=0),
            "rare words": log_scale(own_weight, 50),
        },
    )


@dataclass(frozen=True, slots=True)
class ReplyFeatures:
    """For m messages and the REACH candidates before each, the nearest first: the features, and which exist."""

    pairs: Floats  # m × REACH × PAIR_FEATURES
    valid: NDArray[np.bool_]  # m × REACH
    messages: Floats  # m × MESSAGE_FEATURES


def extract_reply_features(window: ChannelWindow) -> ReplyFeatures:
    """Extract the features of every message of the window that needs a parent."""
    view = LookBack.build(window)
    groups = (compute_timing_features(view), compute_speaker_features(view), compute_shared_word_features(view))
    by_pair = {name: values for group in groups for name, values in group.pairs.items()}
    by_message = {name: values for group in groups for name, values in group.messages.items()}
    pairs = np.empty((*view.valid.shape, len(PAIR_FEATURES)), np.float32)
    for column, name in enumerate(PAIR_NAMES):
        pairs[:, :, column] = by_pair[name]
    pairs[:, :, len(PAIR_NAMES) :] = window.forms[view.before]
    messages = np.empty((len(view.rows), len(MESSAGE_FEATURES)), np.float32)
    for column, name in enumerate(MESSAGE_NAMES):
        messages[:, column] = by_message[name]
    messages[:, len(MESSAGE_NAMES) :] = window.forms[view.rows]
    return ReplyFeatures(pairs, view.valid, messages)
