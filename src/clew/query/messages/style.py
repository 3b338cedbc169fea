"""How a person writes: measured from their messages, or judged by a model; and the prompt that answers as they would.

What is measured is only counted: lengths, words, signs, phrases that come again. A model judges tone, vocabulary,
length and phrases; its answer is taken strictly or not at all.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from clew.core.errors import DriverFailed, SettingsError
from clew.core.languages import FUNCTION_WORDS
from clew.core.protocols import LLM
from clew.core.text import words
from clew.core.window import StyleProfile, WindowThread
from clew.query.messages.window import rendered

LEVELS = ("simple", "moderate", "advanced")
LENGTHS = ("short", "medium", "long")
ENOUGH = 20  # messages from which a profile is as sure as it gets
SHOWN = 50  # messages that a model is shown, the last ones
EXCERPT = 400  # characters of each
_PHRASES = 5
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf\u2b50\u2764]|(?<!\\w):[a-z][a-z0-9_+-]*:|[:;]-?[)(DP](?!\\w)")
_POLITE = frozenset({"please", "thanks", "thank", "sorry", "cheers", "welcome", "appreciate", "kindly"})
_CASUAL = frozenset(
    {"yeah", "yep", "nope", "lol", "haha", "hey", "gonna", "wanna", "dunno", "ok", "cool", "btw", "thx"}
)
_ADDRESS = re.compile(r"https?://\S+")  # which is nobody's style
_CONTRACTED = re.compile(r"\w['’](?:s|re|ve|ll|d|m|t)\b", re.IGNORECASE)

JUDGE = """Here are {count} messages that {person} wrote, one after a dash:

{messages}

How does {person} write? Answer with one JSON object and nothing else, with exactly these keys: "tone" (a few words),
"vocabularyLevel" ("simple", "moderate" or "advanced"), "messageLength" ("short", "medium" or "long"), "commonPhrases"
(a list of up to five phrases that come again)."""


def profile(person: str, texts: Sequence[str], *, least: int = 5, llm: LLM | None = None) -> StyleProfile:
    """The style of whoever wrote the texts, the oldest first: by the model where there is one, else measured.

    Few texts are refused.
    """
    said = [text.strip() for text in (_ADDRESS.sub(" ", text) for text in texts) if text.strip()]
    if len(said) < least:
        raise SettingsError(
            f"{person} has {len(said)} messages here; a style needs at least {least} (scoring.style_messages)"
        )
    counted = measured(person, said)
    if llm is None:
        return counted
    judged = parsed(llm.complete(_asked(person, said), max_tokens=300))
    return StyleProfile(
        person,
        tone=judged["tone"],
        vocabulary_level=judged["vocabularyLevel"],
        message_length=judged["messageLength"],
        common_phrases=tuple(judged["commonPhrases"]),
        messages=len(said),
        confidence=counted.confidence,
        emoji=counted.emoji,
        habits=counted.habits,
        made_by=llm.name,
    )


def measured(person: str, texts: Sequence[str]) -> StyleProfile:
    """The style as it can be counted."""
    lists = [words(text) for text in texts]
    letters = [word for said in lists for word in said if word.isalpha()]
    emoji = Counter(sign for text in texts for sign in _EMOJI.findall(text))
    shown = habits(texts)
    return StyleProfile(
        person,
        tone=_tone(lists, shown),
        vocabulary_level=_level(letters),
        message_length=_length([len(said) for said in lists]),
        common_phrases=phrases(lists),
        messages=len(texts),
        confidence=confidence(len(texts)),
        emoji=tuple(sign for sign, _ in emoji.most_common(3)),
        habits=shown,
    )


def confidence(messages: int) -> float:
    """min(1, n / 20)."""
    return min(1.0, messages / ENOUGH)


def habits(texts: Sequence[str]) -> dict[str, float]:
    """The share of the texts that show each habit of writing."""
    shares = {
        "exclaims": ["!" in text for text in texts],
        "asks": [text.rstrip().endswith("?") for text in texts],
        "trails off": ["..." in text or "…" in text for text in texts],
        "ends without a stop": [text.rstrip()[-1:].isalnum() for text in texts],
        "begins in lower case": [text.lstrip()[:1].islower() for text in texts],
        "contracts": [bool(_CONTRACTED.search(text)) for text in texts],
        "uses emoji": [bool(_EMOJI.search(text)) for text in texts],
    }
    return {name: round(fmean(found), 3) for name, found in shares.items()}


def phrases(lists: Sequence[Sequence[str]], *, most: int = _PHRASES) -> tuple[str, ...]:
    """The runs of two to four words that come in several messages, with one word that says something.

    Of those that hold one another, or run into one another as the parts of a longer sentence do, the first stands for
    all: the one that makes up most of what was said.
    """
    common = FUNCTION_WORDS["en"]
    seen: Counter[tuple[str, ...]] = Counter()
    for said in lists:
        runs = {tuple(said[at : at + size]) for size in (2, 3, 4) for at in range(len(said) - size + 1)}
        seen.update(run for run in runs if any(word not in common for word in run))
    again = sorted(
        (run for run, count in seen.items() if count > 1), key=lambda run: (-seen[run] * (len(run) - 1), -len(run), run)
    )
    kept: list[tuple[str, ...]] = []
    for run in again:
        if len(kept) < most and not any(_overlap(run, other) for other in kept):
            kept.append(run)
    return tuple(" ".join(run) for run in kept)


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two words that follow one another in one run do so in the other."""
    return not set(pairwise(one)).isdisjoint(pairwise(other))


