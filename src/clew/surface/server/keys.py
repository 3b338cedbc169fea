"""Keys: who may use the server, for which collections, within which filter, until when.

A key is shown once, when it is made. The store keeps a hash of its secret, in a collection of the server's own, since a
server has several. Every server over the store sees a change at once.
"""

import hashlib
import hmac
import logging
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from clew import drivers
from clew.core.errors import CollectionDamaged, DriverFailed, NotFound, SettingsError
from clew.core.filter import EVERYTHING, Filter, filter_to_json, parse_filter
from clew.core.settings import StoreConfig
from clew.core.suggest import format_suggestion, mask_secrets
from clew.drivers import is_address, is_server_address
from clew.engine import Engine
from clew.surface.server.engines import Engines
from clew.surface.server.errors import KeyInvalid, NotAllowed
from clew.surface.settings.load import Invocation

if TYPE_CHECKING:
    from clew.drivers.store.backend import NamedRows, Values
    from clew.drivers.store.store import Store


Rights = Literal["read", "write"]
PREFIX: Final = "clew"
LOOK_SECONDS: Final = 1.0  # between two checks for the first key in a database, each with a connection of its own
_MADE: Final = ""  # the name of a marker that stays when the last key is dropped, and is False after `reset`


@dataclass(frozen=True, slots=True)
class Key:
    """A key and its rights. `collections` None means all of them; a key with a filter only reads."""

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
        """Explain why the key opens nothing: revoked or expired; empty if it is valid."""
        if self.revoked is not None:
            return "the key was revoked; ask for another"
        if self.expires is not None and self.expires <= now:
            return "the key has expired; ask for another"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the key without its hash, for people."""
        times = {name: getattr(self, name) for name in ("created", "expires", "revoked")}
        return {
            "id": self.id,
            "name": self.name,
            "rights": self.rights,
            "collections": None if self.collections is None else sorted(self.collections),
            "where": filter_to_json(self.where),
            **{name: None if time is None else time.isoformat() for name, time in times.items()},
        }


class Keys:
    """The keys of a server: values of the store that it serves. Threads and processes may share them."""

    def __init__(self, path: str, config: StoreConfig) -> None:
        self._path, self._config = path, config
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._look_again = 0.0
        self._file: tuple[int, int] | None = None  # device and inode of the opened file, in a folder
        self._was_made = False
        self.place = f"{mask_secrets(path)} ({drivers.SERVER})"

    def exists(self) -> bool:
        """Return whether a key was ever made; then every request needs one, until `reset`."""
        made: bool | None = self._read([_MADE]).get(_MADE)
        if made is None and self._was_made:
            raise DriverFailed(f"the keys in {self.place} are gone; restore a backup, or start the server again")
        self._was_made = made is not None
        return bool(made)

    def read(self) -> dict[str, Key]:
        """Return the keys by id, as they are now."""
        return self._parse(self._read())

    def count_valid(self) -> int:
        """Count the keys that open something now."""
        now = datetime.now(UTC)
        return sum(not key.describe_problem(now) for key in self.read().values())

    def find(self, token: str) -> Key | None:
        """Find the key of a token, valid or not; None if there is none."""
        prefix, _, rest = token.partition("_")
        key_id, _, secret = rest.partition("_")
        key = self._parse(self._read([key_id])).get(key_id)
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
        """Make a key; return it and its token, which is stored nowhere."""
        if rights == "write" and where != EVERYTHING:
            raise SettingsError("a key with a filter only reads; leave out the filter, or --write")
        parse_filter(filter_to_json(where))  # what cannot be read back is refused
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

        def add(keys: dict[str, Key]) -> Key:
            if name and any(each.name == name and not each.describe_problem(now) for each in keys.values()):
                raise SettingsError(f"there is a valid key of the name {name!r}; choose another, or revoke that one")
            return key

        return self._change(add), f"{PREFIX}_{key.id}_{secret}"

    def revoke(self, name: str) -> Key:
        """Revoke the key of an id or name; one that was revoked before stays as it is."""

        def revoke(keys: dict[str, Key]) -> Key:
            key = _get_key(keys, name)
            return key if key.revoked else replace(key, revoked=datetime.now(UTC).replace(microsecond=0))

        return self._change(revoke)

    def drop(self, name: str) -> Key:
        """Remove the key of an id or name; return it."""
        return self._change(lambda keys: _get_key(keys, name), keeps=False)

    def reset(self) -> None:
        """Remove all keys; a server that only this machine can reach then needs none."""

        def reset(values: "Values") -> None:
            values.clear()
            values[_MADE] = False

        with self._named_failures():
            rows = self._open(create=False)
            if rows:
                rows.change(reset)

    def close(self) -> None:
        """Close the store of the keys."""
        if self._store:
            self._store.close()

    def _open(self, *, create: bool) -> "NamedRows | None":
        with self._lock:
            if self._store is None and (create or monotonic() >= self._look_again):
                self._store = drivers.open_server_store(self._path, self._config, create=create)
                self._look_again = monotonic() + (LOOK_SECONDS if drivers.is_address(self._path) else 0)
                self._file = self._identify_file() if self._store else None
            if self._store and self._file != self._identify_file():
                raise DriverFailed("another database was put in its place; start the server again")
            return self._store.keys if self._store else None

    def _identify_file(self) -> tuple[int, int] | None:
        """Return device and inode of the keys' file: an open file stays readable when removed. OSError if removed."""
        folder = drivers.find_collection_folder(self._path, drivers.SERVER)
        found = (folder / "clew.db").stat() if folder else None
        return found and (found.st_dev, found.st_ino)

    def _read(self, names: Collection[str] | None = None) -> "Values":
        with self._named_failures():
            rows = self._open(create=False)
            return rows.read(names) if rows else {}

    def _change(self, decide: Callable[[dict[str, Key]], Key], *, keeps: bool = True) -> Key:
        """Store the key that `decide` returns, or remove it; one process at a time."""

        def change(values: "Values") -> Key:
            key = decide(self._parse(values))
            values[_MADE] = True
            values[key.id] = {**key.to_json(), "hash": key.hash}
            if not keeps:
                del values[key.id]
            return key

        with self._named_failures():
            rows = self._open(create=True)
            assert rows is not None
            return rows.change(change)

    def _parse(self, values: "Values") -> dict[str, Key]:
        try:
            return {name: _parse_key(row) for name, row in values.items() if name != _MADE}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DriverFailed(f"a key in {self.place} cannot be read ({error}); drop it, or reset the keys") from error

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        try:
            yield
        except CollectionDamaged as error:
            damage = f"{str(error).partition(';')[0]}; restore it from a backup, or remove it to begin without keys"
            raise DriverFailed(f"the keys in {self.place} cannot be reached: {damage}") from error
        except (OSError, DriverFailed) as error:
            raise DriverFailed(f"the keys in {self.place} cannot be reached: {error}") from error


