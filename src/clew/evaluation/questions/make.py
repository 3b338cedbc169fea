"""Questions made from the collection itself: of its headings, titles and replies, by a language model, or of feedback.

Each but those of feedback is kept with the span that answers it. They rank strategies roughly as people's questions do
and are easier: use them where there are no others, and mix in your own.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from clew.core.errors import NotFound, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.protocols import LLM, LLMFailure
from clew.core.report import OnProgress, Progress
from clew.core.text import extract_terms, tokenize_words
from clew.core.thread import THREAD_KIND
from clew.core.types import Document
from clew.engine import Engine
from clew.engine.opened import check_positive_count
from clew.evaluation.questions.feedback import make_from_feedback
from clew.evaluation.questions.judged import Evidence, JudgedQuestion
from clew.evaluation.questions.leakage import drop_duplicates, is_leaking
from clew.evaluation.questions.phrase import phrase_heading, says_something

QuestionSource = Literal["headings", "titles", "replies", "model", "feedback"]
SOURCES: Final = ("headings", "titles", "replies", "model", "feedback")
NO_QUESTIONS: Final = (
    "no question could be made: there are no headings, titles or replies that ask enough, or no document that users "
    "found good"
)
MAX_EVIDENCE = 600  # characters: what stands under a heading begins with what it says
MIN_EVIDENCE = 80
MIN_WORDS = 2  # of a heading or title that asks for something
MIN_REPLY_WORDS = 4
MIN_ASKED_WORDS = 4  # of a message that asks
_ASKING = re.compile(r"\w[)\]`*_]*\?(?:[\s?!)]|$)")  # the end of a sentence, not of what is quoted
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
    """Questions with the spans that answer them, made from the documents that the filter admits, at most so many.

    The sources are headings, titles, replies (questions in threads and what was answered) and the language model; by
    default the model, if the engine has one, else the other three. Questions that repeat their evidence word for word
    are left out, and those that ask the same. The same collection and seed give the same questions.

    The source feedback takes what users asked, with the documents that they found good and those that they did not;
    `feedback` are their judgements, objects with question, good and documents, as a server keeps them.
    """
    count = check_positive_count("count", count)
    llm = engine.opened.llm
    chosen = tuple(sources) or (("model",) if llm else ("headings", "titles", "replies"))
    for source in chosen:
        if source not in SOURCES:
            raise SettingsError(f"there is no source {source!r}; there are {', '.join(SOURCES)}")
    if "model" in chosen and llm is None:
        raise SettingsError("the source model needs a language model; name one (llm.name, --llm), or other sources")
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
    """A question for each heading with text below it, with what stands above where it says little by itself."""
    if document.kind == THREAD_KIND:
        return
    for place, section in enumerate(document.sections):
        span = _find_body(document, section.start, section.end, section.label)
        if section.label == document.title or span is None or not says_something(section.label):
            continue
        path = document.heading_path(place)
        above = [each for each in (document.title, *path[:-1]) if each != section.label]
        both = extract_terms(f"{above[-1] if above else ''}: {section.label}").keys()
        if not above or both - extract_terms(above[-1]).keys():  # “How” asks for nothing
            yield from _ask_for(section.label, above[-1] if above else "", document, span)


def make_from_titles(document: Document) -> Iterator[JudgedQuestion]:
    """The title of a page as a question; what its text begins with answers it."""
    span = _find_body(document, 0, len(document.text), document.title)
    if document.kind != THREAD_KIND and span is not None and says_something(document.title):
        yield from _ask_for(document.title, "", document, span)


def _ask_for(heading: str, above: str, document: Document, span: tuple[int, int]) -> Iterator[JudgedQuestion]:
    """The question that a heading asks, unless what stands below repeats the heading."""
    body = document.text[span[0] : span[1]]
    if not is_leaking(heading, body):
        yield from _judge(phrase_heading(heading, above, document.text), document, span)


def make_from_replies(document: Document) -> Iterator[JudgedQuestion]:
    """The questions that were asked in a thread, each with the first reply of somebody else."""
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


def _ask_model(
    llm: LLM, documents: Sequence[Document], count: int, seed: int, on_progress: OnProgress | None
) -> Iterator[JudgedQuestion]:
    """The questions that a model writes for passages of the documents, drawn at random."""
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
    """The text below a heading: without the line of the heading itself, cut after so many characters at a line or
    sentence; None if there is little."""
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
    """So many of the questions, drawn at random, in their order."""
    return [questions[at] for at in sorted(random.Random(seed).sample(range(len(questions)), count))]


def _name_documents(question: JudgedQuestion, uris: dict[str, str]) -> JudgedQuestion:
    """The question with addresses in place of ids, which say more to a reader."""
    evidence = tuple(Evidence(uris[each.document], each.quote, each.start, each.end) for each in question.evidence)
    relevant = {uris[name]: grade for name, grade in question.relevant.items()}
    return replace(question, relevant=relevant, evidence=evidence)
