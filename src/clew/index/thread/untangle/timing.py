"""Timing features: gaps in messages and minutes, and relative to the pace of the channel, so that slow ones fit too."""

import numpy as np
from numpy.typing import NDArray

from clew.index.thread.untangle.matrices import REACH, FeatureGroup, LookBack, Numbers, log_scale

_USUAL_SHARE = 0.8  # of the gaps, the shortest ones: nights and weekends do not count for the pace
_MIN_PACE = 1 / 6  # minutes per message; times are whole minutes


def compute_timing_features(view: LookBack) -> FeatureGroup:
    """How far back each candidate is, in messages and in minutes, and the longest silence since."""
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
    """m × r: the minutes between each candidate and the message after it; 0 where a time is missing."""
    minutes = view.window.minutes
    waits = np.nan_to_num(np.maximum(np.diff(minutes, append=np.nan), 0))
    return np.where(view.valid, waits[view.before], 0)


def _compute_mean_wait(waits: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """m: the mean of the usual waits in reach, in minutes per message."""
    ordered = np.sort(np.where(there, waits, np.inf), axis=1)
    usual = np.ceil(there.sum(axis=1) * _USUAL_SHARE)
    is_usual = np.arange(there.shape[1]) < usual[:, None]
    total = np.where(is_usual, np.where(np.isinf(ordered), 0, ordered), 0).sum(axis=1)
    pace: NDArray[np.float64] = np.maximum(total / np.maximum(usual, 1), _MIN_PACE)
    return pace
