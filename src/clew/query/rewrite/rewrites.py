"""Query rewriting before the search: variations, the transformer's queries, keywords of the conversation.

The `rewrite_with_…` functions make Rewrites for `compose.fan_out`; `make_standalone` changes a single query.

A question is elliptic if gaps or pointers make it depend on the conversation before it. A pronoun does not count if the
question names its antecedent ("Is herpes lethal, and how is it transmitted?"), nor if it is an expletive ("Is it
possible to …"). Keywords may open like a follow-up ("AND gate", "Men in Black", "那英的歌"): such an opening makes a
fragment at most. The English words are here, other languages in `core/words/follow_up.txt`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from clew.core.errors import DriverFailed
from clew.core.languages import STOP_WORDS, UNSPACED, USUAL_LANGUAGE, find_main_script, list_scripts
from clew.core.patterns import compile_pattern
from clew.core.protocols import LLM, Rewrite
from clew.core.settings import HistoryConfig
from clew.core.text import tokenize_words
from clew.core.trace import note, step
from clew.core.types import Query
from clew.core.words import load_patterns
from clew.query.rewrite.expand import ContextualExpander
from clew.query.rewrite.keywords import extract_content_words
from clew.query.rewrite.transformer import (
    Transformer,
    dedupe_queries,
    expand_query_variations,
    parse_query_lines,
    strip_thinking,
)

Compare = Callable[[Query, Query], bool]  # of a query and its expansion
_MAX_WORDS = 40  # of a question that a model writes
_STANDALONE = """Write the last question so that it can be understood without the conversation before it.
Keep its words and add what they refer to, nothing else. If nothing is missing, repeat it as it is.
Answer with the question only.

The conversation:
{conversation}

