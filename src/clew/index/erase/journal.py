"""The journal of an erasure: what is needed to finish it after a crash, without the erased text."""

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clew.core.fingerprint import merge_fingerprints, parse_fingerprints
from clew.index.erase.select import Selection, Tally


@dataclass(frozen=True, slots=True, eq=False)
class Journal:
    """An erasure that has begun: what was asked for, when, what is removed, and what it held."""

    selector: str
    at: datetime
    author: str
    selection: Selection
    tally: Tally

    def to_text(self) -> str:
        """As text for the store, packed: a search of the store's bytes must not find the names that are in it."""
        tally = self.tally
        text = json.dumps(
            {
                "selector": self.selector,
                "at": self.at.isoformat(),
                "author": self.author,
                "documents": list(self.selection.documents),
                "messages": {doc_id: sorted(ids) for doc_id, ids in self.selection.messages.items()},
                "tally": {
                    "documents": tally.documents,
                    "messages": tally.messages,
                    "uris": tally.uris,
                    "chunks": tally.chunks,
                    "vectors": tally.vectors,
                    "postings": tally.postings,
                    "summaries": tally.summaries,
                },
                "fingerprints": tally.fingerprints.to_dict(),
            }
        )
        return base64.b64encode(zlib.compress(text.encode())).decode()


def parse_journal(text: str) -> Journal:
    """The journal that `to_text` wrote."""
    stored: Mapping[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    tally = stored["tally"]
    return Journal(
        stored["selector"],
        datetime.fromisoformat(stored["at"]),
        stored["author"],
        Selection(tuple(stored["documents"]), {doc_id: frozenset(ids) for doc_id, ids in stored["messages"].items()}),
        Tally(
            tuple(tally["documents"]),
            tuple(tally["messages"]),
            tuple(tally["uris"]),
            tally["chunks"],
            tally["vectors"],
            tally["postings"],
            tally["summaries"],
            parse_fingerprints(stored["fingerprints"]),
        ),
    )


def join_journals(first: Journal, second: Journal) -> Journal:
    """One journal of two erasures whose fingerprints have the same key; the second may be what is left of the first."""
    messages = dict(first.selection.messages)
    for doc_id, ids in second.selection.messages.items():
        messages[doc_id] = messages.get(doc_id, frozenset()) | ids
    documents = tuple(dict.fromkeys([*first.selection.documents, *second.selection.documents]))
    one, other = first.tally, second.tally
    count: Callable[[int, int], int] = max if first.selector == second.selector else int.__add__
    return Journal(
        first.selector if first.selector == second.selector else f"{first.selector}; {second.selector}",
        second.at,
        second.author or first.author,
        Selection(documents, {doc_id: ids for doc_id, ids in messages.items() if doc_id not in documents}),
        Tally(
            tuple(dict.fromkeys([*one.documents, *other.documents])),
            tuple(dict.fromkeys([*one.messages, *other.messages])),
            tuple(dict.fromkeys([*one.uris, *other.uris])),
            count(one.chunks, other.chunks),
            count(one.vectors, other.vectors),
            count(one.postings, other.postings),
            count(one.summaries, other.summaries),
            merge_fingerprints([one.fingerprints, other.fingerprints], one.fingerprints.key),
        ),
    )
