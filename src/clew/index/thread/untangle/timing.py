"""Order and time as evidence: gaps in minutes, and against the pace of the channel, so that slow ones fit too."""

import numpy as np
from numpy.typing import NDArray

from clew.index.thread.untangle.window import REACH, Numbers, Part, View, level

_USUAL = 0.8  # of the gaps, the shortest: nights and weekends say nothing about the pace
_LEAST = 1 / 6  # minutes a message; times are whole minutes


def timing(view: View) -> Part:
    """How far back each message stands, in messages and in minutes, and how long it was silent since."""
    back = np.arange(1, REACH + 1)
    order: dict[str, Numbers] = {
        "distance": level(back),
        "nearest": back == 1,
        "second": back == 2,
        "third": back == 3,
        "nearness": 1 / back,
    }
    minutes = view.window.minutes
    timed = ~np.isnan(minutes)
    both = timed[view.rows][:, None] & timed[view.before]
    gap = np.where(both, np.maximum(minutes[view.rows][:, None] - minutes[view.before], 0), 0)
    waits = _waits(view)
    pace = _pace(waits, view.there)
    silence = np.maximum.accumulate(waits, axis=1)
    pairs: dict[str, Numbers] = {
        "timed": both,
        "minutes": level(gap, 60),
        "same minute": both & (gap < 1),
        "within two": both & (gap <= 2),
        "within five": both & (gap <= 5),
        "beyond thirty": both & (gap > 30),
        "against pace": level(gap / pace[:, None]),
        "silence": level(silence, 60),
        "silence against pace": level(silence / pace[:, None]),
    }
    opens: dict[str, Numbers] = {
        "fill": level(np.minimum(view.rows, REACH)),
        "timed": timed[view.rows],
        "pace": level(pace, 60),
        "gap": level(gap[:, 0], 60),
        "gap against pace": level(gap[:, 0] / pace),
    }
    return Part(order | pairs, opens)


def _waits(view: View) -> NDArray[np.float64]:
    """m × r: the minutes between each message before and the one after it; 0 where a time is missing."""
    minutes = view.window.minutes
    waits = np.nan_to_num(np.maximum(np.diff(minutes, append=np.nan), 0))
    return np.where(view.there, waits[view.before], 0)


def _pace(waits: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """m: the mean of the usual waits in reach, in minutes."""
    ordered = np.sort(np.where(there, waits, np.inf), axis=1)
    usual = np.ceil(there.sum(axis=1) * _USUAL)
    taken = np.arange(there.shape[1]) < usual[:, None]
    total = np.where(taken, np.where(np.isinf(ordered), 0, ordered), 0).sum(axis=1)
    pace: NDArray[np.float64] = np.maximum(total / np.maximum(usual, 1), _LEAST)
    return pace
