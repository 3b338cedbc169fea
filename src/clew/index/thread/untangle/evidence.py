"""What speaks for each message before as the one that is answered, and for none: named numbers, about 0 to 1 each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clew.index.thread.untangle.people import people
from clew.index.thread.untangle.reading import FORMS
from clew.index.thread.untangle.timing import timing
from clew.index.thread.untangle.window import Floats, View, Window
from clew.index.thread.untangle.wording import wording

# In these names I am the author of the message that is judged, he is the author of the earlier one.
PAIR = (
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
OPENS = (
    "fill", "timed", "pace", "gap", "gap against pace",
    "authored", "voices", "seen before", "since my last", "minutes since my last", "my turns", "last is mine",
    "calls", "calls many", "calling usual", "names", "called me", "since called", "called since my last",
    "partner spoke since",
    "most shared", "most like", "rare words",
)  # fmt: skip
PAIR_FEATURES = (*PAIR, *(f"his: {form}" for form in FORMS))
OPENS_FEATURES = (*OPENS, *FORMS)


@dataclass(frozen=True, slots=True)
class Evidence:
    """For m judged messages and the candidates before each, the nearest first: the features, and which are there."""

    pairs: Floats  # m × REACH × PAIR_FEATURES
    there: NDArray[np.bool_]  # m × REACH
    opens: Floats  # m × OPENS_FEATURES


def evidence(window: Window) -> Evidence:
    """The evidence for every judged message of the window."""
    view = View.of(window)
    parts = (timing(view), people(view), wording(view))
    of_pair = {name: each for part in parts for name, each in part.pairs.items()}
    of_message = {name: each for part in parts for name, each in part.opens.items()}
    pairs = np.empty((*view.there.shape, len(PAIR_FEATURES)), np.float32)
    for place, name in enumerate(PAIR):
        pairs[:, :, place] = of_pair[name]
    pairs[:, :, len(PAIR) :] = window.forms[view.before]
    opens = np.empty((len(view.rows), len(OPENS_FEATURES)), np.float32)
    for place, name in enumerate(OPENS):
        opens[:, place] = of_message[name]
    opens[:, len(OPENS) :] = window.forms[view.rows]
    return Evidence(pairs, view.there, opens)
