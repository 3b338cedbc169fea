"""Erasure: select documents and messages, find quotes of their text elsewhere, and keep a journal to resume from."""

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from string import punctuation
from typing import Any

from clew.core.errors import NotFound
from clew.core.filter import Filter
from clew.core.protocols import WritableStore
from clew.core.text import tokenize_words
from clew.core.thread import get_message_text, is_thread, make_first_chunk_id
from clew.core.types import Document
from clew.index.add.context import IngestContext
from clew.index.add.ingest import drop_messages
from clew.index.read.sections import get_source_uri

MIN_WORD = 8  # characters of a word that can betray an erased text by itself
PHRASE, QUOTE = 4, 6  # words in a row that betray an erased text; that make another text count as quoting it
MAX_PIECES = 2_000_000  # above it, a sample is kept
MAX_ATTEMPTS = 20  # to change a thread that others write to at the same time


@dataclass(frozen=True, slots=True)
class Selection:
    """The ids of whole documents to erase, and of single messages by thread id."""

    documents: tuple[str, ...] = ()
    messages: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.documents or self.messages)


def select_author(store: WritableStore, author: str) -> Selection:
    """Select the messages of an author in all threads, and the documents whose meta names the author."""
    documents: list[str] = []
    messages: dict[str, frozenset[str]] = {}
    for record in list(store.documents()):
        document = store.document(record.id)
        if author in flatten_texts(record.meta.get("author")) and not is_thread(document):
            documents.append(record.id)
            continue
        ids = frozenset(section.id for section in document.sections if section.author == author and section.id)
        if ids and len(ids) == len(document.sections):
            documents.append(record.id)
        elif ids:
            messages[record.id] = ids
    return Selection(tuple(documents), messages)


def select_channel(store: WritableStore, channel: str) -> Selection:
    """Select the threads of a channel, and the documents whose meta names it."""
    named = store.documents(Filter(channels=frozenset({channel})))
    # Compare the exact name: a filter also takes `#ops` for `ops`, and an erasure cannot be undone.
    return Selection(tuple(each.id for each in named if channel in flatten_texts(each.meta.get("channel"))))


def list_authors(store: WritableStore) -> set[str]:
    """List the authors of messages and documents."""
    names: set[str] = set()
    for record in list(store.documents()):
        names.update(flatten_texts(record.meta.get("author")))
        names.update(section.author for section in store.document(record.id).sections)
    return names - {""}


def flatten_texts(value: Any) -> list[str]:
    """List all texts nested in a value of meta or parsed JSON."""
    if isinstance(value, Mapping):
        return [text for member in value.values() for text in flatten_texts(member)]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for member in value for text in flatten_texts(member)]
    return [value] if isinstance(value, str) else []


@dataclass(frozen=True, slots=True)
class Journal:
    """An erasure in progress: its selector, time, documents, messages and counts.

    message_ids: The ids of all erased messages, including those of whole threads.
    uris: The uris of documents that are not threads; for a section, the uri of its source.
    jobs: Jobs that quote erased text and are still running.
    counts: By the field names of the receipt.
    """

    selector: str
    at: str
    author: str = ""
    documents: tuple[str, ...] = ()
    messages: Mapping[str, frozenset[str]] = field(default_factory=dict)
    message_ids: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()
    quoted_by: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def selection(self) -> Selection:
        """The documents and messages to erase."""
        return Selection(self.documents, self.messages)

    def to_text(self) -> str:
        """Pack the journal for the store, compressed so that its names cannot be found in the store's bytes."""
        text = json.dumps(asdict(self), default=sorted)
        return base64.b64encode(zlib.compress(text.encode())).decode()


def parse_journal(text: str) -> Journal:
    """Parse a journal written by `to_text`."""
    stored: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    known = {each.name: stored[each.name] for each in fields(Journal) if each.name in stored}
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    values["messages"] = {doc_id: frozenset(ids) for doc_id, ids in stored["messages"].items()}
    return Journal(**values)


