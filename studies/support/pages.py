"""Made pages and chats: some statements, written as prose, a list, sections with headings or messages, and a claim about one.

The evidence of a claim may be left out, its subject may stand only in the heading, and what surrounds it may be long.
"""

import re
from collections.abc import Sequence
from random import Random

from studies.support.grammar import (
    Fact,
    Pool,
    capitalise,
    change_meaning,
    change_value,
    draw_value,
    load_frames,
    make_fact,
)
from studies.support.makers import MAKERS, Statement
from studies.support.tables import make_table

Example = tuple[str, str, int]  # passage, claim, label
_SUBJECT = re.compile(r"^\{(product|org|item|event|place|team)\} ")
_PRONOUNS = {"product": ("It", "This model", "The device"), "org": ("It", "The company", "The organisation"), "item": ("It",), "event": ("It", "The event"), "place": ("It",), "team": ("It", "The team")}  # fmt: skip
_TITLES = tuple(
    """House rules|Staff handbook|Terms of use|Minutes|Information sheet|Guide|Price list|Safety|Annual report|Overview|
    Frequently asked questions|Policy|Contract|Product notes|Newsletter|Operations manual|Survey results|Project log|Regulations""".replace(
        "\n    ", ""
    ).split("|")
)
_FILLERS = tuple(
    """Please read this page carefully.|Questions can be sent to the usual address.|This page was last reviewed by the editors.|
    Further details are given in the appendix.|The following applies to all sites unless stated otherwise.|Thank you for your patience.|
    An earlier version of this page contained errors.|See also the page on general terms.|The list is updated regularly.|
    Everything else is handled case by case.|Some of this may change next year.|Feedback is welcome.|The details are explained below.|
    For historical reasons the wording differs between documents.|Photographs are available on request.|
    There were no further comments.|The weather was fine.|Coffee was served afterwards.|A longer text is in preparation.""".replace(
        "\n    ", ""
    ).split("|")
)
_TALK = tuple(  # what one says of oneself, and what is said of one
    tuple(way.strip() for way in line.split("|"))
    for line in """I will send the draft tonight | {0} will send the draft tonight. | The draft will be sent tonight by {0}.
    I have fixed the login bug | {0} fixed the login bug. | The login bug was fixed by {0}.
    I can't make it on Friday | {0} cannot come on Friday. | {0} is unavailable on Friday.
    my flight lands at 9 | {0}'s flight lands at 9. | {0} lands at nine.
    I'd rather use the smaller room | {0} prefers the smaller room. | {0} would like the smaller room.
    I talked to the supplier, they deliver on Monday | {0} spoke with the supplier. | According to {0}, the supplier delivers on Monday.
    I'm against moving the server | {0} opposes moving the server. | {0} does not want the server to be moved.
    I'm all for the new logo | {0} is in favour of the new logo. | {0} likes the new logo.
    I've booked the hall for March | {0} booked the hall for March. | The hall was booked for March by {0}.
    I didn't get the invoice yet | {0} has not received the invoice. | The invoice has not reached {0} yet.
    I'll be on holiday from Tuesday | {0} is away from Tuesday. | From Tuesday, {0} is on holiday.
    I forgot to lock the shed | {0} did not lock the shed. | {0} left the shed unlocked.
    I broke the projector, sorry | {0} broke the projector. | The projector was broken by {0}.
    I'll take over the on-call shift | {0} takes over the on-call shift. | The on-call shift goes to {0}.
    I never said we would pay for that | {0} denies having promised payment. | {0} did not say that they would pay.
    I moved the backups to the new disk | {0} moved the backups to the new disk. | The backups were put on the new disk by {0}.
    I think three days are enough | {0} thinks that three days suffice. | According to {0}, three days are enough.
    I need two more weeks | {0} needs another fortnight. | {0} asks for two more weeks.
    I haven't started the report | {0} has not begun the report. | The report has not been started by {0}.
    I paid the deposit yesterday | {0} has paid the deposit. | The deposit was paid by {0}.""".splitlines()
)
_OPEN = (  # (a question or an idea, what it does not say)
    ("Should we move the meeting to Thursday?", "The meeting was moved to Thursday."),
    ("Do we have enough chairs?", "There are enough chairs."),
    ("Has anyone seen the keys?", "The keys have been found."),
    ("Maybe we should switch to the cheaper plan?", "It was decided to switch to the cheaper plan."),
    ("What if we dropped support for the old version?", "Support for the old version was dropped."),
    ("Is the pump broken again?", "The pump is broken again."),
    ("Could somebody order paper?", "Paper has been ordered."),
    ("I wonder whether the roof leaks.", "The roof leaks."),
    ("Did the audit go well?", "The audit went well."),
    ("Are we still on for Saturday?", "The event is still on for Saturday."),
)


