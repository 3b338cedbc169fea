"""Statements that differ in a small word: conditions, quantities, permissions, owners in parallel clauses, lists, order.

Each maker returns a Statement: what the page says, and a function that draws a claim with its label.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from studies.support.grammar import Pool, capitalise, draw_value, load_frames, lower_start, make_fact
from studies.support.phrases import ACTIONS, CONDITIONS, DEEDS, FREQUENCIES, HABITS, LISTS, MODALS, QUANTITIES, STEPS
from studies.support.values import Value, spell_number

Claim = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a page says; `claim` draws a sentence and whether it follows; `truth` draws one that does."""

    text: str
    claim: Callable[[], Claim]
    truth: Callable[[], str]


def _state(text: str, *, true: Sequence[str], false: Sequence[str], rng: Random) -> Statement:
    """A statement with the sentences that follow from it and those that do not."""

    def claim() -> Claim:
        label = int(rng.random() < 0.5) if true and false else int(bool(true))
        return rng.choice(true if label else false), label

    return Statement(text, claim, lambda: rng.choice(true))


def make_condition(pool: Pool, rng: Random) -> Statement:
    """A fact that holds under a condition; without it, or under its opposite, nothing is said."""
    frames = load_frames()
    fact = make_fact(rng.randrange(len(frames)), pool, rng)
    (met, unmet), other = rng.sample(CONDITIONS, 2)
    if rng.random() < 0.5:
        met, unmet = unmet, met

    def say() -> str:
        return fact.say(rng).rstrip(".")

    def under(ways: Sequence[str]) -> str:
        way, text = rng.choice(ways), say()
        if rng.random() < 0.5:
            return f"{text} {way}."
        return f"{capitalise(way)}, {lower_start(text)}."

    draw = rng.random()
    always = [
        f"{say()}.",
        f"{say()} in any case.",
        f"In every case, {lower_start(say())}.",
        f"{say()}, without exception.",
    ]
    if draw < 0.15:
        return _state(
            rng.choice(always), true=always, false=[f"Only {way}, {lower_start(say())}." for way in met], rng=rng
        )
    true = [under(met) for _ in range(3)]
    false = [
        under(unmet),
        under(unmet),
        under(unmet),
        f"{say()}.",
        f"{say()}.",
        rng.choice(always),
        under(rng.choice(other)),
    ]
    text = under(met)
    if draw < 0.35:
        text = f"{say()}, but only {rng.choice(met)}."
    elif draw < 0.45:
        text = f"{say()} — {rng.choice(met)}, that is."
    return _state(text, true=true, false=false, rng=rng)


def make_quantity(pool: Pool, rng: Random) -> Statement:
    """What all, most, few or none of a group did."""
    group, deed = draw_value("group", pool, rng), rng.choice(DEEDS)
    at = rng.randrange(len(QUANTITIES))

    def say(place: int) -> str:
        return capitalise(f"{rng.choice(QUANTITIES[place].ways).format(group.pick(rng))} {rng.choice(deed)}.")

    here = QUANTITIES[at]
    others = [place for place in range(len(QUANTITIES)) if QUANTITIES[place].name in here.against]
    true = [
        say(at),
        say(at),
        *(say(place) for place in range(len(QUANTITIES)) if QUANTITIES[place].name in here.implies),
    ]
    false = [say(place) for place in others]
    another = draw_value("group", pool, rng, unlike=[group])
    false.append(say(at).replace(group.forms[0], another.forms[0]))
    return _state(say(at), true=true, false=[each for each in false if each not in true] or [say(others[0])], rng=rng)


def make_frequency(pool: Pool, rng: Random) -> Statement:
    """How often a group does something, from always to never."""
    group, habit = draw_value("group", pool, rng), rng.choice(HABITS)
    at = rng.randrange(len(FREQUENCIES))

    def say(place: int) -> str:
        return capitalise(rng.choice(FREQUENCIES[place]).format(group.pick(rng), habit))

    false = [say(place) for place in range(len(FREQUENCIES)) if abs(place - at) > 1]
    return _state(say(at), true=[say(at), say(at)], false=false, rng=rng)


def make_permission(pool: Pool, rng: Random) -> Statement:
    """What a group may, must, must not or need not do; only they, or they as well."""
    group, action = draw_value("group", pool, rng), rng.choice(ACTIONS)
    another = draw_value("group", pool, rng, unlike=[group])
    elsewhere = rng.choice([each for each in ACTIONS if each != action])
    at = rng.randrange(len(MODALS))

    def say(place: int, who: Value = group, what: Sequence[str] = action) -> str:
        return capitalise(f"{who.pick(rng)} {rng.choice(MODALS[place])} {rng.choice(what)}.")

    false = [
        say(place) for place in range(len(MODALS)) if place != at and {place, at} != {0, 1} and {place, at} != {0, 3}
    ]
    false += [say(at, another), say(at, group, elsewhere)]
    text, true = say(at), [say(at), say(at)]
    if rng.random() < 0.3:  # two groups with two rules
        place = rng.choice([each for each in range(len(MODALS)) if each != at])
        joined = rng.choice((", but", ", while", " and", ";"))
        second = say(place, another)
        text = f"{say(at).rstrip('.')}{joined} {second[:1].lower()}{second[1:]}"
        true.append(say(place, another))
        false = [say(place), say(at, another)] if {place, at} not in ({0, 1}, {0, 3}) else [say(2), say(2, another)]
        if 2 in (place, at) and {place, at} in ({0, 1}, {0, 3}):
            false = [say(at, group, elsewhere)]
    return _state(text, true=true, false=false, rng=rng)


