"""Questions made from the collection itself: from headings, titles and replies, by a language model, or from feedback.

All but those from feedback come with the span that answers them. They rank strategies roughly like questions of people,
but are easier: use them if you have no others, and add your own.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np

from clew.core.errors import NotFound, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.languages import detect_language
from clew.core.protocols import LLM, Embedder, LLMFailure
from clew.core.report import OnProgress, Progress
from clew.core.text import extract_terms, tokenize_words
from clew.core.thread import THREAD_KIND
from clew.core.types import Document
from clew.engine import Engine
from clew.engine.opened import check_positive_count
from clew.evaluation.questions.judged import Evidence, JudgedQuestion

QuestionSource = Literal["headings", "titles", "replies", "model", "feedback"]
SOURCES: Final = ("headings", "titles", "replies", "model", "feedback")
NO_QUESTIONS: Final = (
    "no question could be made: there are no headings, titles or replies that ask enough, or no document that users "
    "found good"
)
MAX_EVIDENCE = 600  # characters of the text below a heading: its beginning answers
MIN_EVIDENCE = 80  # characters
MIN_WORDS = 2  # terms of a question
MIN_REPLY_WORDS = 4
MIN_ASKED_WORDS = 4  # terms of a message that asks
MIN_TERMS = 3  # of a heading that names its subject without the heading above
MAX_RUN = 0.7  # share of a question's words that may occur in the evidence as one run
MIN_RUN = 4  # words; a shorter run is a name
MAX_SIMILARITY = 0.97  # cosine from which two questions are duplicates
OPENED_GRADE = 0.5  # of an opened document; one judged good has 1
FIRST_WEIGHT = 0.5  # of opening the first result, which many users open anyway; others have 1
MIN_WEIGHT = 1.0  # for openings to count: one below the first result, or two of the first
_BLOCK = 512  # questions compared at a time
_ASKING = re.compile(r"\w[)\]`*_]*\?(?:[\s?!)]|$)")  # the end of a sentence, not of a quotation
_BATCH = 16  # prompts at a time
_PROMPT = """Here is a passage of the document "{title}".

<passage>
{text}
</passage>

