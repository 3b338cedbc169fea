"""What a text names: addresses, paths and file names, and whether one of them means a document.

The write path keeps the last name of each link with a message (`links` in its meta), so that a filter finds the threads
that may mean a page; whether they do is decided by the whole link when it is asked for.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

ENDINGS = frozenset(
    {"md", "markdown", "txt", "rst", "adoc", "html", "htm", "pdf", "docx", "pptx", "xlsx", "csv", "ipynb"}
)
_URL = re.compile(r"https?://[^\s<>|\"'`)\]}]+")
_PATH = re.compile(rf"(?<![\w/.@-])(?:[\w.-]+/)*[\w-][\w.-]*\.(?:{'|'.join(sorted(ENDINGS))})\b(?!\.\w)", re.IGNORECASE)
_TRAILING = ".,;:!?…"


@dataclass(frozen=True, slots=True)
class Link:
    """A link by its parts: the host of an address, the folders and the name in lower case, the ending if it has one."""

    host: str
    parts: tuple[str, ...]
    ending: str = ""

    @property
    def name(self) -> str:
        """The last part, by which a filter finds it."""
        return self.parts[-1]


def links_in(text: str) -> list[Link]:
    """The links of a text in order, each once."""
    found: dict[Link, None] = {}
    rest = text
    for url in _URL.findall(text):
        rest = rest.replace(url, " ")
        if link := parsed(url.rstrip(_TRAILING)):
            found[link] = None
    for path in _PATH.findall(rest):
        if link := parsed(path):
            found[link] = None
    return list(found)


@lru_cache(maxsize=4096)
def parsed(address: str) -> Link | None:
    """The link that an address or a path is; None where it names no more than a host."""
    split = urlsplit(address) if "://" in address else None
    path = unquote(split.path) if split else address
    parts = [part for part in path.lower().replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if not parts:
        return None
    last = PurePosixPath(parts[-1])
    ending = last.suffix.removeprefix(".")
    known = ending in ENDINGS
    host = (split.hostname or "") if split else ""
    return Link(host, (*parts[:-1], last.stem if known else parts[-1]), ending if known else "")


def means(link: Link, uri: str) -> bool:
    """Whether a link is to the document of that address.

    The shorter of the two paths must be the end of the longer one. An ending that both have must agree; an address with
    another host than the document's own is another page.
    """
    own = parsed(uri)
    if own is None or (own.host and link.host and own.host != link.host):
        return False
    if link.ending and own.ending and link.ending != own.ending:
        return False
    shorter, longer = sorted((link.parts, own.parts), key=len)
    return longer[-len(shorter) :] == shorter
