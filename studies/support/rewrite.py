"""True sentences in another build: relations said the other way round, two sentences fused into one, parts left out."""

import re
from collections.abc import Sequence
from random import Random
from typing import Final

_THING = r"([A-Z][\w'’.-]*(?: (?:of|the|and|de|for|in) [A-Z][\w'’.-]*| [A-Z][\w'’.-]*){0,5})"
_DATE = r"((?:in|on) (?:[A-Z][a-z]+ )?(?:\d{1,2},? )?(?:[A-Z][a-z]+ )?\d{4})"
# What is found, and ways to say it with its groups; {0} is the first.
_RELATIONS: Final = tuple(
    (re.compile(pattern), ways)
    for pattern, ways in (
        (rf"^{_THING} was born {_DATE} in {_THING}", ("{0}'s birthplace is {2}.", "{0} came into the world {1}.", "{2} is where {0} was born {1}.", "{0}, born {1}, is a native of {2}.")),
        (rf"^{_THING} was born in {_THING}", ("{0}'s birthplace is {1}.", "{1} is where {0} was born.", "{0} comes from {1}.")),
        (rf"^{_THING} \(born ([^()]*?\d{{4}})\) is an? ([^,.;]{{4,60}})", ("{0} was born on {1}.", "{0}, a {2}, was born on {1}.", "{0} is a {2} whose date of birth is {1}.")),
        (rf"^{_THING} is an? [^.]*?\bdirected by {_THING}", ("{1} directed {0}.", "The director of {0} is {1}.", "{1} was the one who directed {0}.")),
        (rf"^{_THING} is an? [^.]*?\bwritten by {_THING}", ("{1} wrote {0}.", "The author of {0} is {1}.", "{0} comes from the pen of {1}.")),
        (rf"^{_THING} is an? [^.]*?\bproduced by {_THING}", ("{1} produced {0}.", "The producer of {0} is {1}.")),
        (rf"^{_THING} is an? [^.]*?\breleased {_DATE}", ("{0} came out {1}.", "{0} appeared {1}.", "The release of {0} was {1}.")),
        (rf"^{_THING} was released {_DATE}", ("{0} came out {1}.", "The release of {0} took place {1}.", "{0} has been available since its release {1}.")),
        (rf"^{_THING} was (?:founded|established) {_DATE} by {_THING}", ("{2} founded {0} {1}.", "The founder of {0} is {2}.", "{0} owes its foundation to {2}.")),
        (rf"^{_THING} was (?:founded|established) {_DATE}", ("{0} was set up {1}.", "The founding of {0} took place {1}.", "{0} has existed since its foundation {1}.")),
        (rf"^{_THING} (?:is|are) (?:located|situated) in ([^,.;]{{4,50}})", ("{0} lies in {1}.", "{0} can be found in {1}.", "{1} is where {0} is.")),
        (rf"^{_THING} died {_DATE}", ("{0}'s death was {1}.", "{0} passed away {1}.", "{0} lost his or her life {1}.")),
        (rf"^{_THING} (?:stars|starred|starring) {_THING}", ("{1} stars in {0}.", "{1} plays in {0}.", "The cast of {0} includes {1}.")),
        (rf"^{_THING} (?:attended|graduated from) {_THING}", ("{0} was a student at {1}.", "{0} studied at {1}.", "{1} is where {0} studied.")),
        (rf"^{_THING} (?:won|received|was awarded) ((?:the|an?) [^,.;]{{4,60}})", ("{0} was the recipient of {1}.", "{1} went to {0}.", "{0} got {1}.")),
        (rf"^{_THING} married {_THING}", ("{1} was married to {0}.", "{0} and {1} were a married couple.", "{0} was the spouse of {1}.")),
        (rf"^{_THING} has a population of ([\d,]+)", ("{1} people live in {0}.", "{0} has {1} inhabitants.", "The population of {0} is {1}.")),
        (rf"^{_THING} is the capital of {_THING}", ("The capital of {1} is {0}.", "{1} has {0} as its capital.")),
        (rf"^{_THING} (?:is|was) the (son|daughter|brother|sister|wife|husband) of {_THING}", ("{0} is {2}'s {1}.", "{2} has a {1} called {0}.") ),
        (rf"^{_THING} (?:is|was) owned by {_THING}", ("{1} owns {0}.", "The owner of {0} is {1}.", "{0} belongs to {1}.")),
        (rf"^{_THING} (?:is|was) (?:named|called) after {_THING}", ("{0} takes its name from {1}.", "The name of {0} comes from {1}.", "{1} gave {0} its name.")),
        (rf"^{_THING} (?:is|was) (?:built|designed|composed|painted|invented|discovered|published|edited|created) by {_THING}", ("It was {1} who made {0} what it is.", "{0} goes back to {1}.", "{1} is behind {0}.")),
    )
)  # fmt: skip
_PLACES: Final = {
    "American": "from the United States", "British": "from Britain", "French": "from France", "German": "from Germany",
    "Italian": "from Italy", "Indian": "from India", "Canadian": "from Canada", "Australian": "from Australia",
    "Japanese": "from Japan", "Russian": "from Russia", "Spanish": "from Spain", "Swedish": "from Sweden",
}  # fmt: skip
_NATIONAL: Final = re.compile(
    rf"\ban? ({'|'.join(_PLACES)}) ((?:[a-z]+ ){{0,2}}[a-z]+)(?=[.,;]|$| (?:who|which|and|from|best|known)\b)"
)
_PASSIVE: Final = re.compile(r"^(.{4,60}?) (was|were|is|are|has been|have been) ([a-z]+ed) by ((?:the |an? )?[^,.;]{3,50}?)((?: (?:in|on|at|for|during|after|before) [^,;]*)?)\.$")  # fmt: skip
_SUBJECT: Final = re.compile(r"^(?:It|He|She|They|The (?:company|band|film|album|city|town|group|series|song|team|book)) (is|was|has|had|were|are|did|can|became|served|played|won|lies|began|went|received) (.+)\.$")  # fmt: skip
_OWN: Final = re.compile(r"^([A-Z][^,.;]{2,50}?)(?: \([^()]*\))? (is|was|are|were) ((?:an?|the|one of) .+)\.$")
_LEFT_OUT: Final = (
    re.compile(r" \([^()]*\)"),
    re.compile(r", (?:which|who|where|whose|including|such as|known as|also called|also known as) [^,]*,"),
    re.compile(r", (?:which|who|where|whose|with|including|while|as well as|such as|although|making|leading|becoming) [^,]*(?=\.$)"),
    re.compile(r" (?:in|on|at|during|since|after|for|with|by|near|under|through|throughout|along with) [^,.;]{3,40}(?=\.$)"),
    re.compile(r"^(?:In|On|At|During|After|Before|Since|By|For|With|Under) [^,]{3,50}, "),
    re.compile(r"\b(?:very|also|later|then|however|mainly|primarily|originally|eventually|previously|largely|particularly) "),
)  # fmt: skip


