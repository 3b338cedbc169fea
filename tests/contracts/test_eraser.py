"""What every store owes an erasure: what was deleted leaves its bytes too, and a note about unfinished work is kept."""

import numpy as np

from clew.core.jobs import Job
from clew.core.types import Chunk, Document
from clew.drivers.store.store import Store
from tests.contracts.conftest import DIM, MakeStore
from tests.leftovers import list_vector_forms, read_store

SECRET = "zq-secret-of-the-crane-4711"


def put(store: Store, doc_id: str, text: str, place: int) -> np.ndarray:
    vector = np.roll(np.linspace(1, 2, DIM, dtype=np.float32), place)
    vector /= np.linalg.norm(vector)
    chunk = Chunk(f"{doc_id}-0", doc_id, 0, 1, text, 0, len(text))
    store.put(Document(doc_id, text), [chunk], vector[None], [dict.fromkeys(text.split(), 1)])
    return vector


def read_bytes(store: Store) -> bytes:
    return b"\0".join(data for _, data in read_store(store))


def is_own(store: Store) -> bool:
    """Return whether this is a backend of one's own, which may encode what it stores."""
    return hasattr(getattr(store, "_backend", None), "contract_folder")


def test_what_was_dropped_is_in_no_stored_byte_after_a_purge(make_store: MakeStore) -> None:
    store = make_store()
    vector = put(store, "a", f"The word is {SECRET}.", 1)
    put(store, "b", "The tide turns.", 3)
    store.search_vectors(vector, 1)
    store.flush()
    stored = read_bytes(store)
    is_in_memory = not stored
    is_raw = not is_in_memory and not is_own(store)
    assert not is_raw or SECRET.encode() in stored
    assert not is_raw or vector.tobytes() in stored
    store.drop(["a"])
    purge = store.purge()
    assert (purge.again, purge.forbidden, bool(purge.done)) == ((), (), not is_in_memory)
    store.flush()
    left = read_bytes(store)
    assert SECRET.encode() not in left
    assert not any(form in left for form in list_vector_forms(vector))
    assert not is_raw or b"The tide turns." in left
    (hit,) = store.search_vectors(vector, 5)
    assert hit.chunk.doc_id == "b"
    put(store, "c", "It goes on.", 5)
    assert {each.chunk.doc_id for each in store.search_vectors(vector, 5)} == {"b", "c"}


def test_a_note_about_an_unfinished_erasure_is_kept_until_it_is_cleared(make_store: MakeStore) -> None:
    store = make_store()
    assert store.records.read("erasing") == ""
    store.records.write("erasing", "first")
    store.records.write("erasing", SECRET)
    assert store.records.read("erasing") == SECRET
    store.records.write("erasing", "")
    assert store.records.read("erasing") == ""
    assert SECRET.encode() not in read_bytes(store)


def test_jobs_that_match_are_deleted_once_they_have_ended(make_store: MakeStore) -> None:
    store = make_store()
    store.jobs.put(Job("a", "add", {"text": SECRET}, state="done"))
    store.jobs.put(Job("b", "add", {"text": SECRET}, state="running", worker="w"))
    store.jobs.put(Job("c", "add", {"text": "tide"}, state="done"))
    assert store.jobs.drop(lambda _, text: SECRET in text) == (1, ["b"])
    assert store.jobs.finish("b", "w", state="failed", error="no")
    assert store.jobs.drop(lambda job, _: job == "b") == (1, [])
    assert [job.id for job in store.jobs.all()] == ["c"]
