"""Routing: the strategy for a question, named by the question or chosen by its kind."""

import re
from dataclasses import dataclass

from clew.core.text import tokenize_words
from clew.core.words import load_patterns

_PATTERNS = load_patterns("route")
_NOUNS = {f"{{{name}}}": pattern for name, pattern in _PATTERNS.items() if name.startswith("nouns")}
_WHOLE_DOCUMENT = re.compile(
    re.sub(r"\{nouns[^}]*\}", lambda found: _NOUNS[found[0]], _PATTERNS["whole document"]), re.IGNORECASE
)
_PRECISE = frozenset(tokenize_words(_PATTERNS["precise"].replace("|", " ")))
_RESEARCH = re.compile(rf"\b(?:{_PATTERNS['research']})\b", re.IGNORECASE)
_BROAD = re.compile(
    rf"^\W*{_PATTERNS['broad request']}(?:{_PATTERNS['broad en']})\b|^\W*(?:{_PATTERNS['broad']})", re.IGNORECASE
)
_WAY = r"(?:\s+(?:approach|strategy|method|search|retrieval|technique|mode))?"
_REQUESTS = [
    (re.compile(form.replace("WAY", rf"(?:{pattern}){_WAY}"), re.IGNORECASE), name.removeprefix("strategy "))
    for name, pattern in _PATTERNS.items()
    if name.startswith("strategy ")
    for form in (
        r"\s*[(\[]\s*(?:use\s+|with\s+|by\s+)?WAY\s*[)\]][\s.!]*",  # (rerank)
        # "… but use multi-query approach", "with re-ranking, …"; "do we use semantic search?" is about something else
        r"[\s,;.–—-]*(?:\b(?:but|and|please)\b[\s,]*)*"
        r"\b(?<!we )(?<!they )(?<!to )"
        rf"(?:{_PATTERNS['with']})"
        r"\s+(?:the\s+|an?\s+)?WAY\b[\s.!,:;]*",
        r"(?:\bplease\s+)?\b(?:do|run|perform|make|want|prefer)\s+(?:the\s+|an?\s+)?"
        r"WAY\b(?:\s+(?:for|on|of|about)\b)?[\s.!,:;]*",
        r"^\s*WAY\s*:\s*",  # multi-query: …
    )
] + [
    (
        re.compile(r"(?:^|(?<=[.?!,;:]))\s*re-?rank\s+(?:the|your)\s+(?:results|hits)\b[\s.!,:;]*", re.IGNORECASE),
        "rerank",
    ),
    (
        re.compile(r"(?:^|(?<=[.?!,;:]))\s*reflect\s+on\s+(?:the|your)\s+(?:results|hits)\b[\s.!,:;]*", re.IGNORECASE),
        "self_reflective",
    ),
    (re.compile(r"(?<=search )semantically\b\s*", re.IGNORECASE), "semantic"),
]
_MIN_COMPLEX_WORDS = 25  # from which a question counts as complex
_MAX_ROUTED_CHARS = 1_000  # from the beginning of a question that decide its kind
_MAX_HISTORY = 100  # messages before a question beyond which the conversation is searched with, too
_MAX_VAGUE_WORDS = 2  # up to which a query counts as broad


@dataclass(frozen=True, slots=True)
class Route:
    """The strategy for a question, the reason, and the question without the words that name the strategy.

    `is_wanted`: whether the question or its conversation asks for this strategy; otherwise its words only suggest it.
    """

    strategy: str
    reason: str
    text: str
    is_wanted: bool = False


def route_question(text: str, *, history_length: int = 0) -> Route:
    """Choose the strategy for a question; `history_length` is the number of messages before it."""
    asked = " ".join(text.split())
    opening = asked[:_MAX_ROUTED_CHARS]
    for pattern, name in _REQUESTS:
        if found := pattern.search(opening):
            rest = " ".join((asked[: found.start()] + " " + asked[found.end() :]).split()).strip(" ,:;")
            return Route(name, f"the question asks for {found.group().strip(' ,.;!')!r}", rest or text, True)
    if history_length and not text.strip():
        return Route("chunked", f"the query is a conversation of {history_length} messages", text, True)
    if history_length > _MAX_HISTORY:
        return Route("chunked", f"the conversation has {history_length} messages", text, True)
    tokens = tokenize_words(text)
    if _WHOLE_DOCUMENT.search(opening):
        return Route("document_boost", "it asks for a whole document: find the document first", text, True)
    if _RESEARCH.search(opening) or len(tokens) >= _MIN_COMPLEX_WORDS:
        return Route("self_reflective", "it is a complex question", text)
    if precise := next((word for word in tokens if word in _PRECISE), None):
        return Route("rerank", f"{precise!r} calls for precision", text)
    if _BROAD.search(opening) or len(tokens) <= _MAX_VAGUE_WORDS:
        return Route("multi_query", "it is broad or may mean several things", text)
    return Route("hybrid", "it is a plain question", text)