def make_page(rng: Random) -> Example:
    """A made passage, a claim about it, and whether it follows."""
    draw = rng.random()
    if draw < 0.18:
        passage, claim, label = make_table(rng)
        if rng.random() < 0.4:
            passage = f"{rng.choice(_TITLES)}\n{passage}"
        return passage, claim, label
    if draw < 0.33:
        return _make_sections(rng)
    if draw < 0.43:
        return _make_chat(rng)
    return _make_text(rng)


def _state_fact(fact: Fact, pool: Pool, rng: Random) -> Statement:
    text = fact.say(rng)

    def claim() -> tuple[str, int]:
        draw = rng.random()
        if draw < 0.47:
            return fact.say(rng, unlike=text), 1
        if draw < 0.75 and (found := change_meaning(fact, rng)):
            return found[0].say(rng), found[1]
        if other := change_value(fact, pool, rng):
            return other.say(rng), 0
        return fact.say(rng, unlike=text), 1

    return Statement(text, claim, lambda: fact.say(rng))


def _make_statements(count: int, rng: Random) -> list[Statement]:
    pool: Pool = {}
    frames, used, found = load_frames(), set[int](), list[Statement]()
    themes = rng.sample(range(len(frames)), min(8, len(frames)))
    while len(found) < count:
        if rng.random() < 0.4:
            found.append(rng.choice(MAKERS)(pool, rng))
            continue
        at = rng.choice(themes) if rng.random() < 0.6 else rng.randrange(len(frames))
        if at in used:
            continue
        used.add(at)
        found.append(_state_fact(make_fact(at, pool, rng), pool, rng))
    return found


def _make_text(rng: Random) -> Example:
    statements = _make_statements(rng.choice((1, 1, 2, 2, 3, 4, 5, 6, 8, 10)), rng)
    at = rng.randrange(len(statements))
    claim, label = statements[at].claim()
    if rng.random() < 0.08 and len(statements) > 1:
        claim, label = _join(claim, label, statements[at - 1].claim())
    texts = [each.text for each in statements]
    if rng.random() < 0.1:  # the evidence is not there
        claim, label = statements[at].truth(), 0
        texts.pop(at)
        texts = texts or [rng.choice(_FILLERS)]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        texts.insert(rng.randrange(len(texts) + 1), rng.choice(_FILLERS))
    return _lay_out(texts, rng), claim, label


def _join(claim: str, label: int, other: tuple[str, int]) -> tuple[str, int]:
    return (
        f"{claim.rstrip('.')}, and {other[0][:1].lower() + other[0][1:] if other[0].startswith('The ') else other[0]}",
        label & other[1],
    )


def _lay_out(texts: Sequence[str], rng: Random) -> str:
    draw = rng.random()
    if draw < 0.55:
        body = "".join(text + ("\n" if "\n" in text else " ") for text in texts).strip()
    elif draw < 0.75:
        body = "\n".join(f"- {text}" for text in texts)
    elif draw < 0.85:
        body = "\n\n".join(texts)
    else:
        body = "\n".join(f"{at}. {text}" for at, text in enumerate(texts, 1))
    return f"{rng.choice(_TITLES)}\n{body}" if rng.random() < 0.3 else body


