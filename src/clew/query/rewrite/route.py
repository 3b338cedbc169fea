"""Routing: chooses the strategy for a question, by the one it names, else by the kind of question."""

import re
from dataclasses import dataclass

from clew.core.text import tokenize_words

# How a question may name the strategy it wants.
_STRATEGY_NAMES = (
    (r"multi[\s-]?quer(?:y|ies)", "multi_query"),
    (r"re-?rank(?:ing|ed|er)?|cross-?encoder", "rerank"),
    (r"self[\s-]?reflect(?:ion|ive)|reflection", "self_reflective"),
    (r"document[\s-]?boost(?:ing|ed)?", "document_boost"),
    (r"hybrid(?:\s+search)?", "hybrid"),
    (r"(?:lexical|keywords?|full[\s-]?text)(?:\s+search)?|bm25", "lexical"),
    (r"(?:semantic|vector)(?:\s+search)?", "semantic"),
)
_WAY = r"(?:\s+(?:approach|strategy|method|search|retrieval|technique|mode))?"
_REQUESTS = [
    (re.compile(form.replace("WAY", rf"(?:{pattern}){_WAY}"), re.IGNORECASE), name)
    for pattern, name in _STRATEGY_NAMES
    for form in (
        r"\s*[(\[]\s*(?:use\s+|with\s+|by\s+)?WAY\s*[)\]][\s.!]*",  # (rerank)
        # "… but use multi-query approach", "with re-ranking, …"; "do we use semantic search?" is about something else
        r"[\s,;.–—-]*(?:\b(?:but|and|please)\b[\s,]*)*"
        r"\b(?<!we )(?<!they )(?<!to )(?:use|using|with|via|through|by|try|mit|per)"
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
_WHOLE_DOCUMENT = re.compile(
    r"\b(?:complete|full|entire|whole)\b[^.?!]{0,40}?\b(?:document|polic(?:y|ies)|guide|guidelines?|page|"
    r"text(?![\s-]+search)|report|manual|handbook|contract|agreement|procedure|article|paper|file|terms)\b"
    r"|\ball of the (?:document|page|text)\b",
    re.IGNORECASE,
)
_PRECISE = frozenset(
    """
    legal legally law laws lawful contract contractual liability liable clause compliance regulation regulatory gdpr
    hipaa statute litigation lawsuit court warranty indemnity licence licensing
    medical medicine medication dosage dose diagnosis diagnose patient patients drug drugs symptom symptoms clinical
    therapy prescription contraindication allergy allergic disease surgery vaccine
    financial finance tax taxes taxation vat invoice audit interest mortgage revenue dividend accounting deductible
    penalty payroll
    """.split()  # noqa: SIM905 (a list of so many words would fill the page)
)
_RESEARCH = re.compile(
    r"\b(?:implications?|impacts?|consequences|trade-?offs?|pros and cons|advantages and disadvantages|ethical|"
    r"ethics of|"
    r"compare|comparison|analy[sz]e|analysis|evaluate|assess(?:ment)?|relationship between|investigate|root causes?|"
    r"in what ways|to what extent|how (?:does|do|did|would|could) .+ (?:affect|influence|relate|differ|interact))\b",
    re.IGNORECASE,
)
_BROAD = re.compile(
    r"^\W*(?:(?:please\s+)?(?:can|could) you\s+)?(?:tell me (?:more )?about|what about|overview of|an overview of|"
    r"give me an overview|everything (?:about|on)|information (?:about|on)|"
    r"what do (?:we|you) (?:know|have) (?:about|on)|"
    r"explore|describe|introduction to|anything (?:about|on))\b",
    re.IGNORECASE,
)
_MIN_COMPLEX_WORDS = 25  # from which a question is taken to ask for several things
_MAX_ROUTED_CHARS = 1_000  # of a question, from its beginning, that say what kind it is
_MAX_HISTORY = 100  # messages before a question beyond which they are searched with as well
_MAX_VAGUE_WORDS = 2  # up to which a query may mean many things


@dataclass(frozen=True, slots=True)
class Route:
    """The strategy for a question, the reason, and the question without the words that name the strategy."""

    strategy: str
    reason: str
    text: str


def route_question(text: str, *, history_length: int = 0) -> Route:
    """The route of a question: strategy, kind and reason; `history_length` is the number of messages before it."""
    asked = " ".join(text.split())
    opening = asked[:_MAX_ROUTED_CHARS]
    for pattern, name in _REQUESTS:
        if found := pattern.search(opening):
            rest = " ".join((asked[: found.start()] + " " + asked[found.end() :]).split()).strip(" ,:;")
            return Route(name, f"the question asks for {found.group().strip(' ,.;!')!r}", rest or text)
    if history_length and not text.strip():
        return Route("chunked", f"the query is a conversation of {history_length} messages", text)
    if history_length > _MAX_HISTORY:
        return Route("chunked", f"the conversation has {history_length} messages", text)
    tokens = tokenize_words(text)
    if _WHOLE_DOCUMENT.search(opening):
        return Route("document_boost", "it asks for a whole document: find the document first", text)
    if _RESEARCH.search(opening) or len(tokens) >= _MIN_COMPLEX_WORDS:
        return Route("self_reflective", "it is a complex question", text)
    if precise := next((word for word in tokens if word in _PRECISE), None):
        return Route("rerank", f"{precise!r} calls for precision", text)
    if _BROAD.search(opening) or len(tokens) <= _MAX_VAGUE_WORDS:
        return Route("multi_query", "it is broad or may mean several things", text)
    return Route("hybrid", "it is a plain question", text)
