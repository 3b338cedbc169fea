"""Addresses of collections as Lance datasets: a folder (lance://…) or object storage (s3://bucket/…)."""

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from clew.core.errors import SettingsError

FOLDER = "lance"
_SERVER_OPTIONS = {  # options for an endpoint or account, in the address or the environment
    "s3": ("aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint"),
    "az": ("azure_storage_endpoint", "azure_endpoint", "endpoint", "azure_storage_account_name", "account_name"),
}


@dataclass(frozen=True, slots=True)
class Address:
    """The root of datasets, and the options of the object store, which may contain secrets."""

    root: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """The root, for messages, without options."""
        return self.root

    @property
    def identity(self) -> str:
        """A normalised address, the same for every spelling, but different for another endpoint or account."""
        scheme, mark, path = self.root.partition("://")
        if not mark:
            return self.root
        names = _SERVER_OPTIONS.get(scheme, ())
        known = [{name.lower(): value for name, value in each.items()} for each in (self.options, os.environ)]
        server = next((each[name] for each in known for name in names if each.get(name)), "").rstrip("/").lower()
        return f"{scheme}://{posixpath.normpath(path)}" + (f" at {server}" if server else "")

    def join(self, *names: str) -> str:
        """Append names to the root."""
        return "/".join((self.root, *names))


def parse_address(address: str) -> Address:
    """Parse an address, `lance:///folder` or `s3://bucket/prefix`; SettingsError if it names nothing.

    After `?` come options of the object store (`endpoint`, `region`, `allow_http` …). Better give keys in the
    environment, where the object store finds them.
    """
    parts = urlsplit(address)
    if parts.scheme == FOLDER:
        path = unquote(f"{parts.netloc}{parts.path}")
        if not path.strip("/"):
            raise SettingsError("lance:// names no folder; give lance:///folder or lance://folder")
        try:
            return Address(str(Path(path).expanduser().resolve()))
        except (OSError, RuntimeError) as error:  # a circular link, or the home of an unknown user
            raise SettingsError(f"{FOLDER}://{path} is no folder ({error}); give lance:///folder") from error
    if not parts.netloc:
        raise SettingsError(f"{parts.scheme}:// names no bucket; give {parts.scheme}://bucket/prefix")
    if "@" in parts.netloc:
        raise SettingsError(f"{parts.scheme}://bucket has no user; give keys by the environment or after `?`")
    root = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    return Address(root, dict(parse_qsl(parts.query, keep_blank_values=True)))