def _make_sections(rng: Random) -> Example:
    """Sections whose subject stands only in the heading."""
    pool: Pool = {}
    frames = load_frames()
    kind = rng.choice(("product", "product", "org", "item", "event", "place", "team"))
    fitting = [
        (at, meaning)
        for at, frame in enumerate(frames)
        for meaning, each in enumerate(frame.meanings)
        if sum(f"{{{kind}}}" in way and _SUBJECT.match(way) is not None for way in each.ways)
        and f"{kind}2" not in frame.slots
    ]
    subjects = [draw_value(kind, pool, rng)]
    for _ in range(rng.choice((1, 1, 2))):
        subjects.append(draw_value(kind, pool, rng, unlike=subjects))
    sections: list[tuple[str, str]] = []
    facts: list[tuple[Fact, int]] = []
    for subject in subjects:
        lines = []
        for at, meaning in rng.sample(fitting, min(len(fitting), rng.choice((1, 2, 3)))):
            made = make_fact(at, pool, rng)
            fact = Fact(at, meaning, {**made.values, kind: subject})
            way = rng.choice(
                [each for each in frames[at].meanings[meaning].ways if each.startswith(f"{{{kind}}} ")] or [""]
            )
            if not way:
                continue
            marker = "\x00"
            said = Fact(at, meaning, fact.values)
            text = way.replace(f"{{{kind}}}", marker)
            for slot, value in said.values.items():
                text = text.replace(f"{{{slot}}}", value.pick(rng))
            lines.append(capitalise(text.replace(marker, rng.choice(_PRONOUNS[kind]), 1).replace(marker, "it")))
            facts.append((fact, len(sections)))
        head = subject.forms[0].removeprefix("the ")
        sections.append((capitalise(head), " ".join(lines) or rng.choice(_FILLERS)))
    if not facts:
        return _make_text(rng)
    fact, section = rng.choice(facts)
    label = int(rng.random() < 0.5)
    if not label:
        rivals = [subject for subject in subjects if subject != fact.values[kind]]
        stated = {(each.frame, each.values[kind].forms) for each, _ in facts}
        rival = rng.choice(rivals)
        if rng.random() < 0.65 and (fact.frame, rival.forms) not in stated:
            fact = Fact(fact.frame, fact.meaning, {**fact.values, kind: rival})
        else:
            changed = change_meaning(fact, rng)
            fact, label = changed if changed else (fact, 1)
    mark = rng.choice(("# ", "## ", "", "", "Products > ", f"{rng.choice(_TITLES)} > "))
    shown = sections if rng.random() < 0.6 or not label else [sections[section]]
    return "\n".join(f"{mark}{head}\n{body}" for head, body in shown), fact.say(rng), label


def _make_chat(rng: Random) -> Example:
    pool: Pool = {}
    people = [draw_value("person", pool, rng)]
    for _ in range(rng.choice((1, 2, 2, 3))):
        people.append(draw_value("person", pool, rng, unlike=people))
    lines = rng.sample(_TALK, rng.randrange(2, 6))
    said = [(rng.choice(people), line) for line in lines]
    asked = rng.sample(_OPEN, rng.randrange(3))
    shape = rng.choice(("{0}: {1}", "[{2}] {0}: {1}", "{0} ({2}): {1}", "**{0}** {2}\n{1}"))
    turns = [(who, capitalise(line[0]) + rng.choice((".", ".", "!", ""))) for who, line in said]
    turns += [(rng.choice(people), question) for question, _ in asked]
    rng.shuffle(turns)
    minute = rng.randrange(8 * 60, 17 * 60)
    text = []
    for who, what in turns:
        minute += rng.randrange(1, 9)
        text.append(shape.format(who.forms[0], what, f"{minute // 60}:{minute % 60:02}"))
    passage = "\n".join(text)
    if asked and rng.random() < 0.2:
        return passage, rng.choice(asked)[1], 0
    who, line = rng.choice(said)
    if rng.random() < 0.5:
        return passage, rng.choice(line[1:]).format(who.pick(rng)), 1
    if rng.random() < 0.65:
        return passage, rng.choice(line[1:]).format(rng.choice([one for one in people if one != who]).pick(rng)), 0
    other = rng.choice([each for each in _TALK if each not in lines])
    return passage, rng.choice(other[1:]).format(who.pick(rng)), 0