The last question: {question}"""


def rewrite_with_variations(llm: LLM, *, n: int = 3) -> Rewrite:
    """Make a rewrite: the query, then up to n variations by the model."""

    def rewrite(query: Query) -> list[Query]:
        _, *others = expand_query_variations(query.text, llm, n=n)
        return [query, *(replace(query, text=text, vector=None) for text in others)]

    return rewrite


def rewrite_with_transformer(transformer: Transformer, *, max_turns: int = 3) -> Rewrite:
    """Make a rewrite: the query, then the transformer's queries for it; the query alone if the model fails.

    The model sees the last `max_turns` turns of the conversation, a turn being a question and its answer.
    """

    def rewrite(query: Query) -> list[Query]:
        try:
            texts = transformer.transform_with_context(query.text, _render_turns(query, max_turns))
        except DriverFailed as failure:
            note("transform_failed", str(failure))
            texts = []
        others = [text for text in dedupe_queries([query.text, *texts]) if text != query.text]
        return [query, *(replace(query, text=text, vector=None) for text in others)]

    return rewrite


def make_standalone(query: Query, config: HistoryConfig, is_new_topic: Compare, llm: LLM | None = None) -> Query:
    """Return the query as a question that needs no conversation: rewritten by the model, else with keywords added.

    Local models are too small to rewrite. If the model fails or does not reply with one question, keywords are added.
    """
    if llm is not None and not llm.name.startswith("local:") and query.text and config.max_context_turns:
        with step("rewrite") as trace:
            conversation = _render_turns(query, config.max_context_turns)
            try:
                reply = llm.complete(_STANDALONE.format(conversation=conversation, question=query.text), max_tokens=120)
                texts = parse_query_lines(strip_thinking(reply), max_words=_MAX_WORDS)
            except DriverFailed as failure:
                trace.notes["failed"], texts = str(failure), []
            if len(texts) == 1:
                trace.notes["query"] = text = dedupe_queries([query.text, *texts])[-1]  # as asked, if it is the same
                return query if text == query.text else replace(query, text=text, vector=None)
    expander = ContextualExpander(
        max_context_turns=config.max_context_turns,
        include_assistant=config.include_assistant,
        keyword_weight=config.keyword_weight,
        max_keywords=config.max_keywords,
    )
    return expand_if_elliptic(query, expander, is_new_topic)


def _render_turns(query: Query, max_turns: int) -> str:
    recent = query.history[len(query.history) - min(2 * max_turns, len(query.history)) :]
    return "\n".join(f"{message.role}: {message.text}" for message in recent)


def expand_if_elliptic(query: Query, expander: ContextualExpander, is_new_topic: Compare) -> Query:
    """Expand an elliptic query by the best keywords of its history; other queries are unchanged.

    A fragment is expanded too, unless `is_new_topic`, given query and expansion, says that it is about something else.
    """
    if not query.history or not query.text:
        return query
    elliptic = is_elliptic(query.text)
    if not elliptic and not is_fragment(query.text):
        return query
    with step("expand") as trace:
        keywords = expander.expand(query.text, query.history).removesuffix(query.text).strip()
        expanded = replace(query, text=f"{keywords}: {query.text}", vector=None)  # readers are surer with the colon
        if not keywords:
            trace.notes["reason"] = "nothing that was said before adds a word"
            return query
        if not elliptic and is_new_topic(query, expanded):
            trace.notes["reason"] = "it finds something else by itself than what was talked of"
            return query
        reason = "it is a follow-up by its words" if elliptic else "it is short and may belong to what was talked of"
        trace.notes.update(query=expanded.text, reason=reason)
    return expanded


_PATTERNS = load_patterns("follow_up")
_UNSPACED = ("zh", "ja", "ko", "th")
_FOLLOW_UP_OPENING = compile_pattern(r"\W*(?:(?:what|how) about|why not|(?P<word>and|or|but))\b", re.IGNORECASE)
# A question that continues the one before: "only for one project?", but "In which year …?", "As root, is it …?".
_REST_OF_QUESTION = compile_pattern(
    r"\W*(?:also|as|at|by|for|from|in|into|of|on|only|to|under|with|without)\b(?!.*\b(?:wh\w+|how|is|are|was|were|do|does|"
    r"did|can|could|should|would|will|may|must|has|have|had)\b).*\?\W*$",
    re.IGNORECASE | re.DOTALL,
)
# A title and a question about it: "This American Life host".
_TITLE_OPENING = compile_pattern(r"\W*(?:This|That|These|Those)(?=\s+['’]?(?:[A-Z]|\d)\S*\s+\S+\s+\S)")
_ASKS = compile_pattern(r"\b(?:who|what|when|where|why|which|how)\b", re.IGNORECASE)
_PRONOUN = compile_pattern(
    r"\b(?:it|they|them|he|him|she|(?:the|an?|another|which)\s(?:\w+\s)?ones?(?=\W*$))\b", re.IGNORECASE
)
_POSSESSIVE = compile_pattern(r"\b(?:its|their|theirs|his|her|hers)\b", re.IGNORECASE)
# Where "that" begins neither a relative clause nor one with a subject of its own: "does that …", "turn that off …".
_THAT = compile_pattern(
    r"(?:^|\b(?:is|was|does|did|do|about|of|with|for|like|explain|show|why|how|by|to|and)\s)\W*that\b|"
    r"\bthat\b(?=\W*(?:$|(?:off|on|up|back|again|later|too|instead|then|now|here|there|for|in|with|from)\b))",
    re.IGNORECASE,
)
# A clause boundary between a pronoun and its antecedent.
_CLAUSE = compile_pattern(
    r"[,;:.?!]|\b(?:and|or|but|if|when|where|while|because|since|so|that|which|who|after|before|once|then|than|as)\b",
    re.IGNORECASE,
)
# "Is it possible to …", "How long does it take to …", "it is true that …": it stands for what follows.
_EXPLETIVE = compile_pattern(r"\bit(?:'s|’s)?\s+(?:[\w'’]+\s+){1,3}(?:to|that|for\s.+\sto|when|if)\b", re.IGNORECASE)
# After an article or a possessive, "it" is a name, not a pronoun: the IT department.
_IT_AS_NAME = compile_pattern(r"\b(?:the|an|our|your|my|their|his|her|whose)\s+it\b", re.IGNORECASE)
_DEMONSTRATIVE = compile_pattern(
    r"\b(?:this|these|those)\b(?!\s+(?:who|which|that|season|year|week|month|day|days|century|decade|time|morning|"
    r"afternoon|evening|summer|winter|spring|autumn|fall)\b)",
    re.IGNORECASE,
)
_COMPARING = compile_pattern(r"\b(?:more|another|same|similar|other|others|else|examples?)\b", re.IGNORECASE)
_ASKS_WHAT_IT_IS = compile_pattern(r"\W*(?:what|who)\s*(?:is|are|was|were|'s|’s)\s+(?!the\b)", re.IGNORECASE)
_NAME = compile_pattern(r"\S\s+[A-Z]\w")  # a capital that does not begin the text
_WORD = compile_pattern(r"[^\W\d_]+")
_MIN_WORDS = 4  # below which an incomplete question is a fragment
_MIN_CONTENT_WORDS = 2
_MAX_LETTERS = 12  # of a question that says little, in a script without spaces
_MIN_STOP_WORDS = 2  # from which a question counts as in a language of Latin script
_MAX_SHARED = 2  # letters up to which many languages share an opening


class FollowUpWords(NamedTuple):
    """The follow-up patterns of a language."""

    opening: re.Pattern[str]
    pointer: re.Pattern[str] | None
    ending: re.Pattern[str] | None
    weak_ending: re.Pattern[str] | None
    weak_opening: re.Pattern[str] | None


def _compile(code: str) -> FollowUpWords:
    """Compile the patterns of a language, for whole words if it separates words."""
    found = {part: _PATTERNS.get(f"{code} {part}", "") for part in FollowUpWords._fields}
    start, end, flags = ("", "", 0) if code in _UNSPACED else (r"(?<!\w)", r"(?!\w)", re.IGNORECASE)
    pointer = found["pointer"].replace("$", r"\W*$")

    def make(part: str, before: str, after: str) -> re.Pattern[str] | None:
        return compile_pattern(f"{before}{found[part]}{after}", flags) if found[part] else None

    return FollowUpWords(
        compile_pattern(rf"\W*(?P<word>{found['opening']}){end}", flags),
        compile_pattern(f"{start}(?:{pointer}){end}", flags) if pointer else None,
        make("ending", f"{start}(?:", r")\W*$"),
        make("weak_ending", "(?:", r")\W*$"),
        make("weak_opening", r"\W*(?P<word>", ")"),
    )


FOLLOW_UP_WORDS: Final[Mapping[str, FollowUpWords]] = MappingProxyType(
    {name.split()[0]: _compile(name.split()[0]) for name in _PATTERNS if name.endswith(" opening")}
)
QUESTION_WORD: Final = compile_pattern(rf"\W*(?:{_PATTERNS['question words']})\b", re.IGNORECASE)
UNSHARED_OPENING: Final = compile_pattern(_PATTERNS["unshared openings"])
MODAL: Final = compile_pattern(_PATTERNS["modal verbs"], re.IGNORECASE)


def is_elliptic(question: str) -> bool:
    """Return whether a question shows by its words that it needs the conversation before it.

    It has no content word, opens or ends as a follow-up ("what about …", "and …", "…呢?"), compares ("another"), or has
    a pronoun or demonstrative without an antecedent.
    """
    opening = _FOLLOW_UP_OPENING.match(question)
    if opening and not _may_open_keywords(question, opening):
        return True
    if _REST_OF_QUESTION.match(question) or any(_follows_up(question, *each) for each in _find_words(question)):
        return True
    content = extract_content_words(question)
    compares = len(content) <= _MIN_CONTENT_WORDS and bool(_COMPARING.search(question))
    return not content or compares or _points_outside(question)


def is_fragment(question: str) -> bool:
    """Return whether a question is short and incomplete, has one content word, or opens like a follow-up.

    Only the collection tells whether a fragment follows up: "notice period" after a talk of sabbaticals may, "visitor
    badge" does not.
    """
    found = [words for words, _ in _find_words(question)]
    if (
        _FOLLOW_UP_OPENING.match(question)
        or _opens_with_title(question)
        or any(map(partial(_may_open, question), found))
    ):
        return True
    if any(words.weak_ending and words.weak_ending.search(question) for words in found):
        return sum(map(str.isalpha, question)) <= _MAX_LETTERS
    spaced = question.split()
    if len(spaced) == 1:  # one word, or a script without spaces
        return len(tokenize_words(question)) < _MIN_WORDS
    content = extract_content_words(question)
    if content and _ASKS_WHAT_IT_IS.match(question):
        return False
    is_whole = QUESTION_WORD.match(question) is not None
    return len(content) < _MIN_CONTENT_WORDS or (len(spaced) < _MIN_WORDS and not is_whole)


def _find_words(question: str) -> Iterator[tuple[FollowUpWords, frozenset[str]]]:
    """Yield the follow-up words of each language that a question may be in, and the question's stop words in it.

    The languages tried are those written in its script; of several, those with the most stop words in the question.
    """
    script = find_main_script(question)
    if script in UNSPACED:
        code = USUAL_LANGUAGE[script]
        yield from [(FOLLOW_UP_WORDS[code], frozenset())] if code in FOLLOW_UP_WORDS else []
        return
    own = frozenset(_WORD.findall(question.casefold()))
    found = {code: words & own for code, words in STOP_WORDS.items() if script in list_scripts(code)}
    most = max(map(len, found.values()), default=0)
    for code, stop_words in found.items():
        if len(stop_words) == most and code in FOLLOW_UP_WORDS:
            yield FOLLOW_UP_WORDS[code], stop_words


def _follows_up(question: str, words: FollowUpWords, stop_words: frozenset[str]) -> bool:
    """Return whether a question has the follow-up words of a language.

    Languages of Latin script share words with one another and with names (e, en, ou, men, ale). After an opening word
    of theirs, another word must be a stop word of the language (the next word, if the opening is short); and a pointer
    must not be the only stop word.
    """
    if words.ending and words.ending.search(question):
        return True
    shares_words = find_main_script(question) == "Latn"
    if opening := words.opening.match(question):
        word, after = opening["word"], _WORD.findall(question.casefold(), opening.end())
        known = after[:1] if len(word) <= _MAX_SHARED else after
        return not shares_words or UNSHARED_OPENING.fullmatch(word) is not None or not stop_words.isdisjoint(known)
    if words.pointer is None or not words.pointer.search(question):
        return False
    return (not shares_words or len(stop_words) >= _MIN_STOP_WORDS) and _says_little(question)


def _may_open(question: str, words: FollowUpWords) -> bool:
    """Return whether a question opens like a follow-up in a language, by more than a word that many languages have."""
    opening = (words.weak_opening and words.weak_opening.match(question)) or words.opening.match(question)
    return opening is not None and (find_main_script(question) != "Latn" or len(opening["word"]) > _MAX_SHARED)


def _may_open_keywords(question: str, opening: re.Match[str]) -> bool:
    """Return whether the "and", "or" or "but" that opens a question may belong to a name or keywords: "AND gate"."""
    if opening["word"] is None or question.isupper():
        return False
    if opening["word"].isupper():
        return True
    after = _WORD.findall(question, opening.end())
    if not after or "?" in question:
        return False
    is_title = opening["word"].istitle() and after[0].istitle()
    return is_title or STOP_WORDS["en"].isdisjoint(map(str.casefold, after))


def _opens_with_title(question: str) -> bool:
    """Return whether a text opens with a demonstrative that belongs to a title, and has no question word."""
    return _TITLE_OPENING.match(question) is not None and not _ASKS.search(question)


def _says_little(question: str) -> bool:
    """Return whether a question has at most two content words, or few letters in a script without spaces."""
    if find_main_script(question) in UNSPACED:
        return sum(map(str.isalpha, question)) <= _MAX_LETTERS
    content = [word for word in extract_content_words(question) if not MODAL.fullmatch(word)]
    return len(content) <= _MIN_CONTENT_WORDS


def _points_outside(question: str) -> bool:
    """Return whether a pronoun or demonstrative has no antecedent before it in the question."""
    plain = _EXPLETIVE.sub(" ", _IT_AS_NAME.sub(" ", question))
    if _opens_with_title(plain):
        plain = _TITLE_OPENING.sub("", plain, count=1)
    if _DEMONSTRATIVE.search(plain):
        return True
    if (possessive := _POSSESSIVE.search(plain)) and not extract_content_words(plain[: possessive.start()]):
        return True
    pronoun = _PRONOUN.search(plain) or _THAT.search(plain)
    return pronoun is not None and not _has_antecedent(plain[: pronoun.start()])


def _has_antecedent(before: str) -> bool:
    """Return whether the text before a pronoun names something in an earlier clause."""
    ends = [found.start() for found in _CLAUSE.finditer(before)]
    if not ends:
        return False
    clause = before[: ends[-1]]
    return len(extract_content_words(clause)) >= _MIN_CONTENT_WORDS or _NAME.search(clause) is not None