def hash_secret(secret: str) -> str:
    """Hash a secret for storage. It has 256 random bits, so even a fast hash cannot be guessed back."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _get_key(keys: Mapping[str, Key], name: str) -> Key:
    """Return the key of an id or else of a name; if several have the name, the one that is not revoked."""
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


def find_server_folder(start: Invocation) -> Path:
    """Find the folder of uploads: `server.folder`, else `.server` beside the collections.

    For a database or object storage it is in the user's data folder, named by a hash of the address.
    """
    if start.settings.server.folder:
        return Path(start.settings.server.folder).expanduser().absolute()
    place = _identify_store(start.path) if is_address(start.path) else start.path
    if "://" not in place:
        return Path(place).expanduser().absolute() / ".server"
    return _find_data_folder() / "servers" / sha256(place.encode()).hexdigest()[:16]


def open_keys(start: Invocation) -> Keys:
    """Open the keys of the server."""
    return Keys(start.path, start.settings.store)


def _identify_store(address: str) -> str:
    """Return the folder or address of a store, without user, password and options."""
    if is_server_address(address):
        from clew.drivers.store.postgres.errors import identify_database

        return identify_database(address)
    from clew.drivers.store.lance.address import parse_address

    return parse_address(address).identity


def _find_data_folder() -> Path:
    """Find Clew's folder in XDG_DATA_HOME, or in ~/.local/share if that is unset or relative."""
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    try:
        return (given if given.is_absolute() else Path.home() / ".local" / "share") / "clew"
    except RuntimeError:
        raise SettingsError("there is no home folder to keep uploads in; set server.folder") from None


log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of one request. A request that needs no key, as on loopback, has all of them."""

    caller: str  # for the log and the rate: the id of the key, or the address
    collections: frozenset[str] | None = None
    where: Filter = EVERYTHING
    can_write: bool = True
    has_key: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it sees all of a collection."""
        return self.where == EVERYTHING

    def check_write(self) -> None:
        """Raise NotAllowed unless it may change collections."""
        if not self.can_write:
            raise NotAllowed("this may only read; use a key with the right to write, on a server that is not read-only")

    def choose_collection(self, name: str | None, default: str) -> str:
        """Choose the collection that a request is about: the one it names, the key's only one, or the server's."""
        if not name and self.collections is not None and len(self.collections) == 1:
            return next(iter(self.collections))
        chosen = name or default
        if self.collections is not None and chosen not in self.collections:
            raise NotAllowed(f"this key does not open the collection {chosen!r}; name one that it opens")
        return chosen

    def call(
        self,
        engines: Engines,
        collection: str | None,
        verb: Callable[[Engine], T],
        *,
        write: bool = False,
        create: bool = False,
    ) -> T:
        """Run a verb on a collection, within the filter of the key; `create` makes one if there is none."""
        if write:
            self.check_write()
        name = self.choose_collection(collection, engines.start.collection)
        engine = engines.get(name, create=create)
        try:
            return verb(engine.within(self.where))
        except DriverFailed as error:
            if engines.holds(name, engine):
                raise
            raise NotFound(f"the collection {name!r} was removed meanwhile; name another") from error


@contextmanager
def reading_keys() -> Iterator[None]:
    """Raise DriverFailed if the keys cannot be read in the block; the log says where they are and why."""
    try:
        yield
    except DriverFailed as error:
        log.error("%s", error)
        raise DriverFailed("the server cannot read its keys; its log says why, tell who runs it") from None


def make_access(key: Key, *, read_only: bool) -> Access:
    """Make the rights of a key, on a server that may be read-only."""
    can_write = key.rights == "write" and key.where == EVERYTHING and not read_only
    return Access(key.id, key.collections, key.where, can_write, has_key=True)


def authenticate(keys: Keys, token: str | None, client: str, *, needs_key: bool, read_only: bool) -> Access:
    """Return the rights of a request by its token; KeyInvalid if it needs a valid one and has none."""
    with reading_keys():
        if not needs_key and not keys.exists():  # clients of OpenAI send some key, whether it is needed or not
            return Access(client, can_write=not read_only)
        if token is None:
            raise KeyInvalid("this needs a key; send it as `Authorization: Bearer KEY`")
        key = keys.find(token)
    if key is None:
        raise KeyInvalid("the key is not known; check it, or ask for another")
    if problem := key.describe_problem(datetime.now(UTC)):
        raise KeyInvalid(problem)
    return make_access(key, read_only=read_only)
