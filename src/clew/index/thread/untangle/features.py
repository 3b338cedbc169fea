"""The features of reply candidates, named numbers from about 0 to 1: of each pair, and of the message by itself."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clew.index.thread.untangle.cues import FORMS
from clew.index.thread.untangle.matrices import ChannelWindow, Floats, LookBack
from clew.index.thread.untangle.speakers import compute_speaker_features
from clew.index.thread.untangle.timing import compute_timing_features
from clew.index.thread.untangle.wording import compute_shared_word_features

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
class ReplyFeatures:
    """For m messages and the REACH candidates before each, the nearest first: the features, and which exist."""

    pairs: Floats  # m × REACH × PAIR_FEATURES
    valid: NDArray[np.bool_]  # m × REACH
    messages: Floats  # m × MESSAGE_FEATURES


def extract_reply_features(window: ChannelWindow) -> ReplyFeatures:
    """The features of every message of the window that needs a parent."""
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
