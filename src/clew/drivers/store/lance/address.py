"""Addresses of collections that are kept as Lance datasets: a folder (lance://…) or object storage (s3://bucket/…)."""

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from clew.core.errors import SettingsError

FOLDER = "lance"
_SERVER_OPTIONS = {  # how the object store names an endpoint or account, in the address and in the environment
    "s3": ("aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint"),
    "az": ("azure_storage_endpoint", "azure_endpoint", "endpoint", "azure_storage_account_name", "account_name"),
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where datasets are: the root of their paths, and the options of the object store, which may hold secrets."""

    root: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """The root, for messages: no option is in it."""
        return self.root

    @property
    def identity(self) -> str:
        """The same text for every way to write the address; another for another endpoint or account."""
        scheme, mark, path = self.root.partition("://")
        if not mark:
            return self.root
        names = _SERVER_OPTIONS.get(scheme, ())
        known = [{name.lower(): value for name, value in each.items()} for each in (self.options, os.environ)]
        server = next((each[name] for each in known for name in names if each.get(name)), "").rstrip("/").lower()
        return f"{scheme}://{posixpath.normpath(path)}" + (f" at {server}" if server else "")

    def join(self, *names: str) -> str:
        """Join the root and what is below it to an address."""
        return "/".join((self.root, *names))


def parse_address(address: str) -> Address:
    """Parse the address of `lance:///folder` or `s3://bucket/prefix`; SettingsError if it names nothing.

    What stands after `?` are options of the object store (`endpoint`, `region`, `allow_http` …); keys are better given
    by the environment, as the object store reads them there.
    """
    parts = urlsplit(address)
    if parts.scheme == FOLDER:
        path = unquote(f"{parts.netloc}{parts.path}")
        if not path.strip("/"):
            raise SettingsError("lance:// names no folder; give lance:///folder or lance://folder")
        try:
            return Address(str(Path(path).expanduser().resolve()))
        except (OSError, RuntimeError) as error:  # a link to itself; the home folder of nobody
            raise SettingsError(f"{FOLDER}://{path} is no folder ({error}); give lance:///folder") from error
    if not parts.netloc:
        raise SettingsError(f"{parts.scheme}:// names no bucket; give {parts.scheme}://bucket/prefix")
    if "@" in parts.netloc:
        raise SettingsError(f"{parts.scheme}://bucket has no user; give keys by the environment or after `?`")
    root = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    return Address(root, dict(parse_qsl(parts.query, keep_blank_values=True)))
