"""Named values beside the content of a collection: jobs, sessions, claims on documents, records."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from clew.core.errors import NotFound
from clew.core.jobs import ACTIVE, Job, JobState, is_dead_worker
from clew.core.protocols import RecordKind
from clew.core.stored import ChangeSession, StoredSession, messages_to_json, parse_messages
from clew.core.suggest import format_suggestion
from clew.core.time import from_iso, to_iso
from clew.drivers.store.backend import Backend, NamedRows, Values

MAX_FINISHED = 100  # finished jobs to keep

MAX_CLAIM = 600.0  # seconds: the longest claim


class JobQueue:
    """The jobs of one collection. Every method is one transaction; several processes may call them at once.

    A worker holds a job by a lease, which it renews with `beat`. Once the lease has expired, another worker may claim
    the job.
    """

    def __init__(self, rows: NamedRows) -> None:
        self._rows = rows

    def put(self, job: Job) -> Job:
        """Queue a new job and return it with its times; remove the oldest finished jobs beyond a hundred.

        A job with the state "running" belongs to its worker from the start.
        """
        now = datetime.now(UTC)

        def put(values: Values) -> Job:
            queued = replace(
                job, created=now, updated=now, heartbeat=self._rows.clock() if job.state in ACTIVE else None
            )
            values[job.id] = _job_to_json(queued)
            ended = [name for name, value in values.items() if _parse_job(value).is_finished]
            for name in ended[:-MAX_FINISHED]:
                del values[name]
            return queued

        return self._rows.change(put)

    def get(self, job_id: str) -> Job:
        """Return the job, or NotFound."""
        found = self._rows.read([job_id])
        return _parse_job(found[job_id]) if job_id in found else self._raise_not_found(job_id)

    def all(self) -> list[Job]:
        """Return all jobs, the oldest first."""
        return [_parse_job(value) for value in self._rows.read().values()]

    def claim(
        self,
        worker: str,
        *,
        lease: float,
        max_attempts: int,
        host: str = "",
        alone: bool = False,
        dead: Set[str] = frozenset(),
    ) -> Job | None:
        """Claim the oldest job that is queued or abandoned, for `worker`; return None if there is none.

        A job is abandoned if its worker is among the `dead` or has not renewed the lease for `lease` seconds. After
        `max_attempts` attempts an abandoned job fails instead; one with a cancel request is cancelled. Jobs of other
        hosts are left to them. With `alone`, also return None if a live worker has a job: it will take the others next.
        """

        def claim(values: Values) -> Job | None:
            now, free = self._rows.clock(), list[Job]()
            for job in [job for job in map(_parse_job, values.values()) if not job.is_finished]:
                if job.state in ACTIVE and not _is_abandoned(job, now, lease, dead):
                    if alone:
                        return None
                elif job.state == "cancelling":
                    _write(values, replace(job, state="cancelled"))
                elif job.state == "running" and job.attempts >= max_attempts:
                    reason = f"given up: {job.attempts} workers ended without finishing it, the last was {job.worker}"
                    _write(values, replace(job, state="failed", error=reason))
                elif job.host in ("", host):
                    free.append(job)
            if not free:
                return None
            taken = replace(free[0], state="running", worker=worker, heartbeat=now, attempts=free[0].attempts + 1)
            return _write(values, taken)

        return self._rows.change(claim)

    def beat(self, job_id: str, worker: str, *, stage: str, done: int, total: int | None) -> JobState | None:
        """Renew the lease and store the progress; return the job's state, or None if the worker has lost the job."""

        def beat(values: Values) -> JobState | None:
            job = _get_held_job(values, job_id, worker)
            if job is not None:
                _write(values, replace(job, stage=stage, done=done, total=total, heartbeat=self._rows.clock()))
            return job.state if job else None

        return self._rows.change(beat, [job_id])

    def finish(
        self, job_id: str, worker: str, *, state: JobState, result: Mapping[str, Any] | None = None, error: str = ""
    ) -> bool:
        """End a job, or queue it again; return False, without a change, if the worker does not hold it."""

        def finish(values: Values) -> bool:
            job = _get_held_job(values, job_id, worker)
            if job is None:
                return False
            ended = replace(job, state=state, result=result or {}, error=error, heartbeat=None)
            if state == "queued":  # the worker did not fail, so its attempt does not count
                ended = replace(ended, worker="", attempts=job.attempts - 1)
                ended = replace(ended, state="cancelled") if job.state == "cancelling" else ended
            _write(values, ended)
            return True

        return self._rows.change(finish, [job_id])

    def cancel(self, job_id: str, *, lease: float, dead: Set[str] = frozenset()) -> Job:
        """Cancel a job, or ask its worker to; a finished job stays as it is."""

        def cancel(values: Values) -> Job:
            job = _parse_job(values[job_id]) if job_id in values else self._raise_not_found(job_id)
            if job.is_finished:
                return job
            is_held = job.state in ACTIVE and not _is_abandoned(job, self._rows.clock(), lease, dead)
            return _write(values, replace(job, state="cancelling" if is_held else "cancelled"))

        return self._rows.change(cancel, [job_id])

    def drop(self, matches: Callable[[str, str], bool]) -> tuple[int, list[str]]:
        """Delete the matching jobs that are finished; return how many, and the ids of matching unfinished jobs.

        matches: Gets the id of a job, and its request, result and error as lines of JSON or text.
        """

        def drop(values: Values) -> tuple[int, list[str]]:
            found = [job for job in map(_parse_job, values.values()) if matches(job.id, _list_texts(values[job.id]))]
            ended = [job.id for job in found if job.is_finished]
            for job_id in ended:
                del values[job_id]
            return len(ended), [job.id for job in found if not job.is_finished]

        return self._rows.change(drop)

    def _raise_not_found(self, job_id: str) -> Job:
        hint = format_suggestion(job_id, list(self._rows.read())) or "`clew jobs` lists them"
        raise NotFound(f"there is no job {job_id!r}; {hint}")