def make_parallel(pool: Pool, rng: Random) -> Statement:
    """Two or three owners, each with a deed of their own, in one sentence."""
    kind = rng.choice(("person", "person", "role", "role", "team", "org"))
    owners: list[Value] = []
    for _ in range(rng.choice((2, 2, 2, 3))):
        owners.append(draw_value(kind, pool, rng, unlike=owners))
    deeds = rng.sample(DEEDS, len(owners))

    def clause(owner: int, deed: int) -> str:
        return f"{owners[owner].pick(rng)} {rng.choice(deeds[deed])}"

    parts = [clause(at, at) for at in range(len(owners))]
    if len(parts) == 3:
        text = f"{parts[0]}, {parts[1]} and {parts[2]}."
    else:
        text = rng.choice(
            ("{} and {}.", "{}, while {}.", "{}, whereas {}.", "{}; {}.", "{}. {}.", "{}, but {}.")
        ).format(*parts)
    at = rng.randrange(len(owners))
    wrong = rng.choice([each for each in range(len(owners)) if each != at])
    one, other = owners[at].pick(rng), owners[wrong].pick(rng)
    true = [
        f"{clause(at, at)}.",
        f"It was {one} who {rng.choice(deeds[at])}.",
        f"{one}, not {other}, {rng.choice(deeds[at])}.",
    ]
    false = [f"{clause(wrong, at)}.", f"{clause(wrong, at)}.", f"It was {other} who {rng.choice(deeds[at])}.",
             f"{other}, not {one}, {rng.choice(deeds[at])}.", f"Both {one} and {other} {rng.choice(deeds[at])}."]  # fmt: skip
    whole = [f"{clause(0, 0)} and {clause(1, 1)}.", f"{clause(1, 1)}, while {clause(0, 0)}."]
    crossed = [f"{clause(0, 1)} and {clause(1, 0)}.", f"{clause(1, 0)}, while {clause(0, 1)}."]
    return _state(
        capitalise(text),
        true=[*map(capitalise, true), *map(capitalise, whole)],
        false=[*map(capitalise, false), *map(capitalise, crossed)],
        rng=rng,
    )


def make_list(pool: Pool, rng: Random) -> Statement:
    """Members of one or two lists: who is on which, who is on none, how many there are."""
    (subject, member, outside), (subject2, _, _) = rng.sample(LISTS, 2)
    kind = rng.choice(("product", "person", "item", "place"))
    values: list[Value] = []
    for _ in range(rng.randrange(5, 9)):
        values.append(draw_value(kind, pool, rng, unlike=values))
    names = [value.forms[0] for value in values]
    cut = rng.randrange(2, 5)
    listed, rest = names[:cut], names[cut:]
    excluded = rest.pop() if rng.random() < 0.4 else ""
    second = rest[: len(rest) // 2] if rng.random() < 0.5 and len(rest) > 1 else []
    absent = rest[len(second) :]

    def write(head: str, things: Sequence[str]) -> str:
        if rng.random() < 0.35:
            return f"{head}:\n" + "\n".join(f"- {each}" for each in things)
        return f"{head}: {', '.join(things[:-1])} and {things[-1]}." if len(things) > 1 else f"{head}: {things[0]}."

    text = write(subject, listed) + (f"\n{outside.format(capitalise(excluded))}" if excluded else "")
    if second:
        text += "\n" + write(subject2, second)
    one = rng.choice(listed)
    others = [each for each in listed if each != one]
    true = [
        member.format(capitalise(one)),
        member.format(capitalise(f"{one} and {rng.choice(others)}")).replace(" is ", " are ", 1),
    ]
    true.append(f"{capitalise(spell_number(len(listed)))} are listed under “{subject}”.")
    false = [member.format(capitalise(each)) for each in (*second, *absent)] * 2
    false += [
        member.format(f"Only {one}"),
        f"{capitalise(spell_number(len(listed) + 1))} are listed under “{subject}”.",
    ]
    false.append(outside.format(capitalise(one)))
    if excluded:
        true += [outside.format(capitalise(excluded))] * 2
        false += [member.format(capitalise(excluded))] * 3
    return _state(text, true=true, false=false, rng=rng)


def make_order(pool: Pool, rng: Random) -> Statement:
    """Steps in order: what comes before what, first and last."""
    del pool
    steps = rng.sample(STEPS, rng.randrange(3, 6))
    draw = rng.random()
    if draw < 0.4:
        text = "\n".join(f"{at}. {capitalise(step)}." for at, step in enumerate(steps, 1))
    elif draw < 0.7:
        text = f"First {steps[0]}, then {', then '.join(steps[1:-1])}, and finally {steps[-1]}."
    else:
        text = f"{capitalise(steps[0])}. After that, {steps[1]}. " + " ".join(f"Next, {step}." for step in steps[2:])
    early, late = sorted(rng.sample(range(len(steps)), 2))
    ways = (
        "You {0} before you {1}.",
        "“{0}” comes before “{1}”.",
        "“{1}” comes after “{0}”.",
        "Only after “{0}” comes “{1}”.",
    )
    true = [rng.choice(ways).format(steps[early], steps[late]) for _ in range(3)]
    false = [rng.choice(ways).format(steps[late], steps[early]) for _ in range(3)]
    true += [f"The first step is to {steps[0]}.", f"The last step is to {steps[-1]}."]
    false += [f"The first step is to {rng.choice(steps[1:])}.", f"The last step is to {rng.choice(steps[:-1])}."]
    return _state(text, true=true, false=false, rng=rng)


MAKERS: Sequence[Callable[[Pool, Random], Statement]] = (
    *(make_condition, make_condition, make_quantity, make_frequency, make_permission, make_parallel, make_parallel),
    *(make_list, make_order),
)
