"""Speaker features: who spoke when last, who addresses whom, who has been talking with whom."""

import numpy as np

from clew.index.thread.untangle.matrices import (
    REACH,
    FeatureGroup,
    Floats,
    LookBack,
    Numbers,
    find_last_nonzero_row,
    log_scale,
    prefix_sums,
)


def compute_speaker_features(view: LookBack) -> FeatureGroup:
    """The relation of the author of a message to the author of each candidate."""
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
    """Message and pair features: how often each speaks, and how long ago."""
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
    """Message and pair features: whom the two address, and who addressed them since."""
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
    """Pair features: how often the two addressed each other in reach, and since the candidate."""
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
