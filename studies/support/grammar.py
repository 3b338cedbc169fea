"""Facts of office pages, made from the frames in `frames.txt`: what a page may say, and what follows from it.

A fact is a frame's meaning with values in its slots. It can be said in several ways, and another fact of the same frame
(another meaning, another value, two values exchanged) does not follow from it; which one the page states and which one
is claimed is drawn alike, so that a claim alone tells nothing about its truth.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random

from studies.support.values import Value, make_other, make_value

_SLOT = re.compile(r"\{([a-z]+)(\d?)\}")
Pool = dict[str, list[Value]]  # the values that the facts of one page share


@dataclass(frozen=True, slots=True)
class Meaning:
    """The ways to say one thing; `weaker`: it follows from the line above; `stronger`: what is above may follow.

    `mutual`: two values of a kind may be exchanged.
    """

    ways: tuple[str, ...]
    weaker: bool = False
    stronger: bool = False
    mutual: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """Meanings over the same slots."""

    meanings: tuple[Meaning, ...]

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the slots of all meanings, in order."""
        found = [kind + number for each in self.meanings for way in each.ways for kind, number in _SLOT.findall(way)]
        return tuple(dict.fromkeys(found))

    @property
    def has_twins(self) -> bool:
        """Whether two slots are of one kind, so that it must be used once a page only."""
        kinds = [slot.rstrip("0123456789") for slot in self.slots]
        return len(set(kinds)) < len(kinds) or not kinds


@dataclass(frozen=True, slots=True)
class Fact:
    """A meaning of a frame with its slots filled."""

    frame: int
    meaning: int
    values: Mapping[str, Value]

    def say(self, rng: Random, *, unlike: str = "") -> str:
        """The fact in one of its ways; not in that of `unlike`, if there is another."""
        meaning = load_frames()[self.frame].meanings[self.meaning]
        for _ in range(6):
            text = fill(rng.choice(meaning.ways), self.values, rng)
            if text != unlike:
                break
        return text


def fill(way: str, values: Mapping[str, Value], rng: Random) -> str:
    """A way to say something with its slots filled, as a sentence."""
    text = _SLOT.sub(lambda found: values[found[1] + found[2]].pick(rng), way)
    return capitalise(text.replace(".m..", ".m."))


def capitalise(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def lower_start(text: str) -> str:
    """The text with its first word in lower case if it is a common word."""
    first = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if first.lower() in _COMMON else text


_COMMON = frozenset(
    [
        "the",
        "a",
        "an",
        "it",
        "there",
        "nobody",
        "only",
        "all",
        "every",
        "some",
        "most",
        "few",
        "no",
        "none",
        "backups",
        "logs",
        "passwords",
        "uploads",
        "claims",
        "travel",
        "hotels",
        "meals",
        "revenue",
        "sales",
        "prices",
        "adults",
        "children",
        "elderly",
        "dogs",
        "smoking",
        "purchases",
        "requests",
        "notice",
        "anyone",
        "everybody",
        "you",
        "unused",
        "data",
        "somebody",
        "responsibility",
        "paying",
        "on",
        "in",
        "at",
        "by",
        "for",
        "of",
        "what",
        "whoever",
        "files",
        "before",
        "after",
        "encryption",
        "without",
        "either",
        "both",
        "one",
        "first",
        "drought",
        "disease",
        "unless",
        "if",
        "when",
        "not",
    ]
)


@lru_cache(1)
def load_frames() -> tuple[Frame, ...]:
    """The frames of the file beside this one."""
    lines = (Path(__file__).parent / "frames.txt").read_text("utf-8").split("\n")
    blocks = "\n".join(line for line in lines if not line.startswith("#")).strip().split("\n\n")
    return tuple(Frame(tuple(map(_parse_meaning, block.strip().splitlines()))) for block in blocks)


def _parse_meaning(line: str) -> Meaning:
    text = line.lstrip("+~=")
    signs = line[: len(line) - len(text)]
    ways = tuple(way.strip() for way in text.split(" | "))
    return Meaning(ways, weaker="+" in signs, stronger="~" in signs, mutual="=" in signs)


def draw_value(kind: str, pool: Pool, rng: Random, *, unlike: Sequence[Value] = ()) -> Value:
    """A value of a kind, often one that the page already has, and never one of `unlike`."""
    known = [value for value in pool.get(kind, []) if value not in unlike]
    if known and rng.random() < 0.55:
        return rng.choice(known)
    value = make_other(kind, unlike[0], rng) if unlike else make_value(kind, rng)
    taken = {form for each in (*pool.get(kind, []), *unlike) for form in each.forms}
    for _ in range(8):
        if not taken & set(value.forms):
            break
        value = make_value(kind, rng)
    pool.setdefault(kind, []).append(value)
    return value


def make_fact(frame: int, pool: Pool, rng: Random) -> Fact:
    """A fact of a frame, its meaning and its values drawn."""
    given = load_frames()[frame]
    values: dict[str, Value] = {}
    for slot in given.slots:
        kind = slot.rstrip("0123456789")
        same = [value for name, value in values.items() if name.rstrip("0123456789") == kind]
        values[slot] = draw_value(kind, pool, rng, unlike=same)
    return Fact(frame, rng.randrange(len(given.meanings)), values)


def change_meaning(fact: Fact, rng: Random) -> tuple[Fact, int] | None:
    """Another meaning of the same values, and whether it follows (1) or not (0); None where that is not clear."""
    meanings = load_frames()[fact.frame].meanings
    if len(meanings) < 2:
        return None
    other = rng.choice([at for at in range(len(meanings)) if at != fact.meaning])
    if meanings[fact.meaning].stronger and other < fact.meaning:
        return None
    follows = meanings[other].weaker and other == fact.meaning + 1
    return replace(fact, meaning=other), int(follows)


def change_value(fact: Fact, pool: Pool, rng: Random) -> Fact | None:
    """The fact with one value replaced by another, often one of the page, or with two values of a kind exchanged."""
    meaning = load_frames()[fact.frame].meanings[fact.meaning]
    used = [slot for slot in fact.values if any(f"{{{slot}}}" in way for way in meaning.ways)]
    if not used:
        return None
    slot = rng.choice(used)
    kind = slot.rstrip("0123456789")
    twins = [name for name in used if name != slot and name.rstrip("0123456789") == kind]
    if twins and not meaning.mutual and rng.random() < 0.6:
        return replace(fact, values={**fact.values, slot: fact.values[twins[0]], twins[0]: fact.values[slot]})
    taken = [fact.values[slot], *(fact.values[name] for name in twins)]
    return replace(fact, values={**fact.values, slot: draw_value(kind, pool, rng, unlike=taken)})
