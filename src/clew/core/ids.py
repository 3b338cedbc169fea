"""Content-addressed ids: the same content at the same uri always has the same id."""

from collections.abc import Iterable

import xxhash


def digest(*parts: str) -> str:
    """Hash the parts (xxh3-128) to 32 hexadecimal digits; moving text between parts changes the hash."""
    joined: list[bytes] = []
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        joined += (len(data).to_bytes(8, "little"), data)
    return xxhash.xxh3_128_hexdigest(b"".join(joined))


def make_document_id(uri: str) -> str:
    """Make the id of the document at a uri; it stays the same when the text changes."""
    return digest("document", uri)[:16]


def make_chunk_ids(doc_id: str, embed_texts: Iterable[str]) -> list[str]:
    """Make one id per chunk from its document and embedded text, numbering equal texts.

    The position does not count, so a chunk that only moved keeps its id and its vector.
    """
    seen: dict[str, int] = {}
    ids = []
    for text in embed_texts:
        nth = seen[text] = seen.get(text, -1) + 1
        ids.append(digest("chunk", doc_id, text, str(nth)))
    return ids