def _get_held_job(values: Values, job_id: str, worker: str) -> Job | None:
    job = _parse_job(values[job_id]) if job_id in values else None
    return job if job and job.worker == worker and job.state in ACTIVE else None


def _write(values: Values, job: Job) -> Job:
    """Write the job with the time of the change."""
    changed = replace(job, updated=datetime.now(UTC))
    values[job.id] = _job_to_json(changed)
    return changed


def _is_abandoned(job: Job, now: float, lease: float, dead: Set[str]) -> bool:
    return job.worker in dead or job.heartbeat is None or now - job.heartbeat > lease


def _job_to_json(job: Job) -> Values:
    times = {"created": to_iso(job.created), "updated": to_iso(job.updated)}
    return {**asdict(replace(job, request=dict(job.request), result=dict(job.result))), **times}


def _parse_job(value: Values) -> Job:
    return Job(**{**value, "created": from_iso(value["created"]), "updated": from_iso(value["updated"])})


def _list_texts(value: Values) -> str:
    return "\n".join([json.dumps(value["request"]), json.dumps(value["result"]), value["error"]])


class NamedSessions:
    """The sessions of one collection by name, as `SessionStore` describes them."""

    def __init__(self, rows: NamedRows) -> None:
        self._rows = rows

    def get(self, name: str) -> StoredSession | None:
        """Return the session with this name, or None."""
        found = self._rows.read([name])
        return _parse_session(found[name]) if name in found else None

    def update(self, name: str, change: ChangeSession) -> StoredSession:
        """Replace a session by the result of `change`, in one transaction."""

        def update(values: Values) -> StoredSession:
            made = change(_parse_session(values[name]) if name in values else StoredSession())
            values[name] = [list(made.documents), messages_to_json(made.messages), made.used, made.kept]
            return made

        return self._rows.change(update, [name])

    def drop(self, names: Sequence[str]) -> int:
        """Delete sessions; return how many existed."""
        return self._rows.change(lambda values: _drop(values, values.keys() & set(names)), names)

    def prune(self, *, max_sessions: int, used_since: float, current: str) -> int:
        """Delete old sessions, except those that are `kept`; return how many."""

        def prune(values: Values) -> int:
            loose = [(name != current, -used, name) for name, (_, _, used, kept) in values.items() if not kept]
            ordered = [name for *_, name in sorted(loose)]
            old = {name for name in ordered if values[name][2] < used_since} | set(ordered[max_sessions:])
            return _drop(values, old - {current})

        return self._rows.change(prune)

    def names(self) -> list[str]:
        """Return the names of all sessions, sorted."""
        return sorted(self._rows.read())


