"""Embedding of stored texts: pending vectors of the active model, and staged vectors of another model.

Texts and words are stored first; a row without its vector is pending, and a changed chunk gets a new row. So the
missing vectors are always known, and interrupted work resumes where it stopped.
"""

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Event, Lock, Thread
from typing import Any, Self

import numpy as np

from clew.core.errors import (
    ClewError,
    ConcurrentChange,
    CostLimit,
    CountMismatch,
    DriverFailed,
    ModelSwitched,
    StoreMismatch,
)
from clew.core.jobs import make_worker_name
from clew.core.protocols import Embedder
from clew.core.stored import SLICE, StagedModel
from clew.core.types import Chunk, Matrix
from clew.drivers.store import checks, checksums
from clew.drivers.store.backend import CHUNK, DOCUMENT, STAGED, Backend, Row, Select, Snapshot, Transaction, select
from clew.drivers.store.named import claim_documents, end_claim_among, has_claims
from clew.drivers.store.rows import add_vector_to_print

PENDING = "pending"  # prefix of the names of claims on pending vectors
WINDOW = 1024  # rows to read together, so that texts of similar length are embedded together
MAX_CONSECUTIVE_FAILURES = 3  # single texts that may fail in a row before the model is tested with …
PROBE = "Is the model there?"
CLAIM_SECONDS = 60.0  # for which a process claims rows that it embeds
WAIT_SECONDS = 0.5  # between polls for the claims of others
SIGN_SECONDS = 1.0  # before a worker first announces itself: most work is over by then
MAX_ATTEMPTS = 100  # to switch while others change the collection
OnProgress = Callable[[int, int, float], None]  # the number done, the total, and the fraction of the text
_TEXTS = {CHUNK: ("doc", "print", "text", "headings", "context"), DOCUMENT: ("summary", "vector", "pending")}
_SIZES = {CHUNK: ("row", "start", "stop"), DOCUMENT: ("row", "summary", "vector", "pending")}


@dataclass(slots=True)
class _Run:
    """A run that embeds: pending vectors of the active model, or staged vectors of another one."""

    backend: Backend
    embedder: Embedder
    on_progress: OnProgress | None
    documents: Collection[str] | None = None  # None: all
    is_staged: bool = False
    total: int = 0
    done: int = 0
    chars: int = 0  # in total
    done_chars: int = 0
    chunks: int = 0  # done, without summaries
    failures: int = 0  # in a row
    failed: dict[int, str] = field(default_factory=dict)  # reasons by row
    mismatch: CountMismatch | None = None  # raised at the end, after everything possible is done
    owner: str = field(default_factory=make_worker_name)

    def report(self) -> None:
        if self.on_progress and self.total:
            share = self.done_chars / max(self.chars, self.done_chars, 1)
            self.on_progress(self.done, max(self.total, self.done), share)


class Work:
    """`with Work(backend) as work` announces to others, until the block ends, that this process will make vectors."""

    def __init__(self, backend: Backend) -> None:
        self._claims, self._owner, self._ended = backend.named("claims"), make_worker_name(), Event()
        self._name, self._lock, self._is_told = f"{PENDING} of {self._owner}", Lock(), False
        self._thread = Thread(target=self._sign, name="clew-at-work", daemon=True)

    def has_others(self) -> bool:
        """Return whether other workers are active; each embeds all pending chunks after its own documents."""
        return has_claims(self._claims, f"{PENDING} of", other_than=self._name)

    def leave(self) -> bool:
        """End the announcement if other workers are active; return whether it ended. The last worker cannot leave."""
        with self._lock:
            left = end_claim_among(self._claims, f"{PENDING} of", self._name, owner=self._owner, seconds=CLAIM_SECONDS)
            self._is_told = not left
            if left:
                self._ended.set()
        return left

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._is_told:
            with suppress(ClewError):
                claim_documents(self._claims, [self._name], owner=self._owner, seconds=0)

    def _sign(self) -> None:
        delay = SIGN_SECONDS
        while not self._ended.wait(delay):
            with self._lock, suppress(ClewError):
                if not self._ended.is_set():
                    claim_documents(self._claims, [self._name], owner=self._owner, seconds=CLAIM_SECONDS)
                    self._is_told = True
            delay = CLAIM_SECONDS / 3


