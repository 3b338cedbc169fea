"""The contract of stores on object storage, and on datasets that are scanned: the tests where these differ most.

`make soak` runs all of the contract on both.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.core.settings import StoreConfig
from clew.drivers.store.lance import open_store
from clew.drivers.store.store import Store
from tests.contracts.conftest import DIM, MODEL, MakeStore
from tests.contracts.test_eraser import test_what_was_dropped_is_in_no_stored_byte_after_a_purge  # noqa: F401
from tests.contracts.test_jobs import store, test_workers_take_the_oldest_job_that_nobody_has  # noqa: F401
from tests.contracts.test_store import (  # noqa: F401
    switch,
    test_a_closed_store_raises,
    test_a_collection_is_switched_to_another_model_and_back,
    test_a_document_comes_back_as_it_was_put,
    test_a_document_is_claimed_by_one_owner_until_its_time_is_over,
    test_a_stamp_that_another_program_sets_is_seen_in_hits,
    test_another_model_is_refused,
    test_documents_are_found_by_their_summaries,
    test_dropping_removes_all_of_it,
    test_messages_that_wait_are_found_by_what_they_wait_for,
    test_only_the_text_that_was_read_is_replaced,
    test_replacing_removes_what_is_no_longer_there,
    test_the_latest_of_a_channel_are_those_that_were_added_last,
    test_whole_documents_move_to_another_store_as_they_are,
)
from tests.contracts.test_store_matches import test_matches_are_of_the_chunks_that_exist  # noqa: F401


@pytest.fixture(params=("lance-index", "lance-s3"))
def make_store(request: pytest.FixtureRequest, place: Path) -> Iterator[MakeStore]:
    """Opens a store by the name of its collection; all are closed in the end."""
    opened: list[Store] = []
    is_remote = request.param == "lance-s3"
    url = request.getfixturevalue("s3") if is_remote else f"lance://{place}"

    def make(collection: str = "one", *, embedder: str = MODEL, dim: int = DIM) -> Store:
        config = StoreConfig() if is_remote else StoreConfig(exact_below=0)
        opened.append(open_store(url, collection=collection, embedder=embedder, dim=dim, config=config))
        return opened[-1]

    yield make
    for each in opened:
        each.close()
