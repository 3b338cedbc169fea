"""What every store owes an erasure: what was deleted leaves its bytes too, and a note about unfinished work is kept."""

import numpy as np

from clew.core.protocols import Store
from clew.core.types import Chunk, Document
from tests.contracts.conftest import DIM, MakeStore

SECRET = "zq-secret-of-the-crane-4711"


def put(store: Store, doc_id: str, text: str, place: int) -> np.ndarray:
    vector = np.roll(np.linspace(1, 2, DIM, dtype=np.float32), place)
    vector /= np.linalg.norm(vector)
    chunk = Chunk(f"{doc_id}-0", doc_id, 0, 1, text, 0, len(text))
    store.put(Document(doc_id, text), [chunk], vector[None], [dict.fromkeys(text.split(), 1)])
    return vector


def read_bytes(store: Store) -> bytes:
    return b"\0".join(data for _, data in store.eraser().stored_bytes())


def test_what_was_dropped_is_in_no_stored_byte_after_a_purge(make_store: MakeStore) -> None:
    store = make_store()
    vector = put(store, "a", f"The word is {SECRET}.", 1)
    put(store, "b", "The tide turns.", 3)
    store.search_vectors(vector, 1)
    store.flush()
    stored = read_bytes(store)
    is_in_memory = not stored
    assert is_in_memory or SECRET.encode() in stored
    assert is_in_memory or vector.tobytes() in stored
    store.drop(["a"])
    assert store.eraser().purge() == []
    store.flush()
    left = read_bytes(store)
    assert SECRET.encode() not in left
    assert vector.tobytes() not in left
    assert is_in_memory or b"The tide turns." in left
    (hit,) = store.search_vectors(vector, 5)
    assert hit.chunk.doc_id == "b"
    put(store, "c", "It goes on.", 5)
    assert {each.chunk.doc_id for each in store.search_vectors(vector, 5)} == {"b", "c"}


def test_a_note_about_an_unfinished_erasure_is_kept_until_it_is_cleared(make_store: MakeStore) -> None:
    store = make_store()
    eraser = store.eraser()
    assert eraser.pending() == ""
    eraser.set_pending("first")
    eraser.set_pending(SECRET)
    assert store.eraser().pending() == SECRET
    eraser.set_pending("")
    assert eraser.pending() == ""
    assert SECRET.encode() not in read_bytes(store)