Write one question that a colleague could ask who does not know this document and that the passage answers. Use other
words than the passage where you can, and name what it is about. Write the question alone, or NONE if the passage
answers nothing."""


def make_questions(
    engine: Engine,
    *,
    sources: Sequence[QuestionSource] = (),
    count: int = 200,
    where: Filter = EVERYTHING,
    seed: int = 0,
    feedback: Sequence[Mapping[str, Any]] | None = None,
    on_progress: OnProgress | None = None,
) -> list[JudgedQuestion]:
    """Make questions with the spans that answer them.

    sources: headings, titles, replies (questions in threads and their answers), model (the language model) or feedback
        (questions of users). Default: model if the engine has one, else headings, titles and replies.
    count: Questions at most.
    where: The documents to make questions from.
    seed: The same collection and seed give the same questions.
    feedback: For the source feedback: the judgements of users (`Engine.list_feedback`), objects with question, good and
        documents.

    Duplicates, and questions that repeat their evidence word for word, are left out.
    """
    count = check_positive_count("count", count)
    llm = engine.opened.llm
    chosen = tuple(sources) or (("model",) if llm else ("headings", "titles", "replies"))
    for source in chosen:
        if source not in SOURCES:
            raise SettingsError(f"there is no source {source!r}; there are {', '.join(SOURCES)}")
    if "model" in chosen and llm is None:
        raise SettingsError("the source model needs a language model; name one (llm.name), or other sources")
    if "feedback" in chosen and feedback is None:
        raise SettingsError("the source feedback needs the judgements of users (feedback=…, `GET /v1/feedback`)")
    bounded = engine.within(where)
    documents = [bounded.opened.store.document(record.id) for record in bounded.list()]
    if not documents:
        raise NotFound("there are no documents to make questions from; `clew add` adds some")
    texts = {document.id: document.text for document in documents}
    made: list[JudgedQuestion] = []
    for source in chosen:
        if source == "feedback":
            made += make_from_feedback(feedback or (), texts)
        elif source == "model":
            assert llm is not None
            made += _ask_model(llm, documents, count, seed, on_progress)
        else:
            made += [replace(each, made=source) for document in documents for each in _MAKERS[source](document)]
    uris = {document.id: document.uri or document.id for document in documents}
    honest = [each for each in made if not is_leaking(each.question, _read_evidence(each, texts))]
    kept = drop_duplicates(honest, engine.opened.embedder)
    if len(kept) > count:
        kept = _spread(kept, count, seed)
    return [_name_documents(each, uris) for each in kept]


def make_from_headings(document: Document) -> Iterator[JudgedQuestion]:
    """Yield a question for each heading with text below it, naming the heading above if it says little alone."""
    if document.kind == THREAD_KIND:
        return
    for place, section in enumerate(document.sections):
        span = _find_body(document, section.start, section.end, section.label)
        if section.label == document.title or span is None or not says_something(section.label):
            continue
        path = document.heading_path(place)
        above = [each for each in (document.title, *path[:-1]) if each != section.label]
        both = extract_terms(f"{above[-1] if above else ''}: {section.label}").keys()
        if not above or both - extract_terms(above[-1]).keys():  # “How” alone asks for nothing
            yield from _ask_for(section.label, above[-1] if above else "", document, span)


def make_from_titles(document: Document) -> Iterator[JudgedQuestion]:
    """Yield the title of a page as a question, answered by the beginning of its text."""
    span = _find_body(document, 0, len(document.text), document.title)
    if document.kind != THREAD_KIND and span is not None and says_something(document.title):
        yield from _ask_for(document.title, "", document, span)


def _ask_for(heading: str, above: str, document: Document, span: tuple[int, int]) -> Iterator[JudgedQuestion]:
    """Yield the question that a heading asks, unless the text below repeats the heading."""
    body = document.text[span[0] : span[1]]
    if not is_leaking(heading, body):
        yield from _judge(phrase_heading(heading, above, document.text), document, span)


def make_from_replies(document: Document) -> Iterator[JudgedQuestion]:
    """Yield the questions asked in a thread, each answered by the first reply of another author."""
    answered: set[int] = set()
    for section in document.sections if document.kind == THREAD_KIND else ():
        parent = section.parent
        if parent is None or parent in answered:
            continue
        asked = document.sections[parent]
        question = " ".join(document.text[asked.start : asked.end].split())
        reply = document.text[section.start : section.end].rstrip()
        if asked.author == section.author or len(tokenize_words(reply)) < MIN_REPLY_WORDS:
            continue
        if (
            not _ASKING.search(question) or len(extract_terms(question)) < MIN_ASKED_WORDS
        ):  # “Which one?” says too little
            continue
        answered.add(parent)
        yield from _judge(question, document, (section.start, section.start + len(reply)))


_MAKERS: Final[dict[str, Callable[[Document], Iterator[JudgedQuestion]]]] = {
    "headings": make_from_headings,
    "titles": make_from_titles,
    "replies": make_from_replies,
}


def make_from_feedback(judgements: Sequence[Mapping[str, Any]], known: Collection[str]) -> Iterator[JudgedQuestion]:
    """Yield the questions that have a relevant document: judged good more often than bad, or opened.

    `judgements` are objects as returned by `/v1/feedback`. Questions that differ only in case and white space are one.
    Documents that are not `known`, and questions with only bad judgements, are left out.

    Opening counts less than a good judgement: the grade is half, the first result must be opened twice, and a judgement
    of the document overrides openings. An unopened result is not judged.
    """
    thumbs: dict[str, dict[str, int]] = {}
    openings: dict[str, dict[str, float]] = {}
    asked: dict[str, str] = {}
    for judgement in judgements:
        try:
            text, good, documents = judgement["question"], judgement["good"], judgement["documents"]
        except (KeyError, TypeError):
            raise SettingsError("feedback is a list of objects with question, good and documents") from None
        text = " ".join(str(text).split())
        key = text.casefold()
        asked[key] = text  # the last spelling
        votes, weights = thumbs.setdefault(key, {}), openings.setdefault(key, {})
        for document in dict.fromkeys(documents):
            if judgement.get("kind") == "opened":
                weight = 1.0 if (judgement.get("rank") or 1) > 1 else FIRST_WEIGHT
                weights[document] = weights.get(document, 0.0) + weight
            else:
                votes[document] = votes.get(document, 0) + (1 if good else -1)
    for key, text in asked.items():
        grades = {name: OPENED_GRADE for name, weight in openings[key].items() if weight >= MIN_WEIGHT}
        grades |= {name: float(count > 0) for name, count in thumbs[key].items()}
        grades = {name: grade for name, grade in grades.items() if name in known}
        if text and any(grades.values()):
            yield JudgedQuestion(text, grades)


def _ask_model(
    llm: LLM, documents: Sequence[Document], count: int, seed: int, on_progress: OnProgress | None
) -> Iterator[JudgedQuestion]:
    """Let a model write questions for random passages of the documents."""
    passages = [
        (document, span)
        for document in documents
        for section in document.sections
        if (span := _find_body(document, section.start, section.end, section.label)) is not None
    ]
    random.Random(seed).shuffle(passages)
    for start in range(0, min(len(passages), count), _BATCH):
        batch = passages[start : min(start + _BATCH, count)]
        prompts = [
            _PROMPT.format(title=document.title or document.uri, text=document.text[span[0] : span[1]])
            for document, span in batch
        ]
        for (document, span), reply in zip(batch, llm.complete_many(prompts, max_tokens=80), strict=True):
            text = "" if isinstance(reply, LLMFailure) else reply.strip().strip('"').partition("\n")[0].strip()
            if text.endswith("?"):
                yield from _judge(text, document, span)
        if on_progress:
            on_progress(Progress("asking the model", start + len(batch), min(len(passages), count), "passages"))


def _judge(text: str, document: Document, span: tuple[int, int]) -> Iterator[JudgedQuestion]:
    text = " ".join(text.split())
    if len(extract_terms(text)) >= MIN_WORDS:
        quote = document.text[span[0] : span[1]]
        evidence = Evidence(document.id, quote, *span)
        yield JudgedQuestion(text, {document.id: 1.0}, (evidence,))


def _find_body(document: Document, start: int, end: int, label: str) -> tuple[int, int] | None:
    """Find the text below a heading, up to MAX_EVIDENCE cut at a line or sentence; None if below MIN_EVIDENCE."""
    text = document.text
    start = _skip_space(text, start, end)
    line_end = text.find("\n", start, end)
    if label and line_end >= 0 and label in text[start:line_end]:
        start = _skip_space(text, line_end, end)
    end = min(end, start + MAX_EVIDENCE)
    if end < len(text):
        cut = max(text.rfind(". ", start, end) + 1, text.rfind("\n", start, end))
        end = cut if cut > start + MIN_EVIDENCE else end
    while end > start and text[end - 1].isspace():
        end -= 1
    return (start, end) if end - start >= MIN_EVIDENCE else None


def _skip_space(text: str, start: int, end: int) -> int:
    while start < end and text[start].isspace():
        start += 1
    return start


def _read_evidence(question: JudgedQuestion, texts: dict[str, str]) -> str:
    return "\n".join(texts[each.document][each.start : each.end] for each in question.evidence)


def _spread(questions: Sequence[JudgedQuestion], count: int, seed: int) -> list[JudgedQuestion]:
    """Draw a random sample of the questions, keeping their order."""
    return [questions[at] for at in sorted(random.Random(seed).sample(range(len(questions)), count))]


def _name_documents(question: JudgedQuestion, uris: dict[str, str]) -> JudgedQuestion:
    """Replace document ids by addresses, which are easier to read."""
    evidence = tuple(Evidence(uris[each.document], each.quote, each.start, each.end) for each in question.evidence)
    relevant = {uris[name]: grade for name, grade in question.relevant.items()}
    return replace(question, relevant=relevant, evidence=evidence)


def is_leaking(question: str, evidence: str) -> bool:
    """Return whether a question repeats the evidence: most of its words occur there in one run."""
    words = [word.casefold() for word in tokenize_words(question)]
    text = [word.casefold() for word in tokenize_words(evidence)]
    longest = find_longest_run(words, text)
    return longest >= MIN_RUN and longest > MAX_RUN * len(words)


def find_longest_run(words: Sequence[str], text: Sequence[str]) -> int:
    """Return the length of the longest run of words that both have."""
    longest, before = 0, [0] * (len(text) + 1)
    for word in words:
        now = [0] * (len(text) + 1)
        for at, other in enumerate(text, 1):
            if word == other:
                now[at] = before[at - 1] + 1
                longest = max(longest, now[at])
        before = now
    return longest


def drop_duplicates(questions: Sequence[JudgedQuestion], embedder: Embedder) -> list[JudgedQuestion]:
    """Drop questions with the same terms, or nearly the same vector, as an earlier one."""
    distinct: dict[frozenset[str], JudgedQuestion] = {}
    for question in questions:
        distinct.setdefault(frozenset(extract_terms(question.question)), question)
    left = list(distinct.values())
    if not left:
        return []
    vectors = embedder.embed([question.question for question in left], role="query")
    kept: list[int] = []
    for start in range(0, len(left), _BLOCK):
        block = range(start, min(start + _BLOCK, len(left)))
        near = vectors[start : block.stop] @ vectors[: block.stop].T
        for at in block:
            if not kept or float(np.max(near[at - start, kept])) < MAX_SIMILARITY:
                kept.append(at)
    return [left[at] for at in kept]


# Headings and titles phrased as questions: "Swapping" below "On-call rotation" becomes "How does swapping work in …?".
# English only: a heading in another language is used as key words.


def _list_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ASKS = _list_words(
    "how what when where which who whom whose why whether is are can may do does should must could will was were"
)
_TO = {
    "how": "How do I",
    "what": "What should I",
    "when": "When should I",
    "where": "Where do I",
    "which": "Which do I",
}
_BEFORE = _list_words("about after at before behind between by during for from if on under until when while with")
_VERBS = _list_words(
    "add adopt allow apply ask assign attach avoid become build buy cancel choose clean close collect combine "
    "compare configure connect convert create customise customize debug define delete deploy describe detect "
    "disable edit enable ensure evaluate extend fetch find fix generate get give go handle hide improve include "
    "inject inspect install integrate invite keep learn make manage measure merge migrate monitor move optimise "
    "optimize organise organize override pick prepare prevent protect provide publish reach read recover reduce "
    "register remove rename render renew replace require reset restart restore reuse rotate run save secure "
    "select send separate serve set specify submit synchronise synchronize tell understand uninstall validate "
    "verify write"
)
# These may be nouns, unless a word such as an article follows.
_NOUN_OR_VERB = _list_words(
    "access back book call change check control copy download export format help import limit list load log open "
    "order pass pay plan print query release report request return review scale schedule search share show sign "
    "start stop store stream support switch test track train transfer try turn update upgrade upload use view "
    "watch work"
)
_AFTER_VERB = _list_words("a all an any each every for from in it my on our one out the these to up with your")
_NO_GERUNDS = _list_words(
    "bring building ceiling during evening everything king meeting morning nothing offering ring something "
    "spring string thing wedding"
)
# Words of headings about the structure of a page, not its subject.
_STRUCTURE = _list_words(
    "abstract also acknowledgements acknowledgments actions appendix background basics changelog changes comments "
    "conclusion conclusions contents credits description detail details example examples faq further general "
    "index info information introduction intro links list lists misc miscellaneous more note notes other others "
    "overview preamble preface readme reading reference references related remarks resources result results see "
    "summary table terms text tips title tldr todo usage"
)
_ENGLISH = re.compile(r"[a-z']+", re.IGNORECASE)
_WORD = re.compile(r"\w+")


def says_something(heading: str) -> bool:
    """Return whether a heading names a subject to ask about: not "Overview", a version, a date or an identifier."""
    words = [word.casefold() for word in tokenize_words(heading)]
    told = [word for word in words if len(word) > 2 and word.isalpha() and word not in _STRUCTURE]
    is_code = len(heading.split()) == 1 and (heading[:1].islower() or not heading.replace("-", "").isalpha())
    return bool(told) and not is_code


def phrase_heading(heading: str, above: str, text: str) -> str:
    """Phrase an English heading as a question; in another language, return it as key words.

    The heading `above` is named if the heading says little alone. Words that `text` writes in lower case become so.
    """
    terms = extract_terms(heading).keys()
    above = above if len(terms) < MIN_TERMS and not extract_terms(above).keys() <= terms else ""
    if detect_language(f"{heading}\n{text}"[:600]) != "en" or not _ENGLISH.match(heading):
        return f"{above}: {heading}" if above else heading
    heading, *rest = heading.rstrip(" .:").partition("?")
    asked = heading + "".join(rest[:1]) if rest[0] else ""
    written = Counter(_WORD.findall(text))
    phrase, place = _write_small(heading, written), _write_small(above, written)
    suffix = f" in {place}?" if place else "?"
    if asked:
        return f"{asked[:-1]}{suffix}"
    first, _, others = phrase.partition(" ")
    word, second = first.casefold(), others.partition(" ")[0]
    if second == "to" and word in _TO:
        return f"{_TO[word]}{others[2:]}{suffix}"
    if word in _ASKS:
        return f"{first[:1].upper()}{phrase[1:]}{suffix}"
    if word.endswith("ing") and len(word) > 4 and word not in _NO_GERUNDS:
        return f"How does {_lower_first(phrase)} work{suffix}"
    if others and (word in _VERBS or (word in _NOUN_OR_VERB and second.casefold() in _AFTER_VERB)):
        return f"How do I {_lower_first(phrase)}{suffix}"
    return f"What {'happens' if word in _BEFORE else 'about'} {phrase}{suffix}"


def _write_small(phrase: str, written: Counter[str]) -> str:
    """Lower-case the words of a phrase that the text mostly writes so; names and abbreviations stay."""
    return " ".join(
        word.lower()
        if word[1:].islower() and written[word.strip(",;").lower()] >= max(1, written[word.strip(",;")])
        else word
        for word in phrase.split()
    )


def _lower_first(phrase: str) -> str:
    return phrase if phrase[:2].isupper() else phrase[:1].lower() + phrase[1:]
