"""Style profiles: how a person writes, measured or judged by a model, and the prompt to write like them.

Measuring counts lengths, words, punctuation and repeated phrases. A model judges tone, vocabulary, length and phrases;
its answer must have exactly the requested JSON shape.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from clew.core.attribution import format_reply_mark
from clew.core.errors import DriverFailed, SettingsError
from clew.core.languages import FUNCTION_WORDS
from clew.core.protocols import LLM
from clew.core.suggest import format_count
from clew.core.text import tokenize_words
from clew.core.thread import ThreadView
from clew.core.types import Message
from clew.core.window import ContextMessage, StyleProfile
from clew.query.context.format.renderers import NEXT_LINE
from clew.query.messages.similar import group_by_thread
from clew.query.messages.window import THREAD_SEPARATOR, cut_middle, format_message

log = logging.getLogger("clew")
LEVELS = ("simple", "moderate", "advanced")
LENGTHS = ("short", "medium", "long")
MIN_MESSAGES = 5  # fewer do not show a style
TOO_FEW = f"a style needs at least {MIN_MESSAGES}"
MAX_THREADS = 2  # past threads in a prompt
TOKENS = 1000  # of a prompt
FULL_CONFIDENCE = 20  # messages from which on the confidence is 1
MAX_SHOWN = 50  # latest messages that a model sees
EXCERPT = 400  # characters of each
_MAX_PHRASES = 5
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf\u2b50\u2764]|(?<!\\w):[a-z][a-z0-9_+-]*:|[:;]-?[)(DP](?!\\w)")
_POLITE = frozenset({"please", "thanks", "thank", "sorry", "cheers", "welcome", "appreciate", "kindly"})
_CASUAL = frozenset(
    {"yeah", "yep", "nope", "lol", "haha", "hey", "gonna", "wanna", "dunno", "ok", "cool", "btw", "thx"}
)
_URL = re.compile(r"https?://\S+")  # says nothing about style
_CONTRACTED = re.compile(r"\w['’](?:s|re|ve|ll|d|m|t)\b", re.IGNORECASE)

PROMPT = """Here are {count} messages that {person} wrote, one after a dash:

{messages}

