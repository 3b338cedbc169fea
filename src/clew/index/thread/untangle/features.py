"""The features of reply candidates, named numbers from about 0 to 1: of each pair, and of the message by itself.

A window of a channel becomes matrices: who speaks, who addresses whom, and which words are shared. Its first `start`
messages are only candidates; the others need a parent. Authors and words are numbered within the window, so its cost
does not grow with the channel. The features of a message depend only on the `REACH` messages before it, wherever the
window starts.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import log1p, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew.core.text import tokenize_words
from clew.core.time import to_timestamp
from clew.core.types import Message

_MARKED = re.compile(r"<@!?([^<>|\s]+)(?:\|[^<>]*)?>|(?<![\w@])@([\w.\-\[\]{}|^`\\]+)")
_LEADING = re.compile(r"\s*([^\s:,;]{2,40})\s?[:,;>]+(?=\s|$|[^\W\d_])(?!\S*//)")
_EDGES = "\"'“”‘’«»()<>.,:;!?…*~@"
_LINK = re.compile(r"https?://|www\.|\w\.(?:com|org|net)\b")
_CODE = re.compile(r"`|[/~]\w+/|\w\(\)|-\w|\w_\w|\w\.\w+\.\w|\bsudo\b")  # no \w+ first: quadratic in a long word
_FACE = re.compile(r"[:;=8xX]['-]?[()DPpOo/\\|]+|[\U0001f300-\U0001faff\u2600-\u27bf]")

_MIN_QUOTE_CHARS = 12  # shorter quotes occur in many messages


def _make_word_set(text: str) -> frozenset[str]:
    return frozenset(tokenize_words(text))


# The first words of a message often show its purpose. Other languages still have the other cues.
ASKING = _make_word_set(
    "what how why where when who which whats hows wheres whos is are am do does did can could would should will has "
    "have any anyone anybody someone was wer wie warum wieso wo wann welche gibt ist sind kann könnte hat weiss qui "
    "que quoi quel quelle comment pourquoi où quand est peut qué cómo dónde cuándo quién cuál puede hay che come "
    "perché dove quando chi puoi como onde quem pode wat hoe waarom waar wanneer kan"
)
THANKS = _make_word_set(
    "thanks thank thx ty cheers thankyou tnx danke merci gracias grazie obrigado obrigada bedankt dank tack"
)
GREETING = _make_word_set(
    "hi hello hey hiya yo morning evening greetings howdy sup hallo moin servus bonjour salut hola ciao olá oi hoi "
    "hej bye cya"
)
ASSENT = _make_word_set(
    "yes yeah yep yup yea ya ok okay k sure right true exactly agreed correct indeed ah oh aha cool nice great good "
    "hmm lol haha heh ja genau klar stimmt oui si sí sì sim certo claro exact vale"
)
DENIAL = _make_word_set("no nope nah not never dont don wrong nein nicht non não nee niet")
CARRYING_ON = _make_word_set(
    "and but or so then also because cos cause well though still und aber oder et mais ou y pero e ma"
)
SELF = _make_word_set("i im ive my me mine we our ich mein mir je mon moi yo mi io eu meu ik mijn")
YOU = _make_word_set("you your u ur youre du dein sie tu ton vous votre tú usted você je jij")

FORMS = (
    "asks", "ends asking", "starts asking", "thanks", "greets", "assents", "denies", "carries on", "of me", "of you",
    "link", "code", "face", "exclaims", "command", "trails off", "length", "one word",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MessageCues:
    """The cues of a message by itself."""

    author: str
    aliases: frozenset[str]  # names that others may call the author
    addressed: frozenset[str]  # names that the message addresses
    tokens: frozenset[str]  # may include further names
    words: frozenset[str]
    minute: float  # nan without a time
    forms: tuple[float, ...]  # the values of FORMS
    text: str  # casefolded, without quotes
    quote: str  # casefolded; empty if shorter than _MIN_QUOTE_CHARS


def extract_message_cues(message: Message) -> MessageCues:
    """Extract the cues of a message, without looking at its neighbours."""
    addressed, tokens, words, forms = _analyse_text(message.text)
    text, quote = _split_off_quote(message.text)
    return MessageCues(
        author=message.author,
        aliases=_make_author_aliases(message.author),
        addressed=addressed,
        tokens=tokens,
        words=words,
        minute=_to_minute(message.at),
        forms=forms,
        text=text,
        quote=quote,
    )


@lru_cache(maxsize=4096)
def _make_author_aliases(author: str) -> frozenset[str]:
    """Make the names that others may call an author: in full, without trailing marks, joined, the first name."""
    whole = author.casefold().strip().lstrip("@")
    parts = whole.split()
    forms = {whole, whole.rstrip("_`^|-0123456789"), "".join(parts), ".".join(parts), *parts[:1]}
    return frozenset(form for form in forms if len(form) > 1)


@lru_cache(maxsize=16_384)  # each new message of a channel needs the same hundred before it
def _analyse_text(text: str) -> tuple[frozenset[str], frozenset[str], frozenset[str], tuple[float, ...]]:
    """Return the addressed names, the tokens, the words and the forms of a text."""
    folded = text.casefold()
    tokens = [token.strip(_EDGES) for token in folded.split()]
    addressed = {one or other.rstrip(".") for one, other in _MARKED.findall(folded)}
    leading = _LEADING.match(folded)
    body = text
    if leading:
        addressed |= {leading[1], leading[1].strip(_EDGES)}
        body = text[leading.end() :] if len(folded) == len(text) else text
    elif tokens:
        addressed.add(tokens[0])
    words = tokenize_words(body)
    return frozenset(addressed), frozenset(tokens), frozenset(words), _compute_form_values(body, words)


def _split_off_quote(text: str) -> tuple[str, str]:
    """Return the text without its quoted lines, and the quoted lines; casefolded, with single spaces."""
    folded = text.casefold().replace("&gt;", ">")
    lines = folded.split("\n") if ">" in folded else [folded]
    quoted = " ".join(" ".join(line.lstrip("> ") for line in lines if line.startswith(">")).split())
    own = " ".join(" ".join(line for line in lines if not line.startswith(">")).split())
    return own, quoted if len(quoted) >= _MIN_QUOTE_CHARS else ""


def _compute_form_values(text: str, words: list[str]) -> tuple[float, ...]:
    """Compute the values of FORMS for a text and its words."""
    first, early, every = words[0] if words else "", set(words[:3]), set(words)
    stripped = text.strip()
    return (
        float("?" in text or "？" in text),
        float(stripped.endswith(("?", "？"))),
        float(first in ASKING),
        float(bool(every & THANKS)),
        float(bool(early & GREETING)),
        float(bool(early & ASSENT)),
        float(bool(early & DENIAL)),
        float(first in CARRYING_ON),
        float(bool(every & SELF)),
        float(bool(every & YOU)),
        float(bool(_LINK.search(text))),
        float(bool(_CODE.search(text))),
        float(bool(_FACE.search(text))),
        float("!" in text[1:]),
        float(stripped.startswith(("!", "/"))),
        float(stripped.endswith(("..", "…"))),
        min(log1p(len(words)) / 4, 1.5),
        float(len(words) <= 1),
    )


def _to_minute(at: datetime | None) -> float:
    """Return the time in whole minutes, as in the training of the weights."""
    if at is None:
        return nan
    return to_timestamp(at) // 60


REACH = 100  # candidate parents: as many preceding messages

Floats = NDArray[np.float32]
Ints = NDArray[np.intp]
Numbers = NDArray[Any]  # any dtype: converted to float32 when joined
_USUAL_SHARE = 0.8  # share of the gaps, shortest first, that define the pace: nights and weekends do not count
_MIN_PACE = 1 / 6  # minutes per message; times are whole minutes
_DECAY_MESSAGES = 20.0  # messages after which my earlier words count 1/e
# "I" is the author of the message, "he" the author of the candidate. The weights file has the same names.
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
    """A window of n messages, a authors and w words that occur in two messages or more."""

    judged: Ints  # positions of the messages that need a parent
    authors: Ints  # n
    has_author: NDArray[np.bool_]  # n
    minutes: NDArray[np.float64]  # n, nan without a time
    forms: Floats  # n × forms
    calls: Floats  # n × a: addresses the author
    names: Floats  # n × a: mentions the author's name
    words: Floats  # n × w
    unshared: Floats  # n: number of words in no other message of the window

    @classmethod
    def build(cls, cues: Sequence[MessageCues], start: int) -> "ChannelWindow":
        """Build the matrices of the messages; those from `start` on need a parent."""
        numbers: dict[str, int] = {}
        # A message without an author gets its own author number.
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
    before: Ints  # m × r: positions of the candidates, nearest first; padded with 0
    valid: NDArray[np.bool_]  # m × r: whether the candidate exists
    low: Ints  # m: the first position in reach
    me: Ints  # m: the author of the message
    him: Ints  # m × r: the author of the candidate
    inside: Floats  # m × n: 1 if in reach

    @classmethod
    def build(cls, window: ChannelWindow) -> "LookBack":
        """Build the candidates of all messages that need a parent."""
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
    """Features by name, for pairs (m × r each) and for messages (m each)."""

    pairs: dict[str, Numbers]
    messages: dict[str, Numbers]


def log_scale(values: Numbers, unit_at: float = REACH) -> Numbers:
    """Scale logarithmically: 0 at 0, 1 at `unit_at`."""
    scaled: Numbers = np.log1p(np.maximum(values, 0)) / np.log1p(unit_at)
    return scaled


def prefix_sums(matrix: Floats) -> Floats:
    """Return the sum of the rows before each row, and a last row with the sum of all."""
    return np.concatenate([np.zeros((1, matrix.shape[1]), np.float32), np.cumsum(matrix, axis=0)])


def find_last_nonzero_row(matrix: Floats) -> Ints:
    """Find for each row, and for the end, the last earlier row where the column is not 0, else -1."""
    positions = np.where(matrix > 0, np.arange(len(matrix))[:, None], -1)
    return np.concatenate([np.full((1, matrix.shape[1]), -1), np.maximum.accumulate(positions, axis=0)])


def _build_word_matrix(cues: Sequence[MessageCues]) -> tuple[Floats, Floats]:
    """Return the matrix of messages and shared words, and the number of unshared words of each message."""
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
    """Compute how far back each candidate is, in messages and minutes, and the longest silence since."""
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
    """Return m × r: the minutes between each candidate and the next message; 0 if a time is missing."""
    minutes = view.window.minutes
    waits = np.nan_to_num(np.maximum(np.diff(minutes, append=np.nan), 0))
    return np.where(view.valid, waits[view.before], 0)


def _compute_mean_wait(waits: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return m: the mean of the usual waits in reach, in minutes per message."""
    ordered = np.sort(np.where(there, waits, np.inf), axis=1)
    usual = np.ceil(there.sum(axis=1) * _USUAL_SHARE)
    is_usual = np.arange(there.shape[1]) < usual[:, None]
    total = np.where(is_usual, np.where(np.isinf(ordered), 0, ordered), 0).sum(axis=1)
    pace: NDArray[np.float64] = np.maximum(total / np.maximum(usual, 1), _MIN_PACE)
    return pace


