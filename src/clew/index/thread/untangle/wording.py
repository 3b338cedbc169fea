"""Word features: the words that two messages share, weighted by their rarity among the messages in reach (IDF)."""

import numpy as np

from clew.index.thread.untangle.matrices import REACH, FeatureGroup, LookBack, log_scale, prefix_sums

_DECAY_MESSAGES = 20.0  # messages after which my earlier words count 1/e


def compute_shared_word_features(view: LookBack) -> FeatureGroup:
    """The words a message shares with each candidate and with its author, and a candidate with my latest messages."""
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