How does {person} write? Answer with one JSON object and nothing else, with exactly these keys: "tone" (a few words),
"vocabularyLevel" ("simple", "moderate" or "advanced"), "messageLength" ("short", "medium" or "long"), "commonPhrases"
(a list of up to five phrases that come again)."""
EXAMPLES = "What they wrote in past threads like this one; ↪ marks an answer to the message above it, ↪? a likely one:"
_MESSAGE_SHARE = 0.2  # of the budget for one message; a longer one is cut in the middle
_PHRASE_CHARS = 60  # of a phrase that a model found

Count = Callable[[str], int]


class InvalidStyleAnalysis(DriverFailed):
    """A style analysis by the model that is not the JSON object asked for."""


def profile_style(
    person: str, texts: Sequence[str], *, llm: LLM | None = None, or_measured: bool = False
) -> StyleProfile:
    """Profile the style of the author of the texts, oldest first: judged by the model, or else measured.

    Raises SettingsError for fewer than MIN_MESSAGES texts, and InvalidStyleAnalysis if the model's answer is unusable;
    with `or_measured` it logs a warning and measures the style instead.
    """
    own = [text.strip() for text in (_URL.sub(" ", text) for text in texts) if text.strip()]
    if len(own) < MIN_MESSAGES:
        raise SettingsError(f"{person} has {format_count(len(own), 'message')} here; {TOO_FEW}")
    counted = measure_style(person, own)
    if llm is None:
        return counted
    answer = llm.complete(_build_analysis_prompt(person, own), max_tokens=300)
    try:
        judged = parse_style_analysis(answer)
    except InvalidStyleAnalysis:
        if not or_measured:
            raise
        log.warning("the model's analysis of %s's style cannot be used; the style is measured instead", person)
        return counted
    return StyleProfile(
        person,
        tone=judged["tone"],
        vocabulary_level=judged["vocabularyLevel"],
        message_length=judged["messageLength"],
        common_phrases=tuple(judged["commonPhrases"]),
        messages=len(own),
        confidence=counted.confidence,
        emoji=counted.emoji,
        habits=counted.habits,
        made_by=llm.name,
    )


def measure_style(person: str, texts: Sequence[str]) -> StyleProfile:
    """Measure a style by counting, without a model: tone, vocabulary, length, phrases, habits."""
    word_lists = [tokenize_words(text) for text in texts]
    letters = [word for said in word_lists for word in said if word.isalpha()]
    emoji = Counter(sign for text in texts for sign in _EMOJI.findall(text))
    habits = measure_writing_habits(texts)
    return StyleProfile(
        person,
        tone=_describe_tone(word_lists, habits),
        vocabulary_level=_rate_vocabulary(letters),
        message_length=_rate_length([len(said) for said in word_lists]),
        common_phrases=find_repeated_phrases(word_lists),
        messages=len(texts),
        confidence=compute_sample_confidence(len(texts)),
        emoji=tuple(sign for sign, _ in emoji.most_common(3)),
        habits=habits,
    )


def compute_sample_confidence(messages: int) -> float:
    """Compute the confidence of a style profile by its number of messages: min(1, n / 20)."""
    return min(1.0, messages / FULL_CONFIDENCE)


def measure_writing_habits(texts: Sequence[str]) -> dict[str, float]:
    """Measure the share of the texts with each writing habit."""
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


def find_repeated_phrases(word_lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Find the phrases of two to four words that occur in several messages and are not function words only.

    Of overlapping phrases, such as the parts of a longer sentence, only the first is kept: the one with the most
    occurrences times its length.
    """
    common = FUNCTION_WORDS["en"]
    seen: Counter[tuple[str, ...]] = Counter()
    for said in word_lists:
        runs = {tuple(said[at : at + size]) for size in (2, 3, 4) for at in range(len(said) - size + 1)}
        seen.update(run for run in runs if any(word not in common for word in run))
    again = sorted(
        (run for run, count in seen.items() if count > 1), key=lambda run: (-seen[run] * (len(run) - 1), -len(run), run)
    )
    kept: list[tuple[str, ...]] = []
    for run in again:
        if len(kept) < _MAX_PHRASES and not any(_phrases_overlap(run, other) for other in kept):
            kept.append(run)
    return tuple(" ".join(run) for run in kept)


def _phrases_overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two adjacent words of one phrase are adjacent in the other."""
    return not set(pairwise(one)).isdisjoint(pairwise(other))


def parse_style_analysis(answer: str) -> dict[str, Any]:
    """Parse the model's analysis of a style; raise InvalidStyleAnalysis for anything but the requested JSON object."""
    body = re.sub(r"\A\s*```(?:json)?\s*\n(.*)\n```\s*\Z", r"\1", answer, flags=re.DOTALL)
    try:
        found = json.loads(body)
    except ValueError:
        raise InvalidStyleAnalysis(
            "the model's analysis of a style is not JSON; ask again, or leave the model out"
        ) from None
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
        raise InvalidStyleAnalysis(
            "the model's analysis of a style has invalid values; ask again, or leave the model out"
        )
    return dict(found)


def _build_analysis_prompt(person: str, texts: Sequence[str]) -> str:
    """Build the analysis prompt, its placeholders filled in one pass so that braces in a message stay as they are."""
    shown = "\n".join(f"- {' '.join(text.split())[:EXCERPT]}" for text in texts[-MAX_SHOWN:])
    values = {"count": str(min(len(texts), MAX_SHOWN)), "person": person, "messages": shown}
    return re.sub(r"\{(count|person|messages)\}", lambda place: values[place[1]], PROMPT)


def _describe_tone(word_lists: Sequence[Sequence[str]], habits: dict[str, float]) -> str:
    """Describe the tone in up to two words, by punctuation and words in more than a fifth of the messages."""
    polite = fmean(not _POLITE.isdisjoint(words) for words in word_lists)
    casual = fmean(not _CASUAL.isdisjoint(words) for words in word_lists)
    tones = []
    if max(casual, habits["uses emoji"]) > 0.2 or habits["begins in lower case"] > 0.5:
        tones.append("casual")
    elif habits["contracts"] < 0.1 and habits["ends without a stop"] < 0.2:
        tones.append("formal")
    if habits["exclaims"] > 0.2:
        tones.append("enthusiastic")
    elif polite > 0.2:
        tones.append("friendly")
    elif habits["asks"] > 0.4:
        tones.append("inquiring")
    return ", ".join(tones[:2]) or "neutral"