def parsed(answer: str) -> dict[str, Any]:
    """What the model said of a style; an answer that is not that JSON object, or holds other values, is refused."""
    body = re.sub(r"\A\s*```(?:json)?\s*\n(.*)\n```\s*\Z", r"\1", answer, flags=re.DOTALL)
    try:
        found = json.loads(body)
    except ValueError:
        raise DriverFailed("the model's analysis of a style is not JSON; ask again, or leave the model out") from None
    ok = (
        isinstance(found, dict)
        and isinstance(found.get("tone"), str)
        and bool(found["tone"].strip())
        and found.get("vocabularyLevel") in LEVELS
        and found.get("messageLength") in LENGTHS
        and isinstance(found.get("commonPhrases"), list)
        and all(isinstance(each, str) for each in found["commonPhrases"])
    )
    if not ok:
        raise DriverFailed(
            "the model's analysis of a style has values that cannot be; ask again, or leave the model out"
        )
    return dict(found)


def reply_prompt(style: StyleProfile, threads: Sequence[WindowThread]) -> str:
    """The system prompt that has a model write as a person does, with past threads of theirs as examples."""
    lines = [
        f"You answer as {style.person} would, in their own way of writing.",
        "",
        "How they write:",
        f"- Tone: {style.tone}",
        f"- Vocabulary Level: {style.vocabulary_level}",
        f"- Message Length: {style.message_length}",
        f"- Common Phrases: {', '.join(style.common_phrases) or 'none'}",
    ]
    if style.emoji:
        lines.append(f"- Emoji: {' '.join(style.emoji)}")
    often = [name for name, share in style.habits.items() if share >= 0.5]
    if often:
        lines.append(f"- Habits: {', '.join(often)}")
    if threads:
        lines += ["", "What they wrote in past threads like this one:", "", rendered(threads)]
    return "\n".join(lines)


def _asked(person: str, texts: Sequence[str]) -> str:
    """The prompt with its places filled once; braces in a message stay what they are."""
    shown = "\n".join(f"- {' '.join(text.split())[:EXCERPT]}" for text in texts[-SHOWN:])
    values = {"count": str(min(len(texts), SHOWN)), "person": person, "messages": shown}
    return re.sub(r"\{(count|person|messages)\}", lambda place: values[place[1]], JUDGE)


def _tone(lists: Sequence[Sequence[str]], shown: dict[str, float]) -> str:
    """Up to two words for how it sounds, by the signs and words that more than a fifth of the messages have."""
    polite = fmean(not _POLITE.isdisjoint(said) for said in lists)
    casual = fmean(not _CASUAL.isdisjoint(said) for said in lists)
    tones = []
    if max(casual, shown["uses emoji"]) > 0.2 or shown["begins in lower case"] > 0.5:
        tones.append("casual")
    elif shown["contracts"] < 0.1 and shown["ends without a stop"] < 0.2:
        tones.append("formal")
    if shown["exclaims"] > 0.2:
        tones.append("enthusiastic")
    elif polite > 0.2:
        tones.append("friendly")
    elif shown["asks"] > 0.4:
        tones.append("inquiring")
    return ", ".join(tones[:2]) or "neutral"


def _level(letters: Sequence[str]) -> str:
    """By the share of words of seven letters or more: under .15 simple, under .3 moderate."""
    long = fmean(len(word) >= 7 for word in letters) if letters else 0.0
    return LEVELS[(long >= 0.15) + (long >= 0.3)]


def _length(counts: Sequence[int]) -> str:
    """By the words of the middle message: under 12 short, under 40 medium."""
    middle = median(counts) if counts else 0
    return LENGTHS[(middle >= 12) + (middle >= 40)]
