"""Keyword extraction for query rewriting: content words, stems, and expansion terms from feedback."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

from clew.core.languages import FUNCTION_WORDS, STOP_WORDS
from clew.core.patterns import compile_pattern
from clew.core.text import UNSPACED_RUN, extract_terms
from clew.core.unicode import WORD

# An identifier or a compound is one word: few-shot, max_skew_ms, v2.1, C#.
_WORD = compile_pattern(rf"{WORD}(?:[-‐.'’@]{WORD})*(?:\+\+|#(?!\w))?")
_POSSESSIVE = compile_pattern(r"['’]s$")
# Words that phrase a request and say nothing of its subject.
_REQUEST_WORDS = """
tell show give explain describe name list provide find look talk talking speak speaking know want need like help please
let lets make get see say said mean meant think thank thanks hello hi hey ok okay yes sure right well now really
actually maybe going thing things something anything way lot much many more most less few other others another else
example examples similar question questions answer again further once yet because until while without every one good
great kind got gonna
"""
_MIN_STOP_WORDS = 2  # before a text counts as in a language that shares words with English: care, on
REQUEST_WORDS = frozenset(_REQUEST_WORDS.split())


def split_words(text: str) -> list[str]:
    """Return all words as written, in order, without possessives."""
    return [_POSSESSIVE.sub("", word) for word in _WORD.findall(text)]


def extract_content_words(text: str) -> list[str]:
    """Extract the content words of a text, as written and in order: no function words, no words of a request.

    A word of one or two letters stays if it looks like a name.
    """
    all_words = split_words(text)
    folded_words = [word.casefold().replace("’", "'") for word in all_words]
    function_words = _select_function_words(frozenset(folded_words))
    all_capitals = text.isupper()

    def is_content_word(word: str, folded: str) -> bool:
        if len(word) == 2 and word.isupper() and not all_capitals:  # IT, US
            return folded not in REQUEST_WORDS
        forms = {folded, folded.replace("'", ""), folded.split("'")[0], folded.removesuffix("n't")}
        return _is_long_enough(word) and forms.isdisjoint(function_words) and forms.isdisjoint(REQUEST_WORDS)

    pairs = zip(all_words, folded_words, strict=True)
    return [word for word, folded in pairs if is_content_word(word, folded)]


@lru_cache(maxsize=1 << 14)
def extract_stems(text: str) -> frozenset[str]:
    """Extract the stems by which words or texts are compared; several for a compound."""
    return frozenset(extract_terms(text, language="en"))


def select_expansion_terms(query: str, texts: Sequence[str], *, max_terms: int = 5) -> list[str]:
    """Select the words of the texts that are likely in an answer and not in the query, best first.

    A relevance model (Lavrenko and Croft 2001, RM1): P(w|R) = Σ P(d|q) · tf(w, d) / |d|. The texts come best first, so
    P(d|q) is taken as the share of the query's terms in d over its rank. A word must be in at least two texts.
    """
    query_stems = extract_stems(query)
    weights: dict[str, float] = defaultdict(float)
    document_counts: Counter[str] = Counter()
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for rank, text in enumerate(texts, 1):
        relevance = len(query_stems & extract_stems(text)) / max(1, len(query_stems)) / rank
        content = extract_content_words(text)
        stemmed = [(word, min(extract_stems(word), default="")) for word in content if not word.isdigit()]
        for word, stem in stemmed:
            weights[stem] += relevance / len(content)
            spellings[stem][word] += 1
        document_counts.update({stem for _, stem in stemmed})
    shared = [stem for stem, count in document_counts.items() if count > 1 and weights[stem] > 0]
    candidates = [stem for stem in shared if stem not in query_stems]
    best = sorted(candidates, key=lambda stem: (-weights[stem], stem))[:max_terms]
    return [spellings[stem].most_common(1)[0][0] for stem in best]


def _is_long_enough(word: str) -> bool:
    """Return whether the word has three letters, or is shorter and looks like a name: AI, 5G, C#, vitamin C.

    In a script without spaces, one letter or two are a word: 旅費.
    """
    if UNSPACED_RUN.fullmatch(word):
        return True
    if len(word) == 1:
        return word.isupper() and word not in "AI"
    return len(word) > 2 or (not word.isdigit() and (word.isupper() or not word.isalpha()))


def _select_function_words(words: frozenset[str]) -> frozenset[str]:
    """Return the function words of English and of the likely language of the words."""
    counts = {code: len(words & stop_words) for code, stop_words in STOP_WORDS.items()}
    likely = [code for code, count in counts.items() if code in FUNCTION_WORDS or count >= _MIN_STOP_WORDS]
    return FUNCTION_WORDS["en"] | STOP_WORDS[max(likely, key=counts.__getitem__)]