def embed_pending(
    backend: Backend,
    embedder: Embedder,
    on_progress: OnProgress | None = None,
    documents: Collection[str] | None = None,
) -> tuple[int, dict[str, str]]:
    """Embed pending chunks and summaries, of all documents or of some, the newest first.

    Return the number of embedded chunks, and reasons for failures by document id. Each batch is stored before the next
    call of the model. Concurrent processes share the work.
    """
    run = _Run(backend, embedder, on_progress, documents)
    _make_vectors(run)
    if not run.failed:
        return run.chunks, {}
    with backend.read() as snapshot:
        owners: dict[int, int] = dict(snapshot.find(select(CHUNK, row=list(run.failed)), ("row", "doc")))
        reasons = {owners.get(row, row): reason for row, reason in run.failed.items()}
        found = snapshot.find(select(DOCUMENT, row=list(reasons)), ("row", "id"))
    return run.chunks, {doc_id: reasons[row] for row, doc_id in found}


def stage_vectors(backend: Backend, embedder: Embedder, on_progress: OnProgress | None = None) -> int:
    """Stage vectors of another model for all chunks and summaries that lack one; return the number made.

    Searches and writes continue meanwhile. Called again, it resumes where it stopped and catches up with changes.
    StoreMismatch if vectors of a third model are staged. `on_progress` gets the number done, the total, and the
    fraction of the text.
    """

    def begin(tx: Transaction) -> None:
        if tx.head.staged is None:
            tx.head = replace(tx.head, staged=StagedModel(embedder.name, embedder.dim, was_used=False))

    backend.write(begin, is_change=False)
    check_staged_model(backend.place, backend.head().staged, embedder)
    run = _Run(backend, embedder, on_progress, is_staged=True)
    _make_vectors(run)
    if run.failed:
        raise DriverFailed(next(iter(run.failed.values())))
    return run.done


def _make_vectors(run: _Run) -> None:
    left = list(_list_missing(run))
    run.report()  # a call may take long
    while left:
        left = [(kind, rest) for kind, numbers in left if (rest := _make_window(run, kind, numbers))]
        if left:  # others are embedding the rest, or have been killed
            time.sleep(WAIT_SECONDS)
    if run.mismatch:
        raise run.mismatch


def _make_window(run: _Run, kind: int, numbers: Sequence[int]) -> list[int]:
    """Embed rows, batching texts of similar length; return the numbers of rows that others have claimed."""
    with _claim(run, numbers) as (claimed, extend):
        rows = _read_texts(run, kind, claimed)
        for start in range(0, len(rows), SLICE):
            _embed_rows(run, kind, rows[start : start + SLICE])
            extend()
            run.report()
    return [number for number in numbers if number not in claimed]


def _list_missing(run: _Run) -> Iterator[tuple[int, list[int]]]:
    """Yield windows of row numbers without a vector, with their kind, the newest first."""
    parts: list[Any] = [None]
    if run.documents is not None:
        with run.backend.read() as snapshot:
            found = snapshot.find(select(DOCUMENT, id=run.documents), ("row",)) if run.documents else []
        named = sorted((row for (row,) in found), reverse=True)
        parts = [named[start : start + WINDOW] for start in range(0, len(named), WINDOW)]
    for kind in _TEXTS:
        for part in parts:
            yield from ((kind, numbers) for numbers in _list_part(run, kind, part) if numbers)


