"""Amounts of money and what they are paid for, in one form: "€150 per person" is "150 EUR each", "pcm" is per month."""

import re
from collections.abc import Sequence
from functools import lru_cache

_SIGNS = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥"}
_AMOUNT = (
    r"(?:[$€£¥]\s?\d[\d.,]*\d|[$€£¥]\s?\d|\d[\d.,]*\s?(?:[$€£¥]|(?:EUR|USD|GBP|JPY|euros?|dollars?|pounds?|yen)\b))"
    r"(?:\s?(?:k|million|billion)\b)?"
)
_PER = r"(?:per|an?|each|every|/)\s?"
_PERIODS = {
    "month": rf"p\.?\s?c\.?\s?m\b\.?|p\.\s?m\.|pm\b|per\s+calendar\s+month|{_PER}(?:month|mo)\b",
    "week": rf"p\.?\s?w\b\.?|per\s+calendar\s+week|{_PER}(?:week|wk)\b",
    "year": rf"p\.?\s?a\b\.?|per\s+annum|{_PER}(?:year|yr)\b",
    "day": rf"p\.?\s?d\b\.?|per\s+diem|{_PER}day\b",
    "hour": rf"p\.?\s?h\b\.?|{_PER}(?:hour|hr|h)\b",
    "night": rf"{_PER}night\b",
    "person": r"p\.\s?p\.|pp\b|(?:per|an?|/)\s?(?:person|head)\b|per\s+capita\b|apiece|each\b",
}
_CODE_FIRST = re.compile(rf"\b({'|'.join(_SIGNS)})\s?(?=\d)")
_CODE_LAST = re.compile(rf"(\d(?:[\d.,]*\d)?)\s?({'|'.join(_SIGNS)}|euros?|dollars?)\b")  # pounds may be a weight
_COMES_TO = re.compile(
    r"\b(?:amounts?|comes?|adds?\s+up|runs?)\s+to(?=\s+[$€£¥\d])|\b(?:costs?|totals?)(?=\s+[$€£¥\d])", re.IGNORECASE
)
_RATE = re.compile(
    rf"(?P<amount>{_AMOUNT})\s*(?:{'|'.join(f'(?P<{name}>{words})' for name, words in _PERIODS.items())})",
    re.IGNORECASE,
)
_PLAIN_RATE = re.compile(rf"(?P<amount>{_AMOUNT})(?: per (?P<unit>{'|'.join(_PERIODS)})\b)?", re.IGNORECASE)
_WORDS = {"euro": "€", "euros": "€", "dollar": "$", "dollars": "$", "pound": "£", "pounds": "£", "yen": "¥"}


@lru_cache(maxsize=2048)  # every sentence of an answer is checked against the same few passages
def normalize_amounts(text: str) -> str:
    """The text with currencies as signs before their number where a code was, and rates as "per month"."""
    text = _CODE_FIRST.sub(lambda found: _SIGNS[found[1]], text)
    text = _CODE_LAST.sub(lambda found: (_SIGNS.get(found[2]) or _WORDS[found[2]]) + found[1], text)
    text = _COMES_TO.sub("is", text)
    return _RATE.sub(_write_rate, text)


def explain_wrong_rate(body: str, texts: Sequence[str]) -> str:
    """Which amount of a sentence is paid per month, person or the like, and in all the texts per another."""
    known: dict[str, set[str]] = {}
    for text in texts:
        for _, amount, unit in _find_rates(text):
            known.setdefault(amount, set()).add(unit)
    for written, amount, unit in _find_rates(body):
        if unit and amount in known and "" not in known[amount] and unit not in known[amount]:
            return f"the cited passage has {written} per {min(known[amount])}, not per {unit}"
    return ""


def _write_rate(found: re.Match[str]) -> str:
    """A rate in full; the last point of an abbreviation may end its sentence too."""
    ends = found[0].endswith(".") and re.match(r"\s*$|\s+[^\W\d_a-zß-ÿ]", found.string[found.end() :])
    return f"{found['amount']} per {found.lastgroup}{'.' if ends else ''}"


def _find_rates(text: str) -> list[tuple[str, str, str]]:
    """Each amount of money as written, as sign and digits, and with what it is paid for, if that is said."""
    found = _PLAIN_RATE.finditer(normalize_amounts(text))
    return [(each["amount"], _normalize_amount(each["amount"]), (each["unit"] or "").lower()) for each in found]


def _normalize_amount(amount: str) -> str:
    digits = re.sub(r",(?=\d{3})", "", "".join(re.findall(r"\d[\d.,]*", amount)).rstrip(".,"))
    currency, *scale = re.findall(r"[$€£¥]|[^\W\d]+", amount)
    return "".join([_SIGNS.get(currency.upper(), _WORDS.get(currency.lower(), currency)), digits, *scale])