def compute_speaker_features(view: LookBack) -> FeatureGroup:
    """Compute how the author of a message relates to the author of each candidate."""
    window, rows, me, him, low = view.window, view.rows, view.me, view.him, view.low
    spoken = np.zeros_like(window.calls)
    spoken[np.arange(len(spoken)), window.authors] = 1
    last, last_call = find_last_nonzero_row(spoken), find_last_nonzero_row(window.calls)
    mine = last[rows, me]
    mine = np.where(mine >= low, mine, -1)
    caller = last_call[rows, me]
    caller = np.where(caller >= low, caller, -1)
    around = (last[rows + 1] >= low[:, None]).astype(np.float32)  # m × a: speaks in reach
    partner = window.calls[np.maximum(mine, 0)] * around * (mine >= 0)[:, None]  # m × a: addressed in my last message
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
    """Compute message and pair features: how often and how recently each author spoke."""
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
    """Compute message and pair features: whom both authors address, and who addressed them since."""
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
        # A message that addresses nobody means more in a channel where people usually address each other.
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
    """Compute pair features: how often both authors addressed each other in reach, and since the candidate."""
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
    """Compute the words shared with the candidate, with its author, and with my latest messages."""
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
    """The features of m messages and the REACH candidates before each, nearest first."""

    pairs: Floats  # m × REACH × PAIR_FEATURES
    valid: NDArray[np.bool_]  # m × REACH
    messages: Floats  # m × MESSAGE_FEATURES


def extract_reply_features(window: ChannelWindow) -> ReplyFeatures:
    """Extract the features of all messages that need a parent."""
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
