"""Keys: who may ask the server, for which collections, within which filter, until when.

A key is shown once, when it is made; the file has a hash of its secret. The server sees a change of the file at once.
"""

import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from clew.core.errors import DriverFailed, NotFound, SettingsError
from clew.core.filter import EVERYTHING, Filter
from clew.core.suggest import format_suggestion
from clew.surface.filter_json import filter_to_json, parse_filter

Rights = Literal["read", "write"]
PREFIX: Final = "clew"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Key:
    """What a key opens. `collections` None is all of them; a key with a filter only reads."""

    id: str
    name: str = ""
    rights: Rights = "read"
    collections: frozenset[str] | None = None
    where: Filter = EVERYTHING
    created: datetime | None = None
    expires: datetime | None = None
    revoked: datetime | None = None
    hash: str = field(default="", repr=False)

    def describe_problem(self, now: datetime) -> str:
        """Why the key opens nothing: revoked or expired; empty if it is valid."""
        if self.revoked is not None:
            return "the key was revoked; ask for another"
        if self.expires is not None and self.expires <= now:
            return "the key has expired; ask for another"
        return ""

    def to_json(self) -> dict[str, Any]:
        """The key without its hash, for people."""
        times = {name: getattr(self, name) for name in ("created", "expires", "revoked")}
        return {
            "id": self.id,
            "name": self.name,
            "rights": self.rights,
            "collections": None if self.collections is None else sorted(self.collections),
            "where": filter_to_json(self.where),
            **{name: None if time is None else time.isoformat() for name, time in times.items()},
        }


class KeyFile:
    """The keys of a server, in one file that only its owner may read. Threads and processes may share it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._keys: Mapping[str, Key] = {}

    def exists(self) -> bool:
        """Whether a key was ever made; then one is needed everywhere, until the file is removed."""
        return self._read_status() is not None

    def read(self) -> Mapping[str, Key]:
        """The keys by id, as the file has them now."""
        with self._lock:
            state = self._read_status()
            if state is None:
                self._keys, self._seen = {}, None
                return self._keys
            seen = (state.st_mtime_ns, state.st_ino, state.st_size)
            if seen != self._seen:
                self._keys = self._load()
                self._seen = seen
            return self._keys

    def count_valid(self) -> int:
        """Count the keys that open something now."""
        now = datetime.now(UTC)
        return sum(not key.describe_problem(now) for key in self.read().values())

    def find(self, token: str) -> Key | None:
        """The key of a token, valid or not; None if there is none."""
        prefix, _, rest = token.partition("_")
        key_id, _, secret = rest.partition("_")
        key = self.read().get(key_id)
        known = key.hash if key else ""
        is_right = hmac.compare_digest(hash_secret(secret), known) and prefix == PREFIX
        return key if is_right else None

    def add(
        self,
        name: str = "",
        *,
        rights: Rights = "read",
        collections: frozenset[str] | None = None,
        where: Filter = EVERYTHING,
        expires: datetime | None = None,
    ) -> tuple[Key, str]:
        """Makes a key; it and its token, which is not kept anywhere."""
        if rights == "write" and where != EVERYTHING:
            raise SettingsError("a key with a filter only reads; leave out the filter, or --write")
        secret = secrets.token_urlsafe(32)
        now = datetime.now(UTC).replace(microsecond=0)
        key = Key(
            secrets.token_hex(4),
            name,
            rights,
            collections,
            where,
            created=now,
            expires=expires,
            hash=hash_secret(secret),
        )
        with self._changing() as keys:
            if name and any(each.name == name and not each.describe_problem(now) for each in keys.values()):
                raise SettingsError(f"there is a valid key of the name {name!r}; choose another, or revoke that one")
            keys[key.id] = key
        return key, f"{PREFIX}_{key.id}_{secret}"

    def revoke(self, name: str) -> Key:
        """The key of an id or name, which opens nothing from now on; one that was revoked stays as it is."""
        with self._changing() as keys:
            key = _get_key(keys, name)
            if key.revoked is None:
                key = replace(key, revoked=datetime.now(UTC).replace(microsecond=0))
            keys[key.id] = key
        return key

    def drop(self, name: str) -> Key:
        """Removes the key of an id or name from the file; what it was."""
        with self._changing() as keys:
            key = _get_key(keys, name)
            del keys[key.id]
        return key

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Key]]:
        """The keys, to be changed and written; one process at a time."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(self.file.with_suffix(".lock")):
                keys = dict(self.read())
                yield keys
                self._save(keys)
        except OSError as error:
            raise DriverFailed(
                f"the keys cannot be written to {self.file} ({error}); make its folder writable, or set server.folder"
            ) from error

    def _save(self, keys: Mapping[str, Key]) -> None:
        rows = [{**key.to_json(), "hash": key.hash} for key in keys.values()]
        draft = self.file.with_suffix(".new")
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, "keys": rows}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.file)

    def _read_status(self) -> os.stat_result | None:
        """Return the status of the file; None if it is not there. DriverFailed if that cannot be told."""
        reason: object = "it is behind a link that leads nowhere"
        try:
            return self.file.stat()
        except FileNotFoundError:
            if not any(each.is_symlink() and not each.exists() for each in (self.file, *self.file.parents)):
                return None
        except OSError as error:
            reason = error
        raise DriverFailed(f"the keys in {self.file} cannot be read ({reason}); restore the file, or set server.folder")

    def _load(self) -> dict[str, Key]:
        try:
            saved = json.loads(self.file.read_text(encoding="utf-8"))
            if saved["format"] != _FORMAT:
                raise ValueError(f"format {saved['format']!r}")
            return {row["id"]: _parse_key(row) for row in saved["keys"]}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DriverFailed(f"the keys in {self.file} cannot be read ({error}); restore the file") from error


def hash_secret(secret: str) -> str:
    """The hash that is kept of a secret. It has 256 random bits, so a fast hash cannot be guessed back."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _get_key(keys: Mapping[str, Key], name: str) -> Key:
    """The key of an id, or else of a name: the one that is not revoked, where several have it."""
    if name in keys:
        return keys[name]
    named = [key for key in keys.values() if key.name == name]
    valid = [key for key in named if key.revoked is None]
    if len(found := valid or named) == 1:
        return found[0]
    if found:
        raise NotFound(
            f"{len(found)} keys have the name {name!r}; name one by its id: {', '.join(k.id for k in found)}"
        )
    known = [*keys, *(key.name for key in keys.values() if key.name)]
    raise NotFound(f"there is no key {name!r}; {format_suggestion(name, known) or '`clew keys` lists them'}")


def _parse_key(row: Mapping[str, Any]) -> Key:
    times = {name: row.get(name) for name in ("created", "expires", "revoked")}
    return Key(
        id=row["id"],
        name=row["name"],
        rights="write" if row["rights"] == "write" else "read",
        collections=None if row["collections"] is None else frozenset(row["collections"]),
        where=parse_filter(row["where"] or None),
        **{name: datetime.fromisoformat(time) if time else None for name, time in times.items()},
        hash=row["hash"],
    )


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Holds a lock on a file; other processes wait."""
    with file.open("a") as held:
        try:
            import fcntl
        except ImportError:  # Windows: the replacement of the file is atomic, and two at once are rare
            yield
            return
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
