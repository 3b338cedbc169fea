"""What a request may do: the rights of its key, and the engine that they open."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from clew.core.errors import DriverFailed, NotFound
from clew.core.filter import EVERYTHING, Filter
from clew.engine import Engine
from clew.surface.server.engines import Engines
from clew.surface.server.errors import KeyInvalid, NotAllowed
from clew.surface.server.keys import Key, Keys

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of one request. Without a key, as on loopback, everything."""

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
        """Raises NotAllowed unless it may change collections."""
        if not self.can_write:
            raise NotAllowed("this may only read; use a key with the right to write, on a server that is not read-only")

    def choose_collection(self, name: str | None, default: str) -> str:
        """The collection that a request is about: the one it names, the key's only one, or the server's."""
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
        """The result of a verb on a collection, within the filter of the key; `create` makes one if there is none."""
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
    """The rights of a key, on a server that may be read-only."""
    can_write = key.rights == "write" and key.where == EVERYTHING and not read_only
    return Access(key.id, key.collections, key.where, can_write, has_key=True)


def authenticate(keys: Keys, token: str | None, client: str, *, needs_key: bool, read_only: bool) -> Access:
    """The rights of a request by its token; KeyInvalid if it needs a valid one and has none."""
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