def turn_relation(sentence: str, rng: Random) -> str:
    """What a sentence says about two things, said in another build; empty if it has no such relation."""
    found = [(match, ways) for pattern, ways in _RELATIONS if (match := pattern.match(sentence))]
    if found:
        match, ways = rng.choice(found)
        text = rng.choice(ways).format(*(group.rstrip(".") for group in match.groups()))
        return text[:1].upper() + text[1:]
    if (passive := _PASSIVE.match(sentence)) and len(passive[1].split()) < 9:
        what, verb, done, who, when = passive.groups()
        if verb in ("was", "were"):
            return f"{who[:1].upper()}{who[1:]} {done} {what[:1].lower() + what[1:] if what.startswith(('The ', 'A ', 'An ')) else what}{when}."
    return ""


def fuse(sentences: Sequence[str], at: int, title: str, rng: Random) -> str:
    """A sentence and the one before it, which names the subject, as one; empty if they do not fit."""
    if at < 1 or not (second := _SUBJECT.match(sentences[at])) or not (first := _OWN.match(sentences[at - 1])):
        return ""
    name, verb, rest = first.groups()
    name = title if title and rng.random() < 0.4 else name
    short = rest.split(",")[0]
    return rng.choice(
        (
            f"{name}, {short}, {second[1]} {second[2]}.",
            f"{name} {verb} {short} and {second[1]} {second[2]}.",
            f"{name} {verb} {short} that {second[1]} {second[2]}.",
            f"{name}, which {second[1]} {second[2]}, {verb} {short}."
            if len(second[2]) < 90
            else f"{name} {second[1]} {second[2]}.",
        )
    )


def leave_out(sentence: str, rng: Random, *, count: int) -> str:
    """The sentence without some of its parts, if enough is left."""
    for _ in range(count):
        pattern = rng.choice(_LEFT_OUT)
        shorter = pattern.sub("", sentence, count=1)
        if len(shorter.split()) >= 6 and shorter != sentence and " not " not in sentence[len(shorter) :]:
            sentence = shorter[:1].upper() + shorter[1:]
    return sentence


def say_where_from(sentence: str, rng: Random) -> str:
    """The sentence with "an American singer" as "a singer from the United States"."""

    def change(found: re.Match[str]) -> str:
        article = "an" if found[2][0] in "aeiou" else "a"
        return f"{article} {found[2]} {_PLACES[found[1]]}"

    return _NATIONAL.sub(change, sentence, count=1) if rng.random() < 0.7 else sentence


def rewrite(sentences: Sequence[str], at: int, title: str, rng: Random) -> str:
    """What one of the sentences says, in another build where that can be done."""
    said = sentences[at]
    draw = rng.random()
    if draw < 0.4 and (turned := turn_relation(said, rng)):
        return turned
    if draw < 0.7 and (fused := fuse(sentences, at, title, rng)):
        return fused
    if draw < 0.85:
        return say_where_from(leave_out(said, rng, count=rng.choice((1, 2, 3))), rng)
    return said
