"""Links in a text: URLs, paths and file names, and whether one of them points to a document.

Adding a message stores the last part of each link (`links` in its meta), so that a filter finds the threads that may
cite a page. Reading then compares the whole link.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

# Suffixes of files that are cited by name; a test compares them with the readers. Not `org`: in a message it is mostly
# the end of a host name.
EXTENSIONS = frozenset(
    (
        *("md", "markdown", "mdown", "mkd", "mdx", "txt", "rst", "adoc", "asciidoc", "tex", "html", "htm", "xhtml"),
        *("pdf", "rtf", "epub", "doc", "docx", "odt", "ppt", "pptx", "odp", "xls", "xlsx", "ods", "csv", "tsv"),
        *("ipynb",),
    )
)
_URL = re.compile(r"https?://[^\s<>|\"'`)\]}]+")
_PATH = re.compile(
    rf"(?<![\w/.@-])(?:[\w.-]+/)*[\w-][\w.-]*\.(?:{'|'.join(sorted(EXTENSIONS))})\b(?!\.\w)", re.IGNORECASE
)
_TRAILING = ".,;:!?…"


@dataclass(frozen=True, slots=True)
class Link:
    """A parsed link: the host of a URL, the folders and the file name in lower case, and the extension, if any."""

    host: str
    parts: tuple[str, ...]
    extension: str = ""

    @property
    def name(self) -> str:
        """The last part, which is stored for filters."""
        return self.parts[-1]


def extract_links(text: str) -> list[Link]:
    """Extract the distinct links of a text, in order."""
    found: dict[Link, None] = {}
    for url in _URL.findall(text):
        if link := parse_link(url.rstrip(_TRAILING)):
            found[link] = None
    for path in _PATH.findall(_URL.sub(" ", text)):
        if link := parse_link(path):
            found[link] = None
    return list(found)


@lru_cache(maxsize=4096)
def parse_link(address: str) -> Link | None:
    """Parse a link from a URL or a path; None if it has no path or is not a valid URL."""
    try:
        split = urlsplit(address) if "://" in address else None
    except ValueError:  # http://[ without an address
        return None
    path = unquote(split.path) if split else address
    parts = [part for part in path.lower().replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if not parts:
        return None
    last = PurePosixPath(parts[-1])
    ending = last.suffix.removeprefix(".")
    known = ending in EXTENSIONS
    host = (split.hostname or "") if split else ""
    return Link(host, (*parts[:-1], last.stem if known else parts[-1]), ending if known else "")


def is_link_to(link: Link, uri: str) -> bool:
    """Return whether a link points to the document with this uri.

    The shorter of the two paths must be a suffix of the longer one. Extensions and hosts must agree if both have one.
    """
    own = parse_link(uri)
    if own is None or (own.host and link.host and own.host != link.host):
        return False
    if link.extension and own.extension and link.extension != own.extension:
        return False
    shorter, longer = sorted((link.parts, own.parts), key=len)
    return longer[-len(shorter) :] == shorter