def _drop(values: Values, names: Collection[str]) -> int:
    for name in names:
        del values[name]
    return len(names)


def _parse_session(value: Sequence[Any]) -> StoredSession:
    documents, messages, used, kept = value
    return StoredSession(tuple(documents), parse_messages(messages), used, kept)


def claim_documents(rows: NamedRows, doc_ids: Collection[str], *, owner: str, seconds: float) -> set[str]:
    """Claim those names (row numbers of documents, or others) that nobody else has claimed, and return them.

    Ignore claims of dead processes of this machine, and claims by a clock that is far ahead. 0 seconds end a claim.
    """

    def claim(values: Values) -> set[str]:
        now = rows.clock()
        _drop(values, [name for name, each in values.items() if not _is_claimed(each, now)])
        free = {doc_id for doc_id in doc_ids if values.get(doc_id, (owner, 0))[0] == owner}
        values.update({doc_id: [owner, now + seconds] for doc_id in free})
        return free

    return rows.change(claim) if doc_ids else set()


def has_claims(rows: NamedRows, prefix: str, *, other_than: str = "") -> bool:
    """Return whether there is a claim whose name has the prefix, apart from `other_than`."""
    return _has_others(rows.read(), prefix, other_than, rows.clock())


def end_claim_among(rows: NamedRows, prefix: str, name: str, *, owner: str, seconds: float) -> bool:
    """End a claim if there are others with the prefix, else renew it; return whether it ended."""

    def decide(values: Values) -> bool:
        now = rows.clock()
        if has_others := _has_others(values, prefix, name, now):
            values.pop(name, None)
        else:
            values[name] = [owner, now + seconds]
        return has_others

    return rows.change(decide)


def _has_others(values: Values, prefix: str, name: str, now: float) -> bool:
    return any(key.startswith(prefix) and key != name and _is_claimed(each, now) for key, each in values.items())


def _is_claimed(claim: Sequence[Any], now: float) -> bool:
    by, until = claim
    return now < until <= now + MAX_CLAIM and not is_dead_worker(by)


class NamedRecords:
    """The records of one collection by kind and name, as `RecordStore` describes them; each line is a value."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def read_all(self, kind: RecordKind) -> dict[str, str]:
        """Return the texts of a kind by name, sorted."""
        lines = defaultdict[str, list[str]](list)
        for key, text in self._backend.named(kind).read().items():
            lines[key.rpartition("/")[0]].append(text)
        return {name: "".join(lines[name]) for name in sorted(lines)}

    def read(self, kind: RecordKind, name: str = "") -> str:
        """Return the text, empty if there is none."""
        return self.read_all(kind).get(name, "")

    def write(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Replace a text in one transaction; an empty text deletes it."""

        def write(values: Values) -> None:
            _drop(values, [key for key in values if key.rpartition("/")[0] == name])
            if text:
                values[f"{name}/0"] = text

        rows = self._backend.named(kind)
        rows.change(write)
        if kind == "erasing" and not text:  # the names in it are erased, so its bytes must go too
            rows.purge()

    def append(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Append to a text, at a cost independent of its length."""
        rows = self._backend.named(kind)
        key = f"{name}/{rows.clock():.6f}"
        rows.change(lambda values: values.update({key: values.get(key, "") + text}), [key])

    def describe(self, kind: RecordKind, name: str = "") -> str:
        """Describe where the text is stored."""
        return f"the value {name!r} of {kind} in {self._backend.place}"

    def locate(self, kind: RecordKind, name: str = "") -> None:
        """Return None: there is no file."""
