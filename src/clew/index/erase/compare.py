"""The third step of an erasure: which of the erased pieces stand in what remains, and who quotes or names whom.

A piece that others have said too cannot be told from theirs; it is taken out of what is searched for afterwards.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from clew.core.fingerprint import Fingerprints, Matcher, list_vector_forms
from clew.core.protocols import Store
from clew.core.settings import ThreadConfig
from clew.core.stored import PackedTerms, StoredDocument
from clew.core.text import Terms
from clew.core.thread import get_message_text, is_thread, make_thread_title
from clew.core.time import to_iso
from clew.core.types import Chunk, Document
from clew.index.chunk.messages import build_message_context
from clew.index.chunk.terms import count_chunk_terms

PackTerms = Callable[[Terms], PackedTerms]
TEXT_KINDS = ("words", "texts")
BLOCK = 1 << 18  # characters that are compared at once
SHARED = 64  # characters of a block that the next one begins with


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The fingerprints that nothing remaining has, and the ids of what quotes an erased text or names the author."""

    fingerprints: Fingerprints
    quoted_by: tuple[str, ...] = ()
    named_by: tuple[str, ...] = ()


def compare_with_remaining(
    store: Store,
    fingerprints: Fingerprints,
    *,
    touched: Collection[str],
    author: str,
    own_words: Iterable[str],
    language: str,
    threads: ThreadConfig,
    pack_terms: PackTerms,
) -> Comparison:
    """Compares the fingerprints with all documents that are stored.

    Of a `touched` document, one that has lost messages, only what its remaining messages say themselves counts as
    theirs, and what is made of that now: contexts, terms or a title that still hold erased text must be found.
    `own_words` are texts that stand in every collection.
    """
    matcher = Matcher(fingerprints)
    for word in own_words:
        matcher.count_in_text(word, TEXT_KINDS)
    names = re.compile(rf"(?<!\w){re.escape(author)}(?!\w)", re.IGNORECASE) if author else None
    parts_of_names = re.compile(rf"(?<![^\W_]){re.escape(author)}(?![^\W_])", re.IGNORECASE) if author else None
    quoted: list[str] = []
    named: list[str] = []
    for stored in store.stored_documents():
        document = stored.document
        for text in _list_own_texts(document, threads) if document.id in touched else _list_texts(stored):
            for start in range(0, len(text), BLOCK - SHARED):
                matcher.count_in_text(text[start : start + BLOCK], TEXT_KINDS)
        summary = [] if stored.summary_vector is None else list_vector_forms(stored.summary_vector[None])
        for rows in (*list_vector_forms(stored.vectors), *summary):
            matcher.count(rows.tobytes(), ["vectors"])
        packed = (
            [pack_terms(count_chunk_terms(chunk, language=language)) for chunk in _without_erased(stored)]
            if document.id in touched
            else stored.terms
        )
        matcher.count(b"".join(terms.hashes.astype("<i8").tobytes() for terms in packed), ["terms"])
        if matcher.count_in_text(document.text, ["quotes"]):
            quoted += [name for name, text in _list_parts(document) if matcher.count_in_text(text, ["quotes"])]
        if names and names.search(document.text):
            named += [name for name, text in _list_parts(document) if names.search(text)]
        if parts_of_names:
            named += [name for name, text in _list_records(document) if parts_of_names.search(text)]
    return Comparison(matcher.forget_met(fingerprints), tuple(quoted), tuple(dict.fromkeys(named)))


def _without_erased(stored: StoredDocument) -> Iterator[Chunk]:
    """The chunks of a thread that belong to one of its messages."""
    ids = {section.id for section in stored.document.sections}
    return (chunk for chunk in stored.chunks if chunk.meta.get("message") in ids)


def _list_parts(document: Document) -> list[tuple[str, str]]:
    """The messages of a thread with their ids, or the whole of another document with its address or id."""
    if is_thread(document):
        return [(section.id, get_message_text(document, section)) for section in document.sections]
    return [(document.uri or document.id, document.text)]


def _list_records(document: Document) -> Iterator[tuple[str, str]]:
    """What is stored about a document, with its address or id, and about the messages of a thread, with theirs."""
    about = [document.id, document.title, document.uri, document.summary, str(document.meta)]
    name = document.uri or document.id
    yield name, "\n".join([*about, *sorted(document.access or ())])
    for section in document.sections:
        texts = (section.id, section.author, section.label, section.awaits or "", *sorted(section.access or ()))
        yield section.id if is_thread(document) else name, "\n".join(texts)


def _list_texts(stored: StoredDocument) -> Iterator[str]:
    """All texts of a document that lost nothing, with everything that was made of it."""
    document = stored.document
    yield document.text
    about = [document.id, document.title, document.uri, document.kind, document.summary, document.summary_by]
    about += [repr(document.meta), str(document.meta), *sorted(document.access or ()), *_list_marks(document)]
    about += [value for value in document.meta.values() if isinstance(value, str)]
    for section in document.sections:
        about += [section.id, section.author, section.label, section.awaits or "", *sorted(section.access or ())]
    for chunk in stored.chunks:
        about += [chunk.id, chunk.context, *chunk.headings, repr(chunk.meta)]
    yield "\n".join(about)


def _list_marks(document: Document) -> list[str]:
    """The stamps of a document, whose digits may be like those of an erased number."""
    return [document.hash, document.stamp, to_iso(document.created) or "", to_iso(document.updated) or ""]


def _list_own_texts(document: Document, threads: ThreadConfig) -> Iterator[str]:
    """What the remaining messages of a thread say, who wrote them, what is made of it, and the record of the thread."""
    yield document.text
    channel = str(document.meta.get("channel", ""))
    about = [document.id, document.uri, document.kind, f"#{channel}: ", repr(document.meta)]
    about += [*sorted(document.access or ()), *_list_marks(document)]
    opening = get_message_text(document, document.sections[0]) if document.sections else ""
    if not document.title.startswith(make_thread_title(channel, "")[:-1]) and opening:
        about.append(document.title)  # it was given, and not made of a message
    about.append(make_thread_title(channel, opening))
    for position, section in enumerate(document.sections):
        about.append(build_message_context(document, position, threads))
        about += [section.id, section.author, f"{section.id}_chunk_0", section.awaits or ""]
        about += [*sorted(section.access or ())]
    yield "\n".join(about)
