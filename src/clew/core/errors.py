"""All errors that Clew raises on purpose.

    ClewError
    ├── SourceError             a file, address or export cannot be read: names it and says why
    │   ├── MalformedFile       its bytes are not valid text or JSON
    │   └── NothingRecognised   a picture or recording has no words
    ├── DriverMissing           a driver's package or weights are not installed: says what to install
    ├── DriverFailed            a model, disk or database returned an error or no answer: says whether to retry
    │   ├── ConcurrentChange    the stored document changed since it was read: read it again
    │   ├── CollectionLost      the database of a collection is gone, its other files are not: restore it
    │   ├── CollectionDamaged   stored data is corrupt or cannot be read: run `clew doctor`
    │   ├── ReadOnlyStore       the collection is read-only: a snapshot, a standby, a missing right
    │   ├── CountMismatch       an embedder returned more or fewer vectors than texts
    │   ├── RequestRefused      an HTTP server rejected the request: retrying will not help
    │   └── AttemptFailed       one attempt at a language model failed: says whether and when to retry
    ├── StoreMismatch           the collection was filled with another embedder, or by a newer Clew: names both
    │   └── ModelSwitched       it was switched to another embedder while it was open: open it again
    ├── NotFound                no such document, strategy, driver or collection: lists the existing names
    ├── SettingsError           invalid setting or argument: names it and its valid values
    ├── CostLimit               the next model call could exceed the cost limit, so it was not made
    ├── LimitReached            the next call of an agent would exceed its limits, so it was not made
    └── UnsupportedAnswer       a sentence of a language model that no passage supports (answer.unsupported = raise)

Each surface maps them to exit codes or HTTP status codes in one table.
"""

import re
from typing import Final, Self

# A command in a message, such as `clew doctor --repair`, and the commands that are not named like a method of Engine.
_COMMAND: Final = re.compile(r"`clew (?:--\w+ \S+ )?([a-z-]+)( [a-z]+)?([^`]*)`")
_FUNCTIONS: Final = {
    "collections drop": "Engine.drop_collection",
    "evaluate": "clew.evaluation.evaluate",
    "evaluate make": "clew.evaluation.make_questions",
    "jobs maintain": "Engine.enqueue_maintenance",
    "tune": "clew.evaluation.tune",
}
_COMMANDS_ONLY: Final = frozenset({"config", "keys", "mcp", "models", "serve"})


class ClewError(Exception):
    """Base class of all errors of Clew; the message says what is wrong and what to do next.

    `message` names commands of the command line, `str` the Python calls instead.
    """

    @property
    def message(self) -> str:
        """The message with commands, as the command line shows it."""
        return super().__str__()

    def __str__(self) -> str:
        return _COMMAND.sub(_name_call, self.message)


def _name_call(found: re.Match[str]) -> str:
    verb, word, rest = found[1], found[2] or "", found[3]
    if verb in _COMMANDS_ONLY:
        return found[0]
    name = _FUNCTIONS.get(verb + word) or _FUNCTIONS.get(verb) or f"Engine.{verb.replace('-', '_')}"
    flags = [f"{flag}=True" for flag in ("repair", "discard") if f"--{flag}" in rest]
    return f"`{name}({', '.join(flags)})`" if flags else f"`{name}`"


class SourceError(ClewError):
    """A file, address or export that cannot be read."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.source, self.reason)


class MalformedFile(SourceError):
    """A file that is not valid text or JSON; perhaps not a chat export at all."""


class NothingRecognised(SourceError):
    """A picture or recording without any words."""


class DriverMissing(ClewError):
    """A driver whose package or weights are not installed."""


class DriverFailed(ClewError):
    """A model, disk or database that returned an error or no answer."""


class ConcurrentChange(DriverFailed):
    """A write that was refused because somebody else changed the document after it was read."""


class CollectionLost(DriverFailed):
    """A collection whose database was deleted or emptied while its other files remain."""


class CollectionDamaged(DriverFailed):
    """A collection with stored data that is corrupt or cannot be read."""


class ReadOnlyStore(DriverFailed):
    """A write that was refused because the collection is read-only."""


class CountMismatch(DriverFailed):
    """An embedder that returned more or fewer vectors than texts, so no vector can be matched to its text."""


class RequestRefused(DriverFailed):
    """An HTTP request that the server rejected; retrying will not help."""


class AttemptFailed(DriverFailed):
    """One failed attempt at a language model: whether to retry, and after how many seconds if the provider said so."""

    def __init__(self, text: str, *, is_retryable: bool, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.is_retryable = is_retryable
        self.retry_after = retry_after


class StoreMismatch(ClewError):
    """A collection whose embedder or format does not match the way it is opened."""


class ModelSwitched(StoreMismatch):
    """A collection that was switched to another embedder while it was open; `embedder` is the new one's name."""

    def __init__(self, text: str, embedder: str = "") -> None:
        super().__init__(text)
        self.embedder = embedder

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.message, self.embedder)


class NotFound(ClewError):
    """No document, strategy, driver or collection has that name."""


class SettingsError(ClewError):
    """An invalid setting or argument."""


class CostLimit(ClewError):
    """Work that was stopped before exceeding its cost limit; finished work is kept."""


class LimitReached(ClewError):
    """A call that was not made because it would have exceeded a limit of the agent."""


class UnsupportedAnswer(ClewError):
    """A sentence of a language model that no passage supports, with `answer.unsupported = "raise"`."""