def make_journal(store: WritableStore, selection: Selection, *, selector: str, at: str, author: str) -> Journal:
    """Make the journal of a selection, counting its contents."""
    message_ids: list[str] = []
    uris: list[str] = []
    counts = Counter(chunks=0, vectors=0, postings=0, summaries=0)
    for stored in store.stored_documents([*selection.documents, *selection.messages]):
        document = stored.document
        ids = selection.messages.get(document.id)
        if is_thread(document):
            message_ids += [section.id for section in document.sections if ids is None or section.id in ids]
        elif uri := get_source_uri(document):
            uris.append(uri)
        erased = [
            terms
            for chunk, terms in zip(stored.chunks, stored.terms, strict=True)
            if ids is None or chunk.meta.get("message") in ids
        ]
        counts["chunks"] += len(erased)
        counts["vectors"] += len(erased) + (stored.summary_vector is not None)
        counts["postings"] += sum(len(terms.hashes) for terms in erased)
        counts["summaries"] += bool(document.summary)
    return Journal(
        selector,
        at,
        author,
        selection.documents,
        selection.messages,
        tuple(message_ids),
        tuple(dict.fromkeys(uris)),
        counts=dict(counts),
    )


def join_journals(first: Journal, second: Journal) -> Journal:
    """Join the journals of two erasures; the second may be the rest of the first."""
    is_same = first.selector == second.selector
    documents = _join(first.documents, second.documents)
    messages = {
        doc_id: first.messages.get(doc_id, frozenset()) | second.messages.get(doc_id, frozenset())
        for doc_id in _join(tuple(first.messages), tuple(second.messages))
        if doc_id not in documents
    }
    ours, others = Counter(first.counts), Counter(second.counts)
    return replace(
        second,
        selector=first.selector if is_same else f"{first.selector}; {second.selector}",
        author=second.author or first.author,
        documents=documents,
        messages=messages,
        message_ids=_join(first.message_ids, second.message_ids),
        uris=_join(first.uris, second.uris),
        quoted_by=_join(first.quoted_by, second.quoted_by),
        jobs=_join(first.jobs, second.jobs),
        counts=dict(ours | others if is_same else ours + others),
    )


def _join(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*first, *second]))


