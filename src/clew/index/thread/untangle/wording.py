"""Words as evidence: what two messages share, weighted by how rare it is among the messages in reach."""

import numpy as np

from clew.index.thread.untangle.window import REACH, Part, View, level, sums

_FADES = 20.0  # messages after which what I said before counts a third (1/e)


def wording(view: View) -> Part:
    """How much each message before shares with this one, with its author's others, and with what I said lately."""
    words, rows = view.window.words, view.rows
    counts = sums(words)
    found = counts[rows + 1] - counts[view.low]  # m × w: messages in reach with the word
    size = (np.minimum(rows, REACH) + 1).astype(np.float32)[:, None]
    rarity = np.log1p(size / np.maximum(found, 1))
    alone = np.log1p(size)  # of a word that no other message has
    own = words[rows] * rarity
    shared = (own @ words.T) * view.inside  # m × n
    weight = rarity @ words.T + alone * view.window.single  # m × n: all words of each message before
    own_weight = own.sum(axis=1) + alone[:, 0] * view.window.single[rows]
    likeness = shared / np.sqrt(np.maximum(weight * own_weight[:, None], 1e-6))
    most = shared.max(axis=1, initial=0)
    authors = view.window.authors
    by_him = (authors[:, None] == authors).astype(np.float32)  # n × n
    fading = np.exp((np.arange(len(authors)) - rows[:, None]) / _FADES)
    mine = (authors == view.me[:, None]) * view.inside * np.minimum(fading, 1)
    lately = np.minimum(mine.astype(np.float32) @ words, 1) * rarity
    here = view.at(shared)
    return Part(
        {
            "shared words": level(here, 20),
            "likeness": view.at(likeness),
            "count shared": level(view.at(words[rows] @ words.T), 10),
            "best shared": (here > 0) & (here == most[:, None]),
            "share of best": here / np.maximum(most, 1e-6)[:, None],
            "shared with him": level(view.at(shared @ by_him), 50),
            "shared with mine": level(view.at(lately @ words.T) * (view.him != view.me[:, None]), 20),
        },
        {
            "most shared": level(most, 20),
            "most like": likeness.max(axis=1, initial=0),
            "rare words": level(own_weight, 50),
        },
    )
