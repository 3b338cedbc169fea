"""The journal of an erasure: what is needed to finish it after a crash, without the erased text."""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from clew.core.protocols import Store
from clew.core.thread import is_thread
from clew.index.erase.select import Selection
from clew.index.read.sections import get_source_uri


@dataclass(frozen=True, slots=True)
class Journal:
    """An erasure that has begun: what was asked for, when, what goes, and how much of it there was.

    `message_ids` are of all erased messages, those of whole threads among them. `uris` are of documents that are not
    threads; of a section, that of its source. `jobs` quote erased text and could not be deleted yet. `counts` have the
    names of the receipt.
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
        """The documents and messages that go."""
        return Selection(self.documents, self.messages)

    def to_text(self) -> str:
        """Pack the journal for the store: a search of the store's bytes must not find the names that are in it."""
        text = json.dumps(asdict(self), default=sorted)
        return base64.b64encode(zlib.compress(text.encode())).decode()


def parse_journal(text: str) -> Journal:
    """Parse what `to_text` wrote."""
    stored: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    known = {each.name: stored[each.name] for each in fields(Journal) if each.name in stored}
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    values["messages"] = {doc_id: frozenset(ids) for doc_id, ids in stored["messages"].items()}
    return Journal(**values)


def make_journal(store: Store, selection: Selection, *, selector: str, at: str, author: str) -> Journal:
    """Count what a selection holds."""
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
    """Join two erasures; the second may be what is left of the first."""
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
