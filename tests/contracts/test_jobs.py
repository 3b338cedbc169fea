"""The contract of the queue of jobs, on every kind of store."""

import pytest

from clew.core.errors import NotFound
from clew.core.jobs import Job
from clew.drivers.store.named import JobQueue
from clew.drivers.store.store import Store
from tests.contracts.conftest import MakeStore

LEASE = 1000.0
EXPIRED = -1.0  # a lease that is over as soon as it begins


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    return make_store()


def put(queue: JobQueue, *ids: str, host: str = "") -> None:
    for job_id in ids:
        queue.put(Job(job_id, "add", {"sources": [f"/{job_id}"]}, host=host))


def claim(queue: JobQueue, worker: str, *, lease: float = LEASE, max_attempts: int = 3, **options: object) -> str:
    job = queue.claim(worker, lease=lease, max_attempts=max_attempts, **options)  # type: ignore[arg-type]
    return job.id if job else ""


def test_jobs_are_kept_in_order_with_their_request_and_times(store: Store) -> None:
    put(store.jobs, "b", "a", "c", host="here")
    assert [job.id for job in store.jobs.all()] == ["b", "a", "c"]
    job = store.jobs.get("a")
    assert (job.kind, job.request, job.state, job.host) == ("add", {"sources": ["/a"]}, "queued", "here")
    assert (job.total, job.result, job.attempts) == (None, {}, 0)
    assert job.created is not None
    assert job.created == job.updated


def test_a_missing_job_is_not_found_and_a_near_one_is_named(store: Store) -> None:
    put(store.jobs, "abcdef")
    with pytest.raises(NotFound, match="no job 'abcdeg'; did you mean abcdef"):
        store.jobs.get("abcdeg")
    with pytest.raises(NotFound, match=r"`Engine\.jobs` lists them"):
        store.jobs.cancel("xyz", lease=LEASE)


def test_workers_take_the_oldest_job_that_nobody_has(store: Store) -> None:
    put(store.jobs, "b", "a")
    assert [claim(store.jobs, worker) for worker in ("w1", "w2", "w3")] == ["b", "a", ""]
    taken = store.jobs.get("b")
    assert (taken.state, taken.worker, taken.attempts) == ("running", "w1", 1)


def test_progress_and_outcome_are_kept(store: Store) -> None:
    put(store.jobs, "a", "b")
    claim(store.jobs, "w1")
    assert store.jobs.beat("a", "w1", stage="adding", done=3, total=9) == "running"
    job = store.jobs.get("a")
    assert (job.stage, job.done, job.total) == ("adding", 3, 9)
    assert store.jobs.finish("a", "w1", state="done", result={"added": ["x"]})
    claim(store.jobs, "w2")
    assert store.jobs.finish("b", "w2", state="failed", error="the disk is full")
    first, second = store.jobs.all()
    assert (first.state, first.result, first.is_finished) == ("done", {"added": ["x"]}, True)
    assert (second.state, second.error) == ("failed", "the disk is full")


def test_a_job_whose_worker_is_silent_is_taken_over_and_the_first_worker_is_not_heard(store: Store) -> None:
    put(store.jobs, "a")
    claim(store.jobs, "w1")
    assert claim(store.jobs, "w2") == ""
    assert claim(store.jobs, "w2", lease=EXPIRED) == "a"
    assert store.jobs.beat("a", "w1", stage="adding", done=9, total=9) is None
    assert not store.jobs.finish("a", "w1", state="done")
    job = store.jobs.get("a")
    assert (job.state, job.worker, job.done, job.attempts) == ("running", "w2", 0, 2)


def test_a_sign_of_life_renews_the_lease(store: Store) -> None:
    put(store.jobs, "a")
    claim(store.jobs, "w1")
    before = store.jobs.get("a").heartbeat
    store.jobs.beat("a", "w1", stage="", done=0, total=None)
    after = store.jobs.get("a").heartbeat
    assert before is not None
    assert after is not None
    assert after > before


def test_a_worker_that_is_known_to_be_dead_loses_its_job_at_once(store: Store) -> None:
    put(store.jobs, "a", "b")
    claim(store.jobs, "w1")
    claim(store.jobs, "w2")
    assert claim(store.jobs, "w3", dead={"w2"}) == "b"


