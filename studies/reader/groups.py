"""`python -m studies.reader.groups --part NAME --out FILE`: questions with what `ask` would read for each.

A group is a question with the chunks that a search finds and the candidates of an answer in them, each marked as
evidence or not. The chunks of the question's own context are added where the search misses them: many a question is
clear only to those who know which context is meant. `--part sample` makes the groups of `examples/`, which is never
trained on, as it is searched.
"""

import argparse
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from clew.query.answer.candidates import Candidate, collect_candidates
from clew.query.answer.confidence import compute_margin
from clew.query.answer.extract import READ_HITS
from clew.query.answer.features import list_stated_facts

from clew import Document, Engine, Filter, Message, Settings
from clew.core.filter import EVERYTHING
from clew.core.settings import EmbedderConfig, IngestionConfig, SearchConfig
from clew.core.thread import Thread
from clew.core.types import Hit
from clew.engine.answer import build_probe, find_probe_hits
from clew.query.answer.question import names_asked_kind
from clew.query.context.cite import make_citation
from clew.query.search.find import build_query
from studies.answers import JudgedQuestion, is_evidence, load_questions
from studies.handbook import EXAMPLES
from studies.reader.written import DEVELOPMENT, TEST, TRAINED, WrittenContext, load_written

OWN_HITS = 4  # chunks of a question's own context that are added for training
_SPOKEN = re.compile(r"^\[[\d :-]+\] [^:]+: ")


@dataclass(frozen=True, slots=True)
class Part:
    """A candidate: what is read, whether it is evidence, the places of its chunk's scores, and the other features."""

    text: str
    is_evidence: bool
    chunks: tuple[int, ...]
    kind: int
    facts: int
    distance: int


@dataclass(frozen=True, slots=True)
class Group:
    """A question, whether the collection answers it, the chunks that are read, and the candidates."""

    set: str
    id: str
    question: str
    is_answerable: bool
    chunks: tuple[tuple[str, bool], ...]
    parts: tuple[Part, ...]
    margin: float
    quote: str = ""  # what answers, word for word


IsEvidence = Callable[[Candidate], bool]


def make_group(
    engine: Engine,
    question: str,
    is_right: IsEvidence,
    *,
    name: str,
    id_: str,
    own: Filter | None = None,
    quote: str = "",
) -> Group:
    """The group of a question; `own` selects the context whose chunks are added."""
    settings = engine.settings
    query = build_query(question, READ_HITS, EVERYTHING, (), settings)
    found = find_probe_hits(engine.opened, query, settings)
    probe = build_probe(engine.opened, question, found, settings)
    hits = list(found[:READ_HITS])
    if own is not None:
        near = build_query(question, OWN_HITS, own, (), settings)
        known = {hit.chunk.id for hit in hits}
        hits += [
            hit
            for hit in find_probe_hits(engine.opened, near, settings)[:OWN_HITS]
            if hit.chunk.id not in known
        ]  # fmt: skip
    candidates = collect_candidates(hits, engine.opened.store.chunks)
    stated = list_stated_facts(question, candidates)
    known_facts = set[int]().union(*stated)
    right = [is_right(each) for each in candidates]
    parts = []
    for each, facts, good in zip(candidates, stated, right, strict=True):
        kind = names_asked_kind(question, each.shown, author=str(each.hit.chunk.meta.get("author") or ""))
        parts.append(
            Part(
                each.text,
                good,
                _find_places(each, hits),
                0 if kind is None else 1 if kind else -1,
                int(bool(known_facts) and facts == known_facts),
                max(0, each.distance - 1),
            )
        )
    evidence = {each.hit.chunk.id for each, good in zip(candidates, right, strict=True) if good}
    chunks = tuple((hit.chunk.index_text, hit.chunk.id in evidence) for hit in hits)
    return Group(name, id_, question, bool(quote), chunks, tuple(parts), compute_margin(probe), quote)


def _find_places(part: Candidate, hits: Sequence[Hit]) -> tuple[int, ...]:
    chunk = part.hit.chunk
    same = [place for place, hit in enumerate(hits) if hit.chunk.id == chunk.id]
    return tuple(same or [place for place, hit in enumerate(hits) if hit.chunk.doc_id == chunk.doc_id])