def _list_part(run: _Run, kind: int, documents: Collection[int] | None) -> Iterator[list[int]]:
    """Yield windows of row numbers without a vector, of all documents or of those with these row numbers."""
    before = None
    while True:
        with run.backend.read() as snapshot:
            conditions: list[Any] = [] if run.is_staged else [("pending", "in", [1])]
            conditions += [] if documents is None else [("row" if kind == DOCUMENT else "doc", "in", documents)]
            conditions += [] if before is None else [("row", "<", before)]
            found = snapshot.find(Select(kind, tuple(conditions), order="-row", limit=WINDOW), _SIZES[kind])
            made = _find_staged(run, snapshot, [row for row, *_ in found])
        if not found:
            return
        if before is not None and any(row >= before for row, *_ in found):  # the same rows again
            raise checksums.damaged_error("the table of what waits for its vector")
        before = found[-1][0]
        if kind == DOCUMENT:  # only those with a summary
            found = [(row, 0, len(text)) for row, text, vector, pending in found if vector is not None or pending]
        missing = {row: stop - start for row, start, stop in found if row not in made}
        run.total, run.chars = run.total + len(missing), run.chars + sum(missing.values())
        yield list(missing)


def _find_staged(run: _Run, snapshot: Snapshot, numbers: Sequence[int]) -> set[int]:
    """Find the rows that already have a staged vector; empty if the run embeds pending ones."""
    return {row for (row,) in snapshot.find(select(STAGED, row=numbers), ("row",))} if run.is_staged else set()


@contextmanager
def _claim(run: _Run, numbers: Sequence[int]) -> Iterator[tuple[Collection[int], Callable[[], None]]]:
    """Claim the rows that no other process embeds; yield them, and a function that renews the claim.

    A few rows are not claimed: a claim would cost more than embedding them twice. Rows of named documents are always
    yielded, without waiting for others.
    """
    if len(numbers) <= SLICE:
        yield numbers, lambda: None
        return
    claims, kind = run.backend.named("claims"), "staged" if run.is_staged else PENDING
    names = {number: f"{kind} {number // WINDOW}" for number in numbers}
    free, since = claim_documents(claims, set(names.values()), owner=run.owner, seconds=CLAIM_SECONDS), time.monotonic()

    def extend() -> None:
        nonlocal since
        if time.monotonic() - since > CLAIM_SECONDS / 3:
            claim_documents(claims, free, owner=run.owner, seconds=CLAIM_SECONDS)
            since = time.monotonic()

    try:
        yield {number for number in numbers if run.documents is not None or names[number] in free}, extend
    finally:
        claim_documents(claims, free, owner=run.owner, seconds=0)


def _read_texts(run: _Run, kind: int, numbers: Collection[int]) -> list[Row]:
    wanted = select(kind, row=numbers) if run.is_staged else select(kind, row=numbers, pending=[1])
    with run.backend.read() as snapshot:
        made = _find_staged(run, snapshot, list(numbers))
        rows = [row for row in Transaction(snapshot).find(wanted, _TEXTS[kind]) if row["row"] not in made]
    return sorted(filter(_get_text, rows), key=lambda row: len(_get_text(row)))  # a summary may have been deleted


def _embed_rows(run: _Run, kind: int, rows: Sequence[Row]) -> None:
    """Embed rows in one call and store the vectors; if the call fails or costs too much, retry with halves."""
    try:
        vectors = _embed_texts(run, rows)
    except (DriverFailed, CostLimit) as error:
        run.mismatch = error if isinstance(error, CountMismatch) else run.mismatch
        if half := len(rows) // 2:
            _embed_rows(run, kind, rows[:half])
            _embed_rows(run, kind, rows[half:])
            return
        if isinstance(error, CostLimit):
            raise
        run.failed[rows[0]["row"]] = str(error)
        run.failures += 1
        if run.failures % MAX_CONSECUTIVE_FAILURES == 0:
            run.embedder.embed([PROBE], role="passage")  # raises if the model is gone
        return
    run.failures = 0
    made = _write_vectors(run, kind, rows, vectors)
    run.done, run.done_chars = run.done + made, run.done_chars + sum(map(_count_chars, rows))
    run.chunks += made if kind == CHUNK else 0


def _embed_texts(run: _Run, rows: Sequence[Row]) -> Matrix:
    embedder, texts = run.embedder, [_get_text(row) for row in rows]
    embedded = embedder.embed(texts, role="passage")
    if len(embedded) != len(rows):
        raise CountMismatch(f"count mismatch: {embedder.name} gave {len(embedded)} vectors for {len(rows)} texts")
    return checks.check_unit(np.ascontiguousarray(embedded, np.float32), embedder.dim, "no vector was stored")