def _rate_vocabulary(letters: Sequence[str]) -> str:
    """Rate the vocabulary by the share of words of seven letters or more: under .15 simple, under .3 moderate."""
    long = fmean(len(word) >= 7 for word in letters) if letters else 0.0
    return LEVELS[(long >= 0.15) + (long >= 0.3)]


def _rate_length(counts: Sequence[int]) -> str:
    """Return the message length by the median number of words: under 12 short, under 40 medium."""
    middle = median(counts) if counts else 0
    return LENGTHS[(middle >= 12) + (middle >= 40)]


def build_style_prompt(
    style: StyleProfile,
    messages: Sequence[ContextMessage],
    open_threads: Mapping[str, ThreadView],
    *,
    tokens: int,
    count: Count,
) -> str:
    """Build the system prompt: a person's style, and the best of their messages that fit, each with its parent.

    `messages` are best first; only those of the first two threads are shown, each thread by time.
    """
    head = _describe_style(style)
    threads = list(dict.fromkeys(each.thread for each in messages))[:MAX_THREADS]
    room = int(_MESSAGE_SHARE * tokens)
    chosen: list[ContextMessage] = []
    prompt = head
    for each in messages:
        if each.thread not in threads:
            continue
        exchange = _cut_exchange(each, room, count)
        if not exchange.text or (exchange.parent and not exchange.parent.text):
            continue
        tried = [*chosen, exchange]
        text = f"{head}\n\n{EXAMPLES}\n\n{_render_exchanges(tried, open_threads)}"
        if count(text) <= tokens:
            chosen, prompt = tried, text
    return prompt


def _describe_style(style: StyleProfile) -> str:
    phrases = [" ".join(phrase.split())[:_PHRASE_CHARS] for phrase in style.common_phrases[:5]]
    lines = [
        f"You answer as {style.person} would, in their own way of writing.",
        "",
        "How they write:",
        f"- Tone: {style.tone}",
        f"- Vocabulary Level: {style.vocabulary_level}",
        f"- Message Length: {style.message_length}",
        f"- Common Phrases: {', '.join(phrases) or 'none'}",
    ]
    if style.emoji:
        lines.append(f"- Emoji: {' '.join(style.emoji)}")
    often = [name for name, share in style.habits.items() if share >= 0.5]
    if often:
        lines.append(f"- Habits: {', '.join(often)}")
    return "\n".join(lines)


def _cut_exchange(each: ContextMessage, room: int, count: Count) -> ContextMessage:
    """Cut a message and its parent to `room` tokens each."""

    def cut(message: Message) -> Message:
        def fits(text: str) -> bool:
            return count(format_message(replace(message, text=text), authors=True)) <= room

        return replace(message, text=cut_middle(message.text, fits))

    return replace(each, message=cut(each.message), parent=cut(each.parent) if each.parent else None)


def _render_exchanges(messages: Sequence[ContextMessage], open_threads: Mapping[str, ThreadView]) -> str:
    """Render the messages by thread and time, each reply below the message it answers."""
    blocks = []
    for thread in group_by_thread(messages, open_threads):
        lines: list[str] = []
        last = answered = ""
        for each in thread.messages:
            if each.parent and each.parent.id not in (last, answered):
                lines.append(format_message(each.parent, authors=True))
            mark = format_reply_mark(is_reply=each.parent is not None, guessed=each.guessed)
            said = format_message(each.message, authors=True)
            if mark:
                lines[-1] += f"{NEXT_LINE}{mark}{said}"
            else:
                lines.append(said)
            last, answered = each.id, each.parent.id if each.parent else ""
        blocks.append("\n".join(lines))
    return THREAD_SEPARATOR.join(blocks)
