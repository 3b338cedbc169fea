"""Answers kept on disk, so that no question is paid for twice."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clew.core.errors import DriverFailed
from clew.core.protocols import LLM, LLMFailure, Usage
from clew.drivers.llm.ask import Ask, asks
from clew.drivers.llm.many import Answer, answer_all

MARK = 0x434C414E  # "CLAN", the application id that tells an answer cache from any other SQLite file
VERSION = 1
WAIT = 60.0  # seconds that one writer waits for another
BATCH = 500  # keys that are looked up at once; older SQLite takes 999
TABLE = "CREATE TABLE answers(key TEXT PRIMARY KEY, model TEXT NOT NULL, answer BLOB NOT NULL) WITHOUT ROWID"


class CachedLLM:
    """Another LLM, with its answers kept in one SQLite file by model, system, prompt, max_tokens and temperature.

    Any number of threads and processes may share the file. Each answer is kept as it arrives, so what is interrupted
    goes on where it stood. Failures and empty answers are not kept.
    """

    def __init__(self, llm: LLM, path: str | Path) -> None:
        self._llm = llm
        self._path = Path(path).expanduser()
        self._lock = threading.Lock()
        self._cached = 0
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DriverFailed(f"{self._path}: cannot be made an answer cache ({error}); give another file") from error
        with self._open():
            pass  # so that a file that is no cache fails at the door

    def __repr__(self) -> str:
        return f"CachedLLM({self._llm!r}, {str(self._path)!r})"

    @property
    def name(self) -> str:
        return self._llm.name

    @property
    def usage(self) -> Usage:
        """What all calls so far took; every answer is either one of `calls` or one of `cached`."""
        return self._llm.usage + Usage(cached=self._cached)

    def complete(self, prompt: str, *, system: str = "", max_tokens: int = 300, temperature: float = 0.0) -> str:
        """The kept answer, or the model's."""
        ask = Ask(prompt, system, max_tokens, temperature)
        kept = self._kept([ask])
        if ask in kept:
            self._count(1)
            return kept[ask]
        answer = self._fresh(ask)
        self._keep(ask, answer)
        return answer

    def complete_many(
        self,
        prompts: Sequence[str],
        *,
        system: str = "",
        max_tokens: int = 300,
        temperature: float = 0.0,
        max_concurrent: int = 5,
    ) -> list[str | LLMFailure]:
        """One answer or failure a prompt, in order; equal prompts are asked once, at most so many at once."""
        asked = asks(prompts, system=system, max_tokens=max_tokens, temperature=temperature)
        unique = list(dict.fromkeys(asked))
        answers: dict[Ask, Answer] = dict(self._kept(unique))
        new = [ask for ask in unique if ask not in answers]
        answers.update(zip(new, answer_all(new, self._attempted, max_concurrent=max_concurrent), strict=True))
        given = sum(isinstance(answers[ask], str) for ask in asked)
        self._count(given - sum(isinstance(answers[ask], str) for ask in new))
        return [answers[ask] for ask in asked]

    def _attempted(self, ask: Ask) -> Answer:
        # Only the model's failure is one prompt's; a cache that cannot be written ends the work before more is paid.
        try:
            answer = self._fresh(ask)
        except DriverFailed as failure:
            return LLMFailure(str(failure))
        self._keep(ask, answer)
        return answer

    def _fresh(self, ask: Ask) -> str:
        return self._llm.complete(ask.prompt, system=ask.system, max_tokens=ask.max_tokens, temperature=ask.temperature)

    def _count(self, cached: int) -> None:
        with self._lock:
            self._cached += cached

    def _kept(self, asked: Sequence[Ask]) -> dict[Ask, str]:
        """The answers that are on disk."""
        keys = {ask.key(self.name): ask for ask in asked}
        names = list(keys)
        found: dict[Ask, str] = {}
        with self._open() as db:
            for start in range(0, len(names), BATCH):
                some = names[start : start + BATCH]
                marks = ",".join("?" * len(some))
                for key, answer in db.execute(f"SELECT key, answer FROM answers WHERE key IN ({marks})", some):
                    found[keys[key]] = bytes(answer).decode("utf-8", "surrogatepass")
        return found

    def _keep(self, ask: Ask, answer: str) -> None:
        if not answer.strip():
            return
        row = (ask.key(self.name), self.name, answer.encode("utf-8", "surrogatepass"))
        with self._open() as db:
            db.execute("INSERT INTO answers VALUES(?, ?, ?) ON CONFLICT DO NOTHING", row)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # A connection each time: a model is slower by far, and so neither threads nor forks can share one.
        try:
            db = sqlite3.connect(self._path, timeout=WAIT, isolation_level=None)
            try:
                db.execute("PRAGMA synchronous = NORMAL")
                self._check(db)
                yield db
            finally:
                db.close()
        except sqlite3.OperationalError as error:
            reason = f"{self._path}: the answer cache cannot be used now ({error})"
            raise DriverFailed(f"{reason}; check the disk and the permissions, then try again") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise DriverFailed(f"{self._path}: the answer cache is damaged ({error}); delete the file") from error

    def _check(self, db: sqlite3.Connection) -> None:
        """Makes the table of a new file, and refuses one that holds something else."""
        if _state(db) == (0, 0, 0):
            db.execute("BEGIN IMMEDIATE")
            if _state(db) == (0, 0, 0):  # still: another process may have been faster
                db.execute(TABLE)
                db.execute(f"PRAGMA application_id = {MARK}")
                db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("COMMIT")
        mark, version, _ = _state(db)
        if mark != MARK:
            raise DriverFailed(f"{self._path}: holds something other than answers; give another file for the cache")
        if version != VERSION:
            raise DriverFailed(f"{self._path}: was made by another version of Clew; delete the file")


def _state(db: sqlite3.Connection) -> tuple[int, int, int]:
    """The mark, the version and the number of tables of a file: all 0 for a new one."""
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return mark, version, tables
