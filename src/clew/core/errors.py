"""Every error that Clew raises on purpose.

    ClewError
    ├── SourceError      a file, address or export that cannot be read: names it and says why
    ├── DriverMissing    a driver's package or weights are not installed: says what to install
    ├── DriverFailed     a model, disk or database answered with an error, or not at all: says whether to try again
    │   └── Outgrown     a document that grew in the store since it was read: read it again
    ├── StoreMismatch    the collection was filled with another embedder, or by a newer Clew: names both
    ├── NotFound         no such document, strategy, driver or collection: lists the names there are
    └── SettingsError    a setting or an argument that cannot be: names it and what it may be

Each surface has one table from these to exit codes or status numbers.
"""


class ClewError(Exception):
    """Anything that Clew could not do; its text says what is wrong and what to do next."""


class SourceError(ClewError):
    """A file, address or export that cannot be read."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class DriverMissing(ClewError):
    """A driver whose package or weights are not installed."""


class DriverFailed(ClewError):
    """A model, disk or database that answered with an error, or not at all."""


class ConcurrentChange(DriverFailed):
    """An end of a document that is its end no more: another has added to it since it was read."""


class StoreMismatch(ClewError):
    """A collection that was filled in a way that does not fit how it is opened."""


class NotFound(ClewError):
    """A name that stands for nothing here."""


class SettingsError(ClewError):
    """A setting or an argument that cannot be."""
