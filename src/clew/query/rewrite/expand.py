"""Whether a question leans on the conversation before it, and the question with what the conversation was about."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.core.errors import SettingsError
from clew.core.text import words
from clew.core.types import Message
from clew.query.rewrite.keywords import content_words, stems

# A mapping has `role` and `content`, and `raw_content` if something was added to the content before it was sent.
Said = Message | Mapping[str, Any]
Topics = Callable[[str], Sequence[str]]

_POINTERS = "this that these those it them he she him they example examples more another same similar"
_POINTING = frozenset(_POINTERS.split())
_OPENING = re.compile(r"\W*(?:(?:what|how) about|and|or|but)\b", re.IGNORECASE)
# After an article or a possessive, "it" is no pronoun but a name: the IT department.
_NAME = re.compile(r"\b(?:the|an|our|your|my|their|his|her|whose)\s+it\b", re.IGNORECASE)
_FEW = 4  # words; fewer seldom say what they are about
_ECHO = 0.1  # what a mention by the assistant counts beside one by the user


def is_ambiguous_query(query: str) -> bool:
    """Whether the query is hard to understand alone: under four words, or pointing at what was said before.

    It points by a whole word in any case (this, it, they, another, example, more, same, similar, …) or by how it opens
    (what about …, and …). The words are English; the count holds for every language.
    """
    apart = query.split()
    if len(apart if len(apart) > 1 else words(query)) < _FEW:
        return True
    spoken = words(_NAME.sub(" ", query))
    return not _POINTING.isdisjoint(spoken) or _OPENING.match(query) is not None


@dataclass(frozen=True, slots=True)
class ContextualExpander:
    """Puts keywords of the conversation before a question, without a language model.

    max_context_turns: how many turns back to read; a turn is what the user said and what was answered.
    include_assistant: whether the answers count too: what they take up of the user's words weighs more, and their own
        words come where the user's are few.
    keyword_weight: how many times as much a word counts as one that was said a turn earlier (1: all turns alike).
    max_keywords: how many words to put before the question at most.
    """

    max_context_turns: int = 3
    include_assistant: bool = False
    keyword_weight: float = 2
    max_keywords: int = 5

    def __post_init__(self) -> None:
        if self.max_context_turns < 0:
            raise SettingsError(f"max_context_turns is {self.max_context_turns}; it must be at least 0")
        if not self.keyword_weight >= 1:
            raise SettingsError(f"keyword_weight is {self.keyword_weight}; it must be at least 1 (all turns alike)")
        if self.max_keywords < 1:
            raise SettingsError(f"max_keywords is {self.max_keywords}; it must be at least 1")

    def expand(self, input: str, history: Sequence[Said]) -> str:  # noqa: A002 - the documented name
        """The input after the best keywords of the history, in the order they were said; alone if there are none."""
        return " ".join([*self._keywords(input, self._turns(input, history)), input])

    def expand_with_topics(
        self,
        input: str,  # noqa: A002 - the documented name
        history: Sequence[Said],
        topic_extractor: Topics | None = None,
    ) -> str:
        """The input after the topics that the extractor finds in each message; without one, as `expand`."""
        if topic_extractor is None:
            return self.expand(input, history)
        turns = self._turns(input, history)
        found = (topic for turn in turns for _, text in turn for topic in topic_extractor(text))
        return " ".join([*_unsaid(found, stems(input))[: self.max_keywords], input])

    def _turns(self, asked: str, history: Sequence[Said]) -> list[list[tuple[bool, str]]]:
        """The last turns, oldest first, each a list of who spoke (True: the user) and what was said."""
        turns: list[list[tuple[bool, str]]] = []
        for role, text in map(_read, history):
            if role == "user" or (role == "assistant" and self.include_assistant and not turns):
                turns.append([])
            if role == "user" or (role == "assistant" and self.include_assistant):
                turns[-1].append((role == "user", text))
        if turns and turns[-1] == [(True, asked)]:  # the question itself, not yet answered
            turns.pop()
        return turns[len(turns) - min(self.max_context_turns, len(turns)) :]

    def _keywords(self, asked: str, turns: Sequence[Sequence[tuple[bool, str]]]) -> list[str]:
        """The best words of the turns that are not in the question, in the order they were said."""
        own: dict[frozenset[str], float] = defaultdict(float)
        echo: dict[frozenset[str], float] = defaultdict(float)
        spelling: dict[frozenset[str], str] = {}
        for age, turn in zip(range(len(turns) - 1, -1, -1), turns, strict=True):
            weight = self.keyword_weight**-age
            for user, text in turn:
                spoken = _unsaid(content_words(text), stems(asked))
                for key, word in ((stems(word), word) for word in spoken):
                    spelling.setdefault(key, word)
                    own[key] += weight if user else weight * _ECHO
                    echo[key] += 0 if user else weight
        order = list(spelling)
        best = sorted(order, key=lambda key: -own[key] * (1 + echo[key]))  # stable: of equals, what was said first
        chosen = {stems(word) for word in _unsaid((spelling[key] for key in best), frozenset(), most=self.max_keywords)}
        return [spelling[key] for key in order if key in chosen]


def _unsaid(found: Iterator[str] | Sequence[str], known: frozenset[str], *, most: int | None = None) -> list[str]:
    """Those of the words that say something new, each once, in order."""
    kept: list[str] = []
    for word in found:
        new = stems(word)
        if new and not new <= known:
            known |= new
            kept.append(word)
        if len(kept) == most:
            break
    return kept


def _read(message: Said) -> tuple[str, str]:
    """The role and the words of a message: what was typed, where something was added to it before it was sent."""
    if isinstance(message, Message):
        return message.role, message.text
    if not isinstance(message, Mapping):
        raise SettingsError(
            f"history holds {type(message).__name__}; it may hold Message, or dicts of role and content"
        )
    raw = message.get("raw_content") or (message.get("metadata") or {}).get("raw_content")
    return str(message.get("role", "user")), str(raw or message.get("content") or message.get("text") or "")