class Quotes:
    """The long words and the phrases of erased texts, as hashes in memory."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._pieces: set[int] = set()
        self._quotes: set[int] = set()
        self._step = 1
        for text in texts:
            self._pieces.update(self._sample(_hash_pieces(text)))
            self._quotes.update(self._sample(_hash_runs(tokenize_words(text), QUOTE)))
            while len(self._pieces) > MAX_PIECES:
                self._step *= 2
                self._pieces, self._quotes = set(self._sample(self._pieces)), set(self._sample(self._quotes))

    def forget(self, text: str) -> None:
        """Remove the words and phrases of a remaining text: they do not betray the erased text."""
        self._pieces.difference_update(_hash_pieces(text))

    def are_in(self, text: str) -> bool:
        """Return whether a text has a word or phrase that only erased texts had."""
        return not self._pieces.isdisjoint(_hash_pieces(text))

    def are_cited_in(self, text: str) -> bool:
        """Return whether a text shares QUOTE words in a row with an erased text."""
        return not self._quotes.isdisjoint(_hash_runs(tokenize_words(text), QUOTE))

    def are_in_json(self, lines: str) -> bool:
        """Return whether a text in lines of JSON has such a word or phrase; a line that is not JSON is a text."""
        return any(self.are_in(text) for line in lines.split("\n") for text in _list_values(line))

    def _sample(self, hashes: Iterable[int]) -> Iterator[int]:
        return (each for each in hashes if each % self._step == 0)


def collect_quotes(store: WritableStore, selection: Selection, names: Iterable[str]) -> Quotes:
    """Collect the words and phrases of erased names, and of a selection as far as it is still stored."""
    return Quotes(chain(names, _list_texts(store, selection)))


def list_quoting(store: WritableStore, selection: Selection, quotes: Quotes) -> tuple[str, ...]:
    """List the remaining documents and messages that quote erased texts; remove words from `quotes` that they use."""
    quoting: list[str] = []
    gone = set(selection.documents)
    for record in list(store.documents()):
        if record.id in gone:
            continue
        document = store.document(record.id)
        erased = selection.messages.get(record.id, frozenset())
        for name, text in _list_parts(document):
            if name not in erased:
                quotes.forget(text)
                if quotes.are_cited_in(text):
                    quoting.append(name)
        for name, text in _list_records(document, is_whole=not erased):
            if name not in erased:
                quotes.forget(text)
    return tuple(quoting)


def list_naming(store: WritableStore, author: str) -> tuple[str, ...]:
    """List the documents and messages that name an author in their text or metadata."""
    if not author:
        return ()
    in_text = re.compile(rf"(?<!\w){re.escape(author)}(?!\w)", re.IGNORECASE)
    in_record = re.compile(rf"(?<![^\W_]){re.escape(author)}(?![^\W_])", re.IGNORECASE)
    naming: dict[str, None] = {}
    for record in list(store.documents()):
        document = store.document(record.id)
        naming.update((name, None) for name, text in _list_parts(document) if in_text.search(text))
        naming.update((name, None) for name, text in _list_records(document) if in_record.search(text))
    return tuple(naming)


def _list_texts(store: WritableStore, selection: Selection) -> Iterator[str]:
    """List every text of a selection: text, metadata and chunk contexts.

    Summaries are left out, since they may quote sentences of others.
    """
    for stored in store.stored_documents([*selection.documents, *selection.messages]):
        document = stored.document
        ids = selection.messages.get(document.id)
        if ids is None:
            yield from (document.id, document.text, document.title, document.uri, *flatten_texts(document.meta))
            yield from (chunk.context for chunk in stored.chunks)
            yield from (text for section in document.sections for text in (section.id, section.author, section.label))
        else:
            for section in document.sections:
                if section.id in ids:
                    yield from (section.id, get_message_text(document, section))


def _list_parts(document: Document) -> list[tuple[str, str]]:
    """List the messages of a thread with their ids, or the text of another document with its uri or id."""
    if is_thread(document):
        return [(section.id, get_message_text(document, section)) for section in document.sections]
    return [(document.uri or document.id, document.text)]


def _list_records(document: Document, *, is_whole: bool = True) -> Iterator[tuple[str, str]]:
    """List the metadata of a document with its uri or id, and of the messages of a thread with their ids.

    Without `is_whole`, leave out the title and summary, which may be made of erased messages.
    """
    name = document.uri or document.id
    made = [document.title, document.summary] if is_whole else []
    yield name, "\n".join([document.id, document.uri, str(document.meta), *sorted(document.access or ()), *made])
    for section in document.sections:
        texts = (section.id, section.author, section.label, section.awaits or "", *sorted(section.access or ()))
        yield section.id if is_thread(document) else name, "\n".join(texts)


def _list_values(line: str) -> list[str]:
    """List the texts in a line of JSON, or the line itself if it is not JSON."""
    try:
        return flatten_texts(json.loads(line))
    except ValueError:
        return [line]


def _hash_pieces(text: str) -> Iterator[int]:
    """Hash the long words (also with inner punctuation) and the phrases of a text."""
    words = tokenize_words(text)
    whole = (word.strip(punctuation) for word in text.casefold().split())
    yield from (hash(word) for word in chain(words, whole) if len(word) >= MIN_WORD)
    yield from _hash_runs(words, PHRASE)


def _hash_runs(words: list[str], size: int) -> Iterator[int]:
    return map(hash, zip(*(words[at:] for at in range(size)), strict=False))


def remove_selection(context: IngestContext, selection: Selection) -> int:
    """Remove a selection; return how many remaining chunks got another context."""
    store = context.store
    store.drop(list(selection.documents))
    return sum(_remove_messages(context, doc_id, ids) for doc_id, ids in selection.messages.items())


def _remove_messages(context: IngestContext, doc_id: str, ids: frozenset[str]) -> int:
    """Remove messages from a thread, with its summary; return how many other chunks got another context."""
    before = _read_contexts(context.store, doc_id)
    for _ in range(MAX_ATTEMPTS):
        there = context.store.chunks_by_id([make_first_chunk_id(message_id) for message_id in ids])
        left = sorted({str(chunk.meta["message"]) for chunk in there.values() if chunk.doc_id == doc_id} & ids)
        if not left:
            break
        try:
            drop_messages(context, left)
        except NotFound:  # another process has removed one of them
            continue
    after = _read_contexts(context.store, doc_id)
    return sum(before.get(chunk_id, text) != text for chunk_id, text in after.items())


def _read_contexts(store: WritableStore, doc_id: str) -> dict[str, str]:
    """Return the contexts of a document's chunks by id; empty if there is no such document."""
    try:
        return {chunk.id: chunk.context for chunk in store.chunks(doc_id)}
    except NotFound:
        return {}
