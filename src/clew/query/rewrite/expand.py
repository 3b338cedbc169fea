"""Query expansion: whether a question is ambiguous, and its expansion with keywords of the history."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.core.answer import CLOSEST, NO_ANSWER
from clew.core.errors import SettingsError
from clew.core.patterns import compile_pattern
from clew.core.text import tokenize_words
from clew.core.types import Message
from clew.query.rewrite.keywords import extract_content_words, extract_stems

# A mapping has `role` and `content`, and `raw_content` if context was injected into the content.
HistoryItem = Message | Mapping[str, Any]
ExtractTopics = Callable[[str], Sequence[str]]

_POINTERS = "this that these those it them he she him they example examples more another same similar"
_POINTER_WORDS = frozenset(_POINTERS.split())
_FOLLOW_UP_OPENING = compile_pattern(r"\W*(?:(?:what|how) about|and|or|but)\b", re.IGNORECASE)
# After an article or a possessive, "it" is a name, not a pronoun: the IT department.
_IT_AS_NAME = compile_pattern(r"\b(?:the|an|our|your|my|their|his|her|whose)\s+it\b", re.IGNORECASE)
_TEXTS = frozenset({"content", "text", "raw_content", "metadata"})  # of which a mapping has one
_MIN_CLEAR_WORDS = 4  # a query of fewer words is ambiguous
_ASSISTANT_WEIGHT = 0.1  # of a mention by the assistant; a mention by the user counts 1


def is_ambiguous_query(query: str) -> bool:
    """Return whether the query is hard to understand alone: under four words, or referring to the conversation before.

    A reference is a whole word in any case (this, it, they, another, example, more, same, similar, …) or an opening
    (what about …, and …). The words are English; the count holds for every language.
    """
    tokens = query.split()
    if len(tokens if len(tokens) > 1 else tokenize_words(query)) < _MIN_CLEAR_WORDS:
        return True
    has_pointer = not _POINTER_WORDS.isdisjoint(tokenize_words(_IT_AS_NAME.sub(" ", query)))
    return has_pointer or _FOLLOW_UP_OPENING.match(query) is not None


@dataclass(frozen=True, slots=True)
class ContextualExpander:
    """Prepends keywords of the conversation to a question, without a language model.

    max_context_turns: how many turns to read; a turn is a question and its answer.
    include_assistant: whether answers count too: the user's words that they repeat weigh more, and their own words are
        used if the user's are few.
    keyword_weight: the factor by which a word counts more than one a turn earlier (1: all turns alike).
    max_keywords: the maximum number of words to prepend.
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

    def expand(self, input: str, history: Sequence[HistoryItem]) -> str:  # noqa: A002 - the documented name
        """Return the best keywords of the history, in their order, then the input; the input alone without any."""
        return " ".join([*self._select_keywords(input, self._collect_recent_turns(input, history)), input])

    def expand_with_topics(
        self,
        input: str,  # noqa: A002 - the documented name
        history: Sequence[HistoryItem],
        topic_extractor: ExtractTopics | None = None,
    ) -> str:
        """Return the topics that the extractor finds in each message, then the input; without one, as `expand`."""
        if topic_extractor is None:
            return self.expand(input, history)
        turns = self._collect_recent_turns(input, history)
        topics = (topic for turn in turns for _, text in turn for topic in topic_extractor(text))
        return " ".join([*_select_new_words(topics, extract_stems(input))[: self.max_keywords], input])

    def _collect_recent_turns(self, query: str, history: Sequence[HistoryItem]) -> list[list[tuple[bool, str]]]:
        """Collect the last turns, oldest first, each a list of (whether the user spoke, text)."""
        turns: list[list[tuple[bool, str]]] = []
        for role, said in map(read_role_and_text, history):
            text = said.removeprefix(CLOSEST).removeprefix(NO_ANSWER)  # words about the answer, not about its subject
            if role == "user" or (role == "assistant" and self.include_assistant and not turns):
                turns.append([])
            if role == "user" or (role == "assistant" and self.include_assistant):
                turns[-1].append((role == "user", text))
        if turns and turns[-1] == [(True, query)]:  # the question itself, not yet answered
            turns.pop()
        return turns[len(turns) - min(self.max_context_turns, len(turns)) :]

    def _select_keywords(self, query: str, turns: Sequence[Sequence[tuple[bool, str]]]) -> list[str]:
        """Select the best words of the turns that are not in the question, in their order."""
        own: dict[frozenset[str], float] = defaultdict(float)
        echo: dict[frozenset[str], float] = defaultdict(float)
        spelling: dict[frozenset[str], str] = {}
        for age, turn in zip(range(len(turns) - 1, -1, -1), turns, strict=True):
            weight = self.keyword_weight**-age
            for is_user, text in turn:
                new_words = _select_new_words(extract_content_words(text), extract_stems(query))
                for key, word in ((extract_stems(word), word) for word in new_words):
                    spelling.setdefault(key, word)
                    own[key] += weight if is_user else weight * _ASSISTANT_WEIGHT
                    echo[key] += 0 if is_user else weight
        order = list(spelling)
        best = sorted(order, key=lambda key: -own[key] * (1 + echo[key]))  # stable: of equals, the earlier one
        chosen = {
            extract_stems(word)
            for word in _select_new_words((spelling[key] for key in best), frozenset(), max_words=self.max_keywords)
        }
        return [spelling[key] for key in order if key in chosen]


def _select_new_words(
    candidates: Iterator[str] | Sequence[str], known: frozenset[str], *, max_words: int | None = None
) -> list[str]:
    """Select the words whose stems are not all known yet, each once, in order."""
    kept: list[str] = []
    for word in candidates:
        new = extract_stems(word)
        if new and not new <= known:
            known |= new
            kept.append(word)
        if len(kept) == max_words:
            break
    return kept


def read_role_and_text(message: HistoryItem) -> tuple[str, str]:
    """Return the role and the text of a message; its raw content if context was injected."""
    if isinstance(message, Message):
        return message.role, message.text
    given: object = message  # callers without a type checker pass anything
    if not isinstance(given, Mapping) or given.keys().isdisjoint(_TEXTS):
        kind = f"dict of {', '.join(map(str, given))}" if isinstance(given, Mapping) else type(given).__name__
        raise SettingsError(f"history holds {kind}; it may hold Message, or dicts of role and content")
    raw = message.get("raw_content") or (message.get("metadata") or {}).get("raw_content")
    return str(message.get("role", "user")), str(raw or message.get("content") or message.get("text") or "")
