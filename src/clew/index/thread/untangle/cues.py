"""The cues of one message to its parent: the addressed people, its words, its time and its form."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import log1p, nan

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


# The first words of a message often show what it does; for a language that is not here, the other cues remain.
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
    """The known facts of a message by itself."""

    author: str
    aliases: frozenset[str]  # names that the author may be addressed by
    addressed: frozenset[str]  # names that it addresses
    tokens: frozenset[str]  # among which other names may be
    words: frozenset[str]
    minute: float  # nan without a time
    forms: tuple[float, ...]  # of FORMS
    text: str  # folded, without quotes
    quote: str  # folded, empty if it is too short to be found again


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
    """Make the names that an author may be addressed by: the whole, without trailing marks, joined, the first name."""
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
    """Return the text without its quoted lines, and those lines; folded, with single spaces."""
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
    """Return the time in whole minutes: finer ones add little, and the weights were trained on these."""
    if at is None:
        return nan
    return to_timestamp(at) // 60
