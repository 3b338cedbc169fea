"""Who else tells what is erased: documents and messages that quote it or name its author, and texts that tell it."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from string import punctuation

from clew.core.protocols import Store
from clew.core.text import tokenize_words
from clew.core.thread import get_message_text, is_thread
from clew.core.types import Document
from clew.index.erase.select import Selection, flatten_texts

MIN_WORD = 8  # characters of a word that tells something by itself
PHRASE, QUOTE = 4, 6  # words in a row: nobody else has the first, others have the second and quote it
MAX_PIECES = 2_000_000  # of more, a sample is kept


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
        """Remove the words and phrases of a text that remains: they do not tell what was erased."""
        self._pieces.difference_update(_hash_pieces(text))

    def are_in(self, text: str) -> bool:
        """Whether a text has a word or phrase that only the erased texts had."""
        return not self._pieces.isdisjoint(_hash_pieces(text))

    def are_cited_in(self, text: str) -> bool:
        """Whether a text has a sentence, or a good part of one, of an erased text."""
        return not self._quotes.isdisjoint(_hash_runs(tokenize_words(text), QUOTE))

    def are_in_json(self, lines: str) -> bool:
        """Whether a word or phrase stands in the texts of lines of JSON; a line that is none is a text."""
        return any(self.are_in(text) for line in lines.split("\n") for text in _list_values(line))

    def _sample(self, hashes: Iterable[int]) -> Iterator[int]:
        return (each for each in hashes if each % self._step == 0)


def collect_quotes(store: Store, selection: Selection, names: Iterable[str]) -> Quotes:
    """Collect the words and phrases of a selection, as far as it is still stored, and of names that are erased."""
    return Quotes(chain(names, _list_texts(store, selection)))


def list_quoting(store: Store, selection: Selection, quotes: Quotes) -> tuple[str, ...]:
    """List the documents and messages of others that quote erased texts; forget the words that others use too."""
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


def list_naming(store: Store, author: str) -> tuple[str, ...]:
    """List the documents and messages that name an author in their text, or in what is stored about them."""
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


def _list_texts(store: Store, selection: Selection) -> Iterator[str]:
    """List every text of a selection: its own, its record, and what was written about its chunks.

    Not its summary, which may be made of the sentences of others.
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
    """The messages of a thread with their ids, or the whole of another document with its address or id."""
    if is_thread(document):
        return [(section.id, get_message_text(document, section)) for section in document.sections]
    return [(document.uri or document.id, document.text)]


def _list_records(document: Document, *, is_whole: bool = True) -> Iterator[tuple[str, str]]:
    """What is stored about a document, with its address or id, and about the messages of a thread, with theirs.

    The title and summary of a thread that is not whole may be made of erased messages; they are left out.
    """
    name = document.uri or document.id
    made = [document.title, document.summary] if is_whole else []
    yield name, "\n".join([document.id, document.uri, str(document.meta), *sorted(document.access or ()), *made])
    for section in document.sections:
        texts = (section.id, section.author, section.label, section.awaits or "", *sorted(section.access or ()))
        yield section.id if is_thread(document) else name, "\n".join(texts)


def _list_values(line: str) -> list[str]:
    """The texts in a line of JSON, or the line."""
    try:
        return flatten_texts(json.loads(line))
    except ValueError:
        return [line]


def _hash_pieces(text: str) -> Iterator[int]:
    """Hash the long words of a text, those with punctuation in them too, and its phrases."""
    words = tokenize_words(text)
    whole = (word.strip(punctuation) for word in text.casefold().split())
    yield from (hash(word) for word in chain(words, whole) if len(word) >= MIN_WORD)
    yield from _hash_runs(words, PHRASE)


def _hash_runs(words: list[str], size: int) -> Iterator[int]:
    return map(hash, zip(*(words[at:] for at in range(size)), strict=False))
