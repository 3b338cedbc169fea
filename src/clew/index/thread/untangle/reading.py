"""What one message says that tells what it answers: whom it names, its words, its minute and its form."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import log1p, nan

from clew.core.text import words
from clew.core.types import Message

_MARKED = re.compile(r"<@!?([^<>|\s]+)(?:\|[^<>]*)?>|(?<![\w@])@([\w.\-\[\]{}|^`\\]+)")
_LEADING = re.compile(r"\s*([^\s:,;]{2,40})\s?[:,;>]+(?=\s|$|[^\W\d_])(?!\S*//)")
_EDGES = "\"'“”‘’«»()<>.,:;!?…*~@"
_LINK = re.compile(r"https?://|www\.|\w\.(?:com|org|net)\b")
_CODE = re.compile(r"`|[/~]\w+/|\w+\(\)|--?\w+\b|\w+_\w+|\w\.\w+\.\w|\bsudo\b")
_FACE = re.compile(r"[:;=8xX]['-]?[()DPpOo/\\|]+|[\U0001f300-\U0001faff\u2600-\u27bf]")

_QUOTED = 12  # letters of a quote, at least: shorter ones stand in many messages


def _set(text: str) -> frozenset[str]:
    return frozenset(words(text))


# A message's first word or words often tell what it does; in a language that is not here, the other evidence stands.
ASKING = _set(
    "what how why where when who which whats hows wheres whos is are am do does did can could would should will has "
    "have any anyone anybody someone was wer wie warum wieso wo wann welche gibt ist sind kann könnte hat weiss qui "
    "que quoi quel quelle comment pourquoi où quand est peut qué cómo dónde cuándo quién cuál puede hay che come "
    "perché dove quando chi puoi como onde quem pode wat hoe waarom waar wanneer kan"
)
THANKS = _set("thanks thank thx ty cheers thankyou tnx danke merci gracias grazie obrigado obrigada bedankt dank tack")
GREETING = _set(
    "hi hello hey hiya yo morning evening greetings howdy sup hallo moin servus bonjour salut hola ciao olá oi hoi "
    "hej bye cya"
)
ASSENT = _set(
    "yes yeah yep yup yea ya ok okay k sure right true exactly agreed correct indeed ah oh aha cool nice great good "
    "hmm lol haha heh ja genau klar stimmt oui si sí sì sim certo claro exact vale"
)
DENIAL = _set("no nope nah not never dont don wrong nein nicht non não nee niet")
CARRYING_ON = _set("and but or so then also because cos cause well though still und aber oder et mais ou y pero e ma")
SELF = _set("i im ive my me mine we our ich mein mir je mon moi yo mi io eu meu ik mijn")
YOU = _set("you your u ur youre du dein sie tu ton vous votre tú usted você je jij")

FORMS = (
    "asks", "ends asking", "starts asking", "thanks", "greets", "assents", "denies", "carries on", "of me", "of you",
    "link", "code", "face", "exclaims", "command", "trails off", "length", "one word",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """A message as evidence: its author, their names, whom it calls or may name, its words, minute and form."""

    author: str
    names: frozenset[str]
    called: frozenset[str]
    named: frozenset[str]
    words: frozenset[str]
    minute: float
    forms: tuple[float, ...]
    text: str  # folded, what it quotes left out
    quote: str  # what it quotes, folded, if that is long enough to be known again


def read(message: Message) -> Said:
    """What the message says, without its neighbours."""
    called, named, rest, forms = _text(message.text)
    text, quote = _quote(message.text)
    return Said(message.author, _names(message.author), called, named, rest, _minute(message.at), forms, text, quote)


@lru_cache(maxsize=4096)
def _names(author: str) -> frozenset[str]:
    """The names that an author may be called by: the whole, without its tail of marks, the first of several."""
    whole = author.casefold().strip().lstrip("@")
    parts = whole.split()
    forms = {whole, whole.rstrip("_`^|-0123456789"), "".join(parts), ".".join(parts), *parts[:1]}
    return frozenset(form for form in forms if len(form) > 1)


@lru_cache(maxsize=16_384)  # a live channel reads the same hundred messages again for each new one, and there are many
def _text(text: str) -> tuple[frozenset[str], frozenset[str], frozenset[str], tuple[float, ...]]:
    folded = text.casefold()
    tokens = [token.strip(_EDGES) for token in folded.split()]
    called = {one or other.rstrip(".") for one, other in _MARKED.findall(folded)}
    leading = _LEADING.match(folded)
    body = text
    if leading:
        called |= {leading[1], leading[1].strip(_EDGES)}
        body = text[leading.end() :] if len(folded) == len(text) else text
    elif tokens:
        called.add(tokens[0])
    said = words(body)
    return frozenset(called), frozenset(tokens), frozenset(said), _forms(body, said)


def _quote(text: str) -> tuple[str, str]:
    """The text without the lines it quotes, and those lines; folded, with single spaces."""
    folded = text.casefold().replace("&gt;", ">")
    lines = folded.split("\n") if ">" in folded else [folded]
    quoted = " ".join(" ".join(line.lstrip("> ") for line in lines if line.startswith(">")).split())
    own = " ".join(" ".join(line for line in lines if not line.startswith(">")).split())
    return own, quoted if len(quoted) >= _QUOTED else ""


def _forms(text: str, said: list[str]) -> tuple[float, ...]:
    first, early, every = said[0] if said else "", set(said[:3]), set(said)
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
        min(log1p(len(said)) / 4, 1.5),
        float(len(said) <= 1),
    )


def _minute(at: datetime | None) -> float:
    """Whole minutes: finer times say little more, and the weights were trained on these."""
    if at is None:
        return nan
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() // 60