def _count_chars(row: Row) -> int:
    """Return the length of a text, to estimate the time left: short texts are embedded first."""
    return len(row["summary" if row["kind"] == DOCUMENT else "text"])


def _get_text(row: Row) -> str:
    if row["kind"] == DOCUMENT:
        return str(row["summary"])
    return Chunk("", "", 0, 0, row["text"], 0, 0, tuple(json.loads(row["headings"])), row["context"]).embed_text


def _write_vectors(run: _Run, kind: int, rows: Sequence[Row], vectors: Matrix) -> int:
    """Store the vectors of rows whose text has not changed since; return how many."""
    numbers = [row["row"] for row in rows]
    names = ("summary",) if kind == DOCUMENT else ()  # a chunk that changes gets a new row

    def write(tx: Transaction) -> int:
        if run.is_staged:
            check_staged_model(run.backend.place, tx.head.staged, run.embedder)  # others may have discarded them
        now = {row["row"]: row for row in tx.find(select(kind, row=numbers), ("pending", *names))}
        made: list[Row] = []
        for row, vector in zip(rows, vectors, strict=True):
            stored = now.get(row["row"])
            if stored is None or any(stored[name] != row[name] for name in names):
                continue
            if run.is_staged:
                made.append({"kind": STAGED, "row": row["row"], "vector": vector})
            elif stored["pending"]:
                changed = {"print": add_vector_to_print(row["print"], vector)} if kind == CHUNK else {}
                made.append({"kind": kind, "row": row["row"], "vector": vector, **changed})
        if run.is_staged:
            tx.remove(tx.find(select(STAGED, row=numbers), ("row",)))
            tx.add(made)
        else:
            tx.fill(made)
        return len(made)

    return run.backend.write(write, is_change=not run.is_staged)


def switch_to_staged_model(backend: Backend, embedder: Embedder) -> None:
    """Swap the active vectors with the staged ones, after making those that are still missing."""
    for _ in range(MAX_ATTEMPTS):
        head = backend.head()
        check_staged_model(backend.place, head.staged, embedder)
        stage_vectors(backend, embedder)
        if backend.swap_vectors(head.change):
            return
    raise ConcurrentChange(f"{backend.place}: others changed it again and again meanwhile; try again")


def discard_staged_vectors(backend: Backend) -> bool:
    """Delete the staged vectors; return whether there were any."""

    def discard(tx: Transaction) -> bool:
        had = tx.head.staged is not None
        tx.head = replace(tx.head, staged=None)
        return had

    return backend.write(discard, is_change=False)


def check_staged_model(place: str, staged: StagedModel | None, embedder: Embedder) -> None:
    """Raise StoreMismatch unless the staged vectors belong to this model."""
    if staged is None or (staged.embedder, staged.dim) != (embedder.name, embedder.dim):
        other = f"of {staged.embedder} ({staged.dim} dimensions)" if staged else "none"
        raise StoreMismatch(
            f"{place}: the vectors kept beside those in use are {other}, not of {embedder.name} ({embedder.dim}); "
            "delete them first (`clew reembed --discard`)"
        )


def model_switched_error(place: str, embedder: str, before: str) -> ModelSwitched:
    """Make the error for a collection that was switched to another model while it was open."""
    return ModelSwitched(f"{place} was switched from {before} to {embedder} meanwhile; open it again", embedder)


def other_model_error(place: str, name: str, dim: int, embedder: str, width: int) -> StoreMismatch:
    """Make the error for opening a collection with another model than it was filled with."""
    return StoreMismatch(
        f"{place} was filled with {name} ({dim} dimensions) and cannot be searched or extended with {embedder} "
        f"({width}); open it with {name}, or run `clew reembed {embedder}`"
    )


def check_model_in_use(place: str, embedder: Embedder, name: str, dim: int) -> None:
    """Raise StoreMismatch unless `embedder` is the collection's current model."""
    if (embedder.name, embedder.dim) != (name, dim):
        raise StoreMismatch(
            f"{place} has vectors of {name} ({dim} dimensions) by now, not of {embedder.name} ({embedder.dim})"
        )
