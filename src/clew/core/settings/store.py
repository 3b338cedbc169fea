"""Settings of the embedded store, and of the jobs that a store keeps."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from clew.core.errors import SettingsError
from clew.core.settings.checks import check_min
from clew.core.time import parse_iso_or_none

Precision = Literal["float32", "half"]


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """How vectors are kept, at what size an index changes, who reads (labels), and which version is read."""

    vectors: Precision = "float32"  # of a new collection: four bytes a number, or two ("half")
    exact_below: int = 10_000  # below this every search is exact and in memory
    exact_limit: int = 200_000  # maximum that is searched in memory while the index is another process's, or is built

    access: tuple[str, ...] | None = None  # only what these labels admit is seen; None: everything
    pooler: str = field(default="", repr=False)  # address of a pooler in transaction mode before the PostgreSQL server
    as_of: str = ""  # the time of the version that is read (ISO 8601), of a collection in Lance; empty: the last one
    keep_versions: float = 30.0  # days for which versions of a collection in Lance are kept, to be read as of then

    def __post_init__(self) -> None:
        if self.vectors not in get_args(Precision):
            raise SettingsError(f"store.vectors is {self.vectors!r}; it must be float32 or half")
        check_min("store.keep_versions", self.keep_versions, 0)
        check_min("store.exact_below", self.exact_below, 0)
        check_min("store.exact_limit", self.exact_limit, 1)
        if isinstance(self.access, str):  # its letters would be the labels
            raise SettingsError(f"store.access is the text {self.access!r}; give a list of labels")
        if self.access is not None:
            object.__setattr__(self, "access", tuple(sorted(set(self.access))))
        if self.as_of and parse_iso_or_none(self.as_of) is None:
            raise SettingsError(
                f"store.as_of is {self.as_of!r}; it must be a date or a time such as 2025-05-31 or 2025-05-31T14:00"
            )


@dataclass(frozen=True, slots=True)
class JobConfig:
    """When a job is taken from a worker that is gone, and when it is given up."""

    lease: float = 60.0  # seconds without a sign of life after which another worker may take the job
    max_attempts: int = 3  # workers that may end without finishing it
    any_host: bool = False  # files that a job reads are on a share that all machines have, so any may take it

    def __post_init__(self) -> None:
        check_min("jobs.lease", self.lease, 0.1)
        check_min("jobs.max_attempts", self.max_attempts, 1)
