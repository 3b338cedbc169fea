"""Edits of found sentences: such as leave what is said true, and such as make it say something else."""

import re
from collections.abc import Callable, Sequence
from random import Random

from studies.support.lexicon import ADDITIONS, OPPOSITE, OPPOSITE_PATTERN, SAME, SAME_PATTERN, UNITS
from studies.support.synonyms import vary_words
from studies.support.values import MONTHS, spell_number

NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-]|[.,]\d)")
_COMMON = (
    "The This That These Those There They Then She His Her Its Their Our Your Some Most All Both Each Every Many Few After Before "
    "During Since Until While When Where What Which Who How For From With Without Under Over Into However Although Because One "
    "Two Three Yes You According Also And But Not Only Other Others Another Such"
)
_NAME = rf"(?!(?:{_COMMON.replace(' ', '|')})\b)[A-Z][a-zé]{{2,}}"
NAME = re.compile(rf"\b{_NAME}(?: (?:of |de |the )?[A-Z][a-zé]{{2,}})*\b")
_INNER_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-zé]{2,}(?: [A-Z][a-zé]{2,})*\b")
_MONTH = re.compile(rf"\b(?:{'|'.join(MONTHS)})\b")
_UNIT = re.compile(rf"(?<=\d )(?:{'|'.join(UNITS)})\b")
_WORD = re.compile(r"\b[a-z]{5,}\b")
_VERB = re.compile(r"\b(?:is|are|was|were|can|could|will|would|should|must|may|has|have|had|does|did)\b(?! not\b|n't)")
_NEGATION = re.compile(r" (?:not|never)\b|n['’]t\b")
_DATE = re.compile(rf"\b({'|'.join(MONTHS)}) (\d\d?), (\d{{4}})|\b(\d\d?) ({'|'.join(MONTHS)}) (\d{{4}})")
_CONTRACTED = re.compile(r"\b(is|are|was|were|does|do|did|has|have|had|should|would|could) not\b")
_OPENINGS = (
    *(
        "According to the text, ",
        "Yes, ",
        "The passage says that ",
        "As stated, ",
        "Also, ",
        "In addition, ",
        "In fact, ",
    ),
    *("However, ", "Overall, ", "Additionally, ", "It is said that ", "It is important to note that ", "Furthermore, "),
)
_SUFFIXES = ("ing", "ed", "tion", "ment", "ness", "ity", "ly", "ous", "al", "ive", "ers", "er", "es", "s")

Edit = Callable[[str, str, Random], str]


def edit_number(sentence: str, passage: str, rng: Random) -> str:
    """Another number: a neighbour, one with a digit changed, or another one of the passage."""

    def change(found: re.Match[str]) -> str:
        text = found[0]
        others = [each for each in NUMBER.findall(passage) if each != text and each not in sentence]
        if others and rng.random() < 0.5:
            return str(rng.choice(others))
        if text.isdigit() and rng.random() < 0.6:
            return str(max(0, int(text) + rng.choice((-10, -3, -2, -1, 1, 1, 2, 3, 10))))
        at = rng.choice([place for place, sign in enumerate(text) if sign.isdigit()])
        return text[:at] + rng.choice([digit for digit in "123456789" if digit != text[at]]) + text[at + 1 :]

    return _replace(NUMBER, sentence, rng, change)


def edit_month(sentence: str, passage: str, rng: Random) -> str:
    """Another month."""
    del passage
    return _replace(_MONTH, sentence, rng, lambda found: rng.choice([month for month in MONTHS if month != found[0]]))


def edit_unit(sentence: str, passage: str, rng: Random) -> str:
    """Another unit."""
    del passage
    text = _replace(_UNIT, sentence, rng, lambda found: rng.choice([unit for unit in UNITS if unit != found[0]]))
    if not text and rng.random() < 0.7:
        text = _replace(re.compile(r"(?<=\d)(?:%| percent\b)"), sentence, rng, lambda _: rng.choice((" percentage points", " people", " million")))  # fmt: skip
    return text


