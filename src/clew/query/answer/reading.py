"""What a verifier says of a sentence that a model wrote, and whether it can read the sentence at all.

Of long or of several passages it is given the sentences that share the most terms with what is claimed, in their order
and under their headings: a sentence of an answer often draws on several places, and what lies between them only
distracts (`studies.support`). What they leave open may still follow from the whole, which is then read, in overlapping
parts if need be.
"""

from collections import Counter
from collections.abc import Sequence, Set

from clew.core.answer import SupportVerdict
from clew.core.languages import FUNCTION_WORDS
from clew.core.protocols import Verifier
from clew.core.sentences import split_sentences
from clew.core.text import extract_terms, tokenize_words
from clew.query.answer.passages import NumberedPassage
from clew.query.answer.rates import normalize_amounts

MAX_SENTENCES = 8  # that are read together
MIN_OPEN = 0.4  # the chance from which on the whole is read too: where the nearest sentences say no, that stands
_LATIN_END = "ɏ"  # letters above are of other scripts
_MARGIN = 2  # function words by which a language must lead


def can_read(languages: Set[str], text: str) -> bool:
    """Whether a text is in one of the languages, as far as its letters and function words tell."""
    letters = [sign for sign in text if sign.isalpha()]
    if not letters:
        return False
    if 2 * sum(sign > _LATIN_END for sign in letters) > len(letters):
        return False
    votes: Counter[str] = Counter()
    for word in tokenize_words(text):
        votes.update(code for code, words in FUNCTION_WORDS.items() if word in words)
    known = max((votes[code] for code in languages), default=0)
    return all(votes[code] < known + _MARGIN for code in votes)


def stands_verbatim(body: str, cited: Sequence[NumberedPassage]) -> bool:
    """Whether a sentence stands word for word in one of the passages, with its negations; nothing need then be read."""
    spans = [(each, span) for each in cited if (span := each.find_quote(body.strip()))]
    return any(not each.omits_negation(span) for each, span in spans)


def read_support(verifier: Verifier, body: str, cited: Sequence[NumberedPassage]) -> tuple[SupportVerdict, float]:
    """Whether the passages together support a sentence, as far as the verifier can tell, and its chance of that."""
    body, gathered, whole = map(  # abbreviations such as "pcm" are written in full
        normalize_amounts, (body, gather_evidence(body, cited), "\n\n".join(map(_write_passage, cited)))
    )
    chance = verifier.support([(gathered, body)])[0]
    verdict = verifier.judge(chance)
    if verdict != "supported" and chance >= MIN_OPEN and gathered != whole:
        again = verifier.support([(whole, body)])[0]
        if verifier.judge(again) == "supported":
            return "supported", again
    return verdict, chance


def gather_evidence(body: str, cited: Sequence[NumberedPassage]) -> str:
    """The sentences of the passages that share the most terms with a sentence, in order, under their headings."""
    texts = [each.text_with_authors for each in cited]
    spans = [(at, low, high) for at, text in enumerate(texts) for low, high in split_sentences(text)]
    if len(spans) <= MAX_SENTENCES:
        return "\n\n".join(map(_write_passage, cited))
    wanted = extract_terms(body).keys()
    shared = [len(wanted & extract_terms(texts[at][low:high]).keys()) for at, low, high in spans]
    best = sorted(sorted(range(len(spans)), key=lambda place: -shared[place])[:MAX_SENTENCES])
    parts: dict[int, list[str]] = {}
    for at, low, high in (spans[place] for place in best):
        parts.setdefault(at, []).append(texts[at][low:high])
    return "\n\n".join(_add_headings(cited[at], " ".join(found)) for at, found in parts.items())


def _write_passage(passage: NumberedPassage) -> str:
    return _add_headings(passage, passage.text_with_authors)


def _add_headings(passage: NumberedPassage, text: str) -> str:
    """A text after a line of the document's title and the headings."""
    headings = [heading for hit in passage.passage.chunks for heading in hit.chunk.headings]
    line = " > ".join(filter(None, dict.fromkeys([passage.record.title, *headings])))
    return f"{line}\n{text}" if line else text
