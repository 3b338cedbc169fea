"""Content-addressed ids: the same thing in the same place always has the same name."""

from collections.abc import Iterable

import xxhash


def digest(*parts: str) -> str:
    """32 hexadecimal digits that change when any part changes, or when text moves from one part to the next."""
    hasher = xxhash.xxh3_128()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


def document_id(uri: str) -> str:
    """The id of the document that stands at an address: it stays the same when its text changes."""
    return digest("document", uri)[:16]


def chunk_ids(doc_id: str, embed_texts: Iterable[str]) -> list[str]:
    """One id a chunk, from its document and what is embedded of it.

    Where a chunk stands does not count, so a chunk that only moved keeps its id and its vector; equal texts in one
    document are told apart by their order.
    """
    seen: dict[str, int] = {}
    ids = []
    for text in embed_texts:
        nth = seen[text] = seen.get(text, -1) + 1
        ids.append(digest("chunk", doc_id, text, str(nth)))
    return ids