def edit_name(sentence: str, passage: str, rng: Random) -> str:
    """Another name of the passage, or one from nowhere."""
    own = NAME.findall(sentence)
    others = [each for each in NAME.findall(passage) if each not in sentence and not any(name in each for name in own)]
    if rng.random() < 0.2 or not others:
        others = [
            "Hamburg",
            "Rosalind Pike",
            "Thomas Vane",
            "Valdivia",
            "Nakuru",
            "Edwin Marlow",
            "Tessaly",
            "Corrigan",
        ]
    pattern = _INNER_NAME if rng.random() < 0.7 else NAME
    return _replace(pattern, sentence, rng, lambda _: rng.choice(others))


def exchange_names(sentence: str, passage: str, rng: Random) -> str:
    """Two names exchanged."""
    del passage
    names = list(dict.fromkeys(NAME.findall(sentence)))
    names = [name for name in names if not any(name != other and name in other for other in names)]
    if len(names) < 2:
        return ""
    one, other = rng.sample(names, 2)
    return re.sub(
        rf"\b(?:{re.escape(one)}|{re.escape(other)})\b", lambda found: other if found[0] == one else one, sentence
    )


def exchange_numbers(sentence: str, passage: str, rng: Random) -> str:
    """Two numbers exchanged."""
    del passage
    numbers = list(dict.fromkeys(NUMBER.findall(sentence)))
    if len(numbers) < 2:
        return ""
    one, other = rng.sample(numbers, 2)
    return NUMBER.sub(lambda found: other if found[0] == one else one if found[0] == other else found[0], sentence)


def edit_negation(sentence: str, passage: str, rng: Random) -> str:
    """A negation added, or removed."""
    del passage
    if _NEGATION.search(sentence):
        return _replace(_NEGATION, sentence, rng, lambda _: "").replace(" ca ", " can ").replace(" wo ", " will ")
    return _replace(
        _VERB, sentence, rng, lambda found: f"{found[0]} {rng.choice(('not', 'not', 'not', 'never', 'no longer'))}"
    )


def edit_opposite(sentence: str, passage: str, rng: Random) -> str:
    """A word turned into its opposite."""
    del passage
    return _replace(OPPOSITE_PATTERN, sentence, rng, lambda found: rng.choice(OPPOSITE[found[0]]))


def edit_word(sentence: str, passage: str, rng: Random) -> str:
    """A word replaced by another of the passage, often one with the same ending."""
    others = sorted({word for word in _WORD.findall(passage) if word not in sentence})

    def change(found: re.Match[str]) -> str:
        ending = next((suffix for suffix in _SUFFIXES if found[0].endswith(suffix)), "")
        alike = [word for word in others if ending and word.endswith(ending) and word[:4] != found[0][:4]]
        return str(rng.choice(alike if alike and rng.random() < 0.65 else others))

    return _replace(_WORD, sentence, rng, change) if others else ""


def edit_far_word(sentence: str, passage: str, rng: Random) -> str:
    """A word replaced by one that occurs nowhere near."""
    del passage
    return _replace(_WORD, sentence, rng, lambda _: rng.choice(_STRANGE))


def edit_addition(sentence: str, passage: str, rng: Random) -> str:
    """A detail added that the passage does not give."""
    addition = rng.choice(ADDITIONS)
    if addition in passage or not sentence.endswith("."):
        return ""
    return f"{sentence[:-1]} {addition}."


_STRANGE = [
    "wooden",
    "frozen",
    "stolen",
    "poisoned",
    "musical",
    "velvet",
    "kitchens",
    "abandoned",
    "whispered",
    "invisible",
    "borrowed",
    "planted",
    "ceremony",
    "furniture",
    "melted",
    "surgery",
    "uniforms",
    "gambling",
    "orchestra",
    "tunnel",
    "bicycle",
    "harvest",
    "painted",
    "demolished",
    "inherited",
    "insurance",
    "chocolate",
    "polished",
    "rejected",
    "elephants",
    "volcanic",
    "swimming",
    "ordinary",
    "expelled",
    "bankrupt",
]
FALSE_EDITS: Sequence[tuple[float, Edit]] = (
    (2.5, edit_number), (0.8, edit_month), (1.2, edit_unit), (3, edit_name), (2.5, exchange_names), (1, exchange_numbers), (2.5, edit_negation),
    (3.5, edit_opposite), (0.5, edit_word), (0.6, edit_far_word), (0.5, edit_addition),
)  # fmt: skip