def make_settings(embedder: str, cache: str) -> Settings:
    """Those of `ask` by default, with an exact search and without summaries."""
    return Settings(
        embedder=EmbedderConfig(name=embedder, cache=cache),
        ingestion=IngestionConfig(),
        search=SearchConfig(mode="exact"),
    )


def make_document(context: WrittenContext) -> Document:
    """The document of a page or of a chat."""
    if context.kind == "chat":
        channel = context.title.lstrip("#")
        messages = [
            Message(
                each.text,
                author=each.author,
                at=each.at,
                id=f"{context.id}/{place}",
                channel=channel,
                reply_to=None if each.reply_to is None else f"{context.id}/{each.reply_to}",
            )
            for place, each in enumerate(context.messages)
        ]
        return Thread(messages[0].id, channel, tuple(messages)).document()
    title, *headings = context.title.split(" > ")
    lines = [f"# {title}", *(f"{'#' * level} {text}" for level, text in enumerate(headings, 2)), context.text]
    return Document(context.id, "\n\n".join(lines), title=title, uri=f"{context.id}.md")


def list_written_groups(contexts: Sequence[WrittenContext], settings: Settings) -> Iterator[Group]:
    """The groups of all questions and near misses of contexts, which make one collection."""
    with Engine.open(":memory:", settings=settings) as engine:
        documents = {each.id: make_document(each) for each in contexts}
        engine.add_documents(documents.values())
        for context in contexts:
            document = documents[context.id]
            own = Filter(documents=frozenset({document.id}))
            for place, (question, quote) in enumerate(context.questions):
                quote = _SPOKEN.sub("", quote)
                start = document.text.find(quote)
                if start < 0:
                    raise ValueError(f"{context.id}: {quote!r} is not in the document")
                right = _make_test(document.id, start, start + len(quote))
                id_ = f"{context.id}?{place}"
                yield make_group(engine, question, right, name=context.kind, id_=id_, own=own, quote=quote)
            for place, question in enumerate(context.near_misses):
                id_ = f"{context.id}!{place}"
                yield make_group(engine, question, lambda _: False, name=context.kind, id_=id_, own=own)


def _make_test(document: str, low: int, high: int) -> IsEvidence:
    def is_right(each: Candidate) -> bool:
        shared = min(each.end, high) - max(each.start, low)
        return each.hit.chunk.doc_id == document and shared >= 0.5 * min(high - low, each.end - each.start)

    return is_right


def list_sample_groups(examples: Path, settings: Settings) -> Iterator[Group]:
    """The groups of the sample's questions."""
    with Engine.open(":memory:", settings=settings) as engine:
        engine.add(examples / "handbook", examples / "chat")
        texts = {record.id: engine.read(record.id).text for record in engine.list(Filter())}
        for question in load_questions(examples):

            def is_right(each: Candidate, question: JudgedQuestion = question) -> bool:
                chunk = each.hit.chunk
                quote = chunk.text[each.start - chunk.start : each.end - chunk.start]
                cited = make_citation(chunk, each.hit.document, each.start, quote)
                return is_evidence(question, cited, texts[chunk.doc_id])

            yield make_group(
                engine, question.text, is_right,
                name=f"{question.half}/{question.slice}", id_=question.id,
                quote=question.message_quote or question.page_quote,
            )  # fmt: skip


def write_groups(groups: Iterable[Group], out: Path) -> int:
    """Writes groups, one a line; how many."""
    lines = [json.dumps(asdict(each), ensure_ascii=False) for each in groups]
    with gzip.open(out, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines))
    return len(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the groups and prints how many."""
    parser = argparse.ArgumentParser(prog="studies.reader.groups", description="Questions with what is read for them.")
    parser.add_argument("--out", type=Path, required=True, help="the file to write, ending in .jsonl.gz")
    parser.add_argument("--part", choices=(*TRAINED, DEVELOPMENT, TEST, "sample"), required=True)
    parser.add_argument("--embedder", default="bge-small")
    parser.add_argument("--cache", default="", help="a file that caches vectors")
    given = parser.parse_args(arguments)
    settings = make_settings(given.embedder, given.cache)
    if given.part == "sample":
        groups = list_sample_groups(EXAMPLES, settings)
    else:
        groups = list_written_groups(load_written(given.part), settings)
    print(f"{write_groups(groups, given.out)} groups")


if __name__ == "__main__":
    main()
