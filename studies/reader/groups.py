"""`python -m studies.reader.groups --part NAME --out FILE`: questions with what `ask` would read for each.

A group is a question with the chunks that a search finds and the parts of their passages, each marked as evidence or
not. The chunks of the question's own context are added where the search misses them: many a question is clear only to
those who know which context is meant. `--part sample` makes the groups of `examples/`, which is never trained on.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from clew import Document, Engine, Filter, Message, Settings
from clew.core.filter import EVERYTHING
from clew.core.settings import EmbedderConfig, IngestionConfig, SearchConfig
from clew.core.thread import Thread
from clew.engine.answer import find_context, join_turns, shape_context
from clew.query.answer.passages import number_passages
from clew.query.answer.quote import list_parts
from clew.query.search.find import build_query
from studies.answers import load_questions
from studies.handbook import EXAMPLES
from studies.reader.written import DEVELOPMENT, KEPT, TEST, TRAINED, WrittenContext, load_written

HITS, OWN_HITS = 6, 4  # that are searched, and those of a question's own context that are added
_SPOKEN = re.compile(r"^\[[\d :-]+\] [^:]+: ")


@dataclass(frozen=True, slots=True)
class GroupPart:
    """A part of a passage as it is read, and whether it is evidence."""

    text: str
    is_evidence: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A question, whether the collection answers it, the chunks that are read, and their parts."""

    set: str
    id: str
    question: str
    is_answerable: bool
    chunks: tuple[tuple[str, bool], ...]
    parts: tuple[GroupPart, ...]
    quote: str = ""  # what answers, word for word


def make_group(
    engine: Engine,
    question: str,
    quotes: Iterable[str],
    *,
    name: str,
    id_: str,
    own: Filter = EVERYTHING,
    before: str = "",
) -> Group:
    """The group of a question, which these quotes answer.

    `own` selects the context whose chunks are added, `before` is the question that a follow-up leans on.
    """
    history = (Message(before),) if before else ()
    wanted = [quote for quote in quotes if quote]
    settings = shape_context(engine.settings, tokens=None)
    chunks: dict[str, bool] = {}
    parts: dict[str, bool] = {}
    for where, count in ((EVERYTHING, HITS), (own, OWN_HITS)):
        query = engine.opened.finder.understand(build_query(question, count, where, history, settings), settings)
        context = find_context(engine.opened, query, "hybrid", settings, turns=join_turns(query)).context
        for passage in number_passages(context, engine.opened.store.document):
            known = {hit.chunk.index_text: hit.chunk.text for hit in passage.passage.chunks if hit.relevance >= 0}
            chunks |= {text: any(quote in own_text for quote in wanted) for text, own_text in known.items()}
            parts |= {
                part.text: any(quote in part.text or part.text in quote for quote in wanted)
                for part in list_parts(passage)
            }
    rows = tuple(GroupPart(text, good) for text, good in parts.items())
    read, quote = join_turns(query) or question, "".join(wanted[:1])
    return Group(name, id_, read, bool(wanted), tuple(chunks.items()), rows, quote)


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


def list_written_groups(contexts: Iterable[WrittenContext], settings: Settings) -> Iterator[Group]:
    """The groups of all questions and near misses of contexts, which make one collection."""
    with Engine.open(":memory:", settings=settings) as engine:
        documents = {each.id: (each, make_document(each)) for each in contexts}
        engine.add_documents(document for _, document in documents.values())
        for context, document in documents.values():
            own = Filter(documents=frozenset({document.id}))
            for place, (question, spoken) in enumerate(context.questions):
                quote = _SPOKEN.sub("", spoken)
                if quote not in document.text:
                    raise ValueError(f"{context.id}: {quote!r} is not in the document")
                yield make_group(engine, question, [quote], name=context.kind, id_=f"{context.id}?{place}", own=own)
            for place, question in enumerate(context.near_misses):
                yield make_group(engine, question, (), name=context.kind, id_=f"{context.id}!{place}", own=own)
            for place, (first, second, spoken) in enumerate(context.follow_ups):
                name, quotes = f"{context.kind}, follow-up", [_SPOKEN.sub("", spoken)]
                id_ = f"{context.id}?&{place}"
                yield make_group(engine, second, quotes, name=name, id_=id_, own=own, before=first)


def list_sample_groups(examples: Path, settings: Settings) -> Iterator[Group]:
    """The groups of the sample's questions."""
    with Engine.open(":memory:", settings=settings) as engine:
        engine.add(examples / "handbook", examples / "chat")
        for asked in load_questions(examples):
            quotes = asked.message_quote, asked.page_quote
            yield make_group(engine, asked.text, quotes, name=f"{asked.half}/{asked.slice}", id_=asked.id)


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
    parser.add_argument("--part", choices=(*TRAINED, *KEPT, DEVELOPMENT, TEST, "sample"), required=True)
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