def make_false(sentence: str, passage: str, rng: Random) -> str:
    """The sentence with something in it changed so that it says something else; empty if nothing can be changed."""
    weights, edits = zip(*FALSE_EDITS, strict=True)
    for edit in rng.choices(edits, weights, k=4):
        text: str = edit(sentence, passage, rng)
        if text and text != sentence:
            return text
    return ""


def paraphrase(sentence: str, rng: Random, *, title: str = "", whole: bool = False) -> str:
    """The sentence in other words, or a part of it: what stays true if it is; `whole`: nothing is left out."""
    text = sentence
    if title and rng.random() < 0.8:
        text = re.sub(r"^(?:He|She|It|They|The (?:film|album|band|company|song|city|town|book|series))\b(?= (?:is|was|has|had|[a-z]+ed)\b)", title.replace("\\", ""), text)  # fmt: skip
    if not whole and rng.random() < 0.5:
        text = re.sub(r" \([^()]*\)", "", text)
    if not whole and rng.random() < 0.55:
        text = re.sub(r", (?:which|who|where|whose) [^,.]*(?=[.,]).*$", ".", text)
    if rng.random() < 0.35 and (
        found := re.match(r"^((?:In|On|At|During|After|Before|From|Since|By) [^,]{3,40}), ([^,].*)\.$", text)
    ):
        head = found[1][:1].lower() + found[1][1:]
        text = f"{found[2][:1].upper()}{found[2][1:]} {head}."
    if rng.random() < 0.4:
        text = _DATE.sub(_rewrite_date, text)
    if rng.random() < 0.3:
        text = re.sub(
            r"(?<![\w.,-])(?:[2-9]|1\d)(?![\w.,-])(?! \d| [A-Z])", lambda found: spell_number(int(found[0])), text
        )
    if not whole and rng.random() < 0.2:
        text = re.sub(r"\b(?:very|also|then|however|later|additionally|furthermore|moreover),? ", "", text)
    if not whole and rng.random() < 0.4 and (found := re.match(r"^(.{40,}?), (?:and|but|while|although) .+\.$", text)):
        text = f"{found[1]}."
    for _ in range(rng.choice((0, 1, 2, 3, 4, 5))):
        text = _replace(SAME_PATTERN, text, rng, lambda found: rng.choice(SAME[found[0]])) or text
    if rng.random() < 0.6:
        text = vary_words(text, rng, count=rng.choice((1, 2, 3, 4, 6)))
    if rng.random() < 0.3:
        text = _CONTRACTED.sub(lambda found: f"{found[1]}n't", text) if rng.random() < 0.5 else _shorten(text)
    if rng.random() < 0.12:
        text = f"{rng.choice(_OPENINGS)}{_lower(text)}"
    return text[:1].upper() + text[1:]


def _shorten(text: str) -> str:
    """The text with its first "it is", "they are" or the like contracted."""
    return re.sub(r"\b(It|it|He|he|She|she|That|that|There|there) is\b", r"\1's", text, count=1)


def _rewrite_date(found: re.Match[str]) -> str:
    if found[1]:
        return f"{found[2]} {found[1]} {found[3]}"
    return f"{found[5]} {found[4]}, {found[6]}"


def _lower(text: str) -> str:
    common = text.split(" ", 1)[0] in (
        "The",
        "In",
        "It",
        "A",
        "An",
        "He",
        "She",
        "They",
        "This",
        "There",
        "On",
        "After",
        "At",
    )
    return text[:1].lower() + text[1:] if common else text


def _replace(pattern: re.Pattern[str], text: str, rng: Random, change: Callable[[re.Match[str]], str]) -> str:
    """The text with one match changed; empty if there is none."""
    found = list(pattern.finditer(text))
    if not found:
        return ""
    one = rng.choice(found)
    return text[: one.start()] + change(one) + text[one.end() :]
