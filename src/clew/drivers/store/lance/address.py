"""Addresses of collections that are kept as Lance datasets: a folder (lance://…) or object storage (s3://bucket/…)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from clew.core.errors import SettingsError

FOLDER = "lance"
STORAGES = ("s3", "gs", "az")


@dataclass(frozen=True, slots=True)
class Address:
    """Where datasets are: the root of their paths, and the options of the object store, which may hold secrets."""

    root: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """The root, for messages: no option is in it."""
        return self.root

    def join(self, *names: str) -> str:
        """The address of something below the root."""
        return "/".join((self.root, *names))


def parse_address(address: str) -> Address:
    """The address of `lance:///folder` or `s3://bucket/prefix`; SettingsError if it names nothing.

    What stands after `?` are options of the object store (`endpoint`, `region`, `allow_http` …); keys are better given
    by the environment, as the object store reads them there.
    """
    parts = urlsplit(address)
    if parts.scheme == FOLDER:
        path = unquote(f"{parts.netloc}{parts.path}")
        if not path.strip("/"):
            raise SettingsError("lance:// names no folder; give lance:///folder or lance://folder")
        return Address(str(Path(path).expanduser().resolve()))
    if not parts.netloc:
        raise SettingsError(f"{parts.scheme}:// names no bucket; give {parts.scheme}://bucket/prefix")
    if "@" in parts.netloc:
        raise SettingsError(f"{parts.scheme}://bucket has no user; give keys by the environment or after `?`")
    root = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    return Address(root, dict(parse_qsl(parts.query, keep_blank_values=True)))
