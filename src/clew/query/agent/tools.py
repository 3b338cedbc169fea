"""The tools of an agent over one collection: searches, and documents read whole or for quotes.

They know of no model: each takes plain words, gives a Result whose text is marked as data, and raises a ClewError that
says what to do. A document keeps its number over all of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from clew.core.errors import NotFound, SettingsError
from clew.core.thread import KIND
from clew.core.trace import Trace
from clew.core.types import Chunk, Context, Document, DocumentRecord, Filter, Hit, MergedChunk
from clew.query.agent.lookup import by_title, name_of
from clew.query.agent.reader import Reading, checked_text
from clew.query.agent.steps import watched
from clew.query.answer.passages import Shown, Span, shown_in
from clew.query.context.format import wrapped
from clew.query.context.format.quote import one_line, tag_quoted
from clew.query.context.format.renderers import BASE_LINES
from clew.query.context.session import Sessions

DATA = "knowledge_base"
WHOLE = "document"
REFLECTION = "reflection"
MOST = 50  # hits that one search may give
TALK = 10  # messages that a search of conversations gives: they are short


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool found: the text for a model, how much it is, and what it lets an answer rest on."""

    text: str
    count: int
    shown: tuple[Shown, ...] = ()
    context: Context | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """What the tools are made from: searches by strategy and filter, and the documents of the collection."""

    search: Callable[[str, int, str, Filter], Context]
    records: Callable[[Filter], Iterable[DocumentRecord]]
    read: Callable[[str], Document]
    chunks: Callable[[str], Sequence[Chunk]]
    quotes: Callable[[Document, str], Reading]
    channels: Callable[[str], bool]  # whether there is such a one
    sessions: Sessions
    session: str
    where: Filter
    plain: str  # the strategy of a plain search
    window: int  # characters of a document that may be shown at once