def test_a_job_that_ends_its_workers_is_given_up(store: Store) -> None:
    put(store.jobs, "a", "b")
    claim(store.jobs, "w1", max_attempts=2)
    assert claim(store.jobs, "w2", max_attempts=2, dead={"w1"}) == "a"
    assert claim(store.jobs, "w3", max_attempts=2, dead={"w2"}) == "b"
    job = store.jobs.get("a")
    assert job.state == "failed"
    assert job.error == "given up: 2 workers ended without finishing it, the last was w2"


def test_a_job_that_is_given_back_is_queued_again_and_its_attempt_does_not_count(store: Store) -> None:
    put(store.jobs, "a")
    claim(store.jobs, "w1")
    assert store.jobs.finish("a", "w1", state="queued")
    job = store.jobs.get("a")
    assert (job.state, job.worker, job.attempts) == ("queued", "", 0)
    assert claim(store.jobs, "w2") == "a"


def test_a_queued_job_is_cancelled_at_once_and_a_running_one_by_its_worker(store: Store) -> None:
    put(store.jobs, "a", "b")
    claim(store.jobs, "w1")
    assert store.jobs.cancel("b", lease=LEASE).state == "cancelled"
    assert store.jobs.cancel("a", lease=LEASE).state == "cancelling"
    assert store.jobs.beat("a", "w1", stage="", done=1, total=2) == "cancelling"
    assert store.jobs.finish("a", "w1", state="cancelled")
    assert [job.state for job in store.jobs.all()] == ["cancelled", "cancelled"]
    assert claim(store.jobs, "w2") == ""


def test_cancelling_needs_no_worker_that_lives(store: Store) -> None:
    put(store.jobs, "a", "b", "c")
    for worker in ("w1", "w2", "w3"):
        claim(store.jobs, worker)
    assert store.jobs.cancel("a", lease=LEASE, dead={"w1"}).state == "cancelled"
    assert store.jobs.cancel("b", lease=LEASE).state == "cancelling"
    assert store.jobs.cancel("c", lease=LEASE).state == "cancelling"
    assert claim(store.jobs, "w4", dead={"w2"}) == ""
    assert store.jobs.get("b").state == "cancelled"
    assert store.jobs.finish("c", "w3", state="queued")
    assert store.jobs.get("c").state == "cancelled"


def test_a_finished_job_cannot_be_cancelled(store: Store) -> None:
    put(store.jobs, "a")
    claim(store.jobs, "w1")
    store.jobs.finish("a", "w1", state="done")
    assert store.jobs.cancel("a", lease=LEASE).state == "done"


def test_a_worker_that_wants_to_be_alone_leaves_the_queue_to_the_one_at_work(store: Store) -> None:
    put(store.jobs, "a", "b")
    assert claim(store.jobs, "w1", alone=True) == "a"
    assert claim(store.jobs, "w2", alone=True) == ""
    assert claim(store.jobs, "w2", alone=True, dead={"w1"}) == "a"
    assert claim(store.jobs, "w3") == "b"


def test_jobs_with_files_are_left_to_the_machine_that_has_them(store: Store) -> None:
    put(store.jobs, "a", host="north")
    put(store.jobs, "b")
    assert claim(store.jobs, "w1", host="south") == "b"
    assert claim(store.jobs, "w1", host="south") == ""
    assert claim(store.jobs, "w2", host="north") == "a"


def test_only_the_last_hundred_finished_jobs_are_kept(store: Store) -> None:
    put(store.jobs, "waiting")
    for number in range(102):
        put(store.jobs, f"j{number}")
        store.jobs.cancel(f"j{number}", lease=LEASE)
    put(store.jobs, "last")
    ids = [job.id for job in store.jobs.all()]
    assert ids == ["waiting", *(f"j{number}" for number in range(2, 102)), "last"]


def test_jobs_belong_to_their_collection_and_do_not_count_as_changes(make_store: MakeStore) -> None:
    one, two = make_store("one"), make_store("two")
    before = one.change_number()
    put(one.jobs, "a")
    put(two.jobs, "a", "b")
    assert [job.id for job in one.jobs.all()] == ["a"]
    assert claim(one.jobs, "w1") == "a"
    assert claim(one.jobs, "w1") == ""
    assert two.jobs.get("a").state == "queued"
    assert one.change_number() == before