class Toolbox:
    """The tools, by the names that a model calls them."""

    def __init__(self, sources: Sources) -> None:
        self._from = sources

    def search_knowledge_base(self, query: str, limit: int = 5) -> Result:
        """Search documents and conversations for a plain, factual question. The default: fast and reliable."""
        return self._search(query, limit, self._from.plain)

    def search_with_multi_query(self, query: str, limit: int = 5) -> Result:
        """Search with several wordings at once, for a broad question or one that may mean several things."""
        return self._search(query, limit, "multi_query")

    def search_with_reranking(self, query: str, limit: int = 5) -> Result:
        """Search with the greatest precision, for legal, medical or financial questions."""
        return self._search(query, limit, "rerank")

    def search_with_self_reflection(self, query: str, limit: int = 5) -> Result:
        """Search, grade what was found, and search again if it is wanting: for complex research questions."""
        return self._search(query, limit, "self_reflective")

    def search_conversations(self, query: str, channel: str | None = None) -> Result:
        """Search messages alone, of one channel if it is named: who said what, when."""
        where = self._from.where
        if where.kinds and KIND not in where.kinds:
            return Result("Nothing found: conversations are not among what may be searched here.", 0)
        name = self._channel(channel) if channel else None
        only = replace(where, kinds={KIND}, channels={name} if name else where.channels)
        return self._search(query, TALK, self._from.plain, only, said=True)

    def retrieve_full_document(self, title: str) -> Result:
        """Get a whole document by its title or file name, when parts of it do not tell enough."""
        record = by_title(title, self._from.records(self._from.where))
        document = self._from.read(record.id)
        text = checked_text(document)
        number = self._numbered(record)
        end = min(len(text), self._from.window)
        rest = f"\nThese are the first {end} of {len(text)} characters; read_document({number}, …) reads them all."
        head = f"[{number}] {one_line(name_of(record))}"
        inside = wrapped(f"{head}\n\n{text[:end]}", WHOLE, "xml")
        return Result(inside + (rest if end < len(text) else ""), 1, (self._resting(record, number, [(0, end)]),))

    def read_document(self, documentIndex: int, query: str) -> Result:  # noqa: N803 (the documented name)
        """Read a document, by the number it is shown with, for what it says on a question: quotes, word for word.

        Call it for EVERY new question about a document.
        """
        record, document = self.document(documentIndex)
        reading = self._from.quotes(document, query)
        notes = "".join(f"\n({one_line(note)})" for note in reading.notes)
        if not reading.quotes:
            return Result(f"Document {documentIndex} says nothing on this.{notes}", 0)
        head = f"[{documentIndex}] {tag_quoted(reading.document_name, 'CONTENT')}"
        shown = self._resting(record, documentIndex, reading.quotes)
        return Result(f"{head}\n{reading.relevant_content}{notes}", len(reading.quotes), (shown,))

    def document(self, number: int) -> tuple[DocumentRecord, Document]:
        """The document of a number, within what may be searched; NotFound where there is none or no text."""
        missing = NotFound(f"Document {number} not found")
        doc_id = self._from.sessions.get_knowledge_source_id_by_index(self._from.session, number)
        where = self._from.where
        if doc_id is None or (where.documents and doc_id not in where.documents):
            raise missing
        record = next(iter(self._from.records(replace(where, documents={doc_id}))), None)
        if record is None:  # dropped since it was shown, or not admitted
            raise missing
        document = self._from.read(doc_id)
        checked_text(document)
        return record, document

    # -- inside

    def _channel(self, said: str) -> str:
        """The channel of a name, also after a #, within what may be searched; NotFound where there is none."""
        admitted = self._from.where.channels
        for name in (said, said.removeprefix("#")):
            if name and (not admitted or name in admitted) and self._from.channels(name):
                return name
        raise NotFound(f"there is no channel {one_line(said)!r}; leave it out to search all of them")

    def _search(
        self, query: str, limit: int, strategy: str, where: Filter | None = None, *, said: bool = False
    ) -> Result:
        if not 1 <= limit <= MOST:
            raise SettingsError(f"limit is {limit}; it must be between 1 and {MOST}")
        with watched("find") as trace:
            context = self._from.search(query, limit, strategy, where or self._from.where)
            trace.set_output(context.passages)
        reflection = _reflection(trace)
        if not context.passages:
            return Result(f"{reflection}Nothing found: {context.reason or 'nothing matches'}.", 0, context=context)
        shown = tuple(
            replace(each, number=context.numbers[each.record.id])
            for each in shown_in(context, self._from.read)
            if each.record.id in context.numbers
        )
        text = wrapped(_with_speakers(context), DATA, "xml") if said else context.text
        return Result(reflection + text, sum(len(each.chunks) for each in context.passages), shown, context)

    def _numbered(self, record: DocumentRecord) -> int:
        numbers = self._from.sessions.set_document_index(self._from.session, [record.id])
        if record.id not in numbers:
            raise SettingsError("this conversation has too many documents already; begin another (session.documents)")
        return numbers[record.id]

    def _resting(self, record: DocumentRecord, number: int, spans: Sequence[Span]) -> Shown:
        """The stretches of a document as something that can be cited."""
        text = self._from.read(record.id).text
        hits = tuple(Hit(chunk, 1.0) for chunk in self._from.chunks(record.id))
        within = tuple(
            hit for hit in hits if any(hit.chunk.start < high and low < hit.chunk.end for low, high in spans)
        )
        source = record.uri or name_of(record)
        length = sum(high - low for low, high in spans)
        joined = "\n".join(text[low:high] for low, high in spans)
        passage = MergedChunk(joined, source, (), "", within or hits, 1.0, length, tuple(spans))
        return Shown(number, passage, record, tuple((low, text[low:high]) for low, high in spans))


def _reflection(trace: Trace) -> str:
    """The grades of a search that judges itself; nothing for any other."""
    rounds = [each for each in _all(trace) if each.name == "reflect"]
    lines = [
        f"{n}. {one_line(each.notes['query'])!r}: grade {each.notes['grade']} of 5" for n, each in enumerate(rounds, 1)
    ]
    return f"{wrapped(chr(10).join(lines), REFLECTION, 'xml')}\n" if rounds else ""


def _all(trace: Trace) -> Iterable[Trace]:
    for each in trace.steps:
        yield each
        yield from _all(each)


def _with_speakers(context: Context) -> str:
    """The passages under the numbers of their documents, each chunk after who said it and when."""
    parts: list[str] = []
    for passage in context.passages:
        number = context.numbers.get(passage.chunks[0].chunk.doc_id, 0)
        lines = [f"### [{number}] {one_line(passage.source)}"]
        for hit in passage.chunks:
            at = f"{hit.chunk.at:%Y-%m-%d %H:%M}" if hit.chunk.at else ""
            who = ", ".join(filter(None, (one_line(hit.chunk.meta.get("author", "")), at)))
            lines.append(BASE_LINES.quoted(f"{who}: {hit.chunk.text.strip()}" if who else hit.chunk.text.strip()))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
