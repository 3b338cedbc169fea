"""What requests may say of documents: those to be added, and those to be erased."""

from typing import Annotated

from pydantic import Field

from clew.core.types import Document
from clew.surface.server.bodies import Body, Label, LongText, Meta, Name, Names


class DocumentBody(Body):
    """A document made by a program; its text is read as Markdown."""

    id: Name
    text: LongText
    title: Label = ""
    uri: Label = ""
    kind: Annotated[str, Field(min_length=1, max_length=100)] = "page"
    access: Names | None = None
    meta: Meta = Field(default_factory=dict)

    def build(self) -> Document:
        """The Document."""
        given = self.model_dump(exclude={"access"})
        return Document(**given, sections=(), access=None if self.access is None else frozenset(self.access))


class DocumentsBody(Body):
    """Documents to be added."""

    documents: Annotated[list[DocumentBody], Field(min_length=1, max_length=1000)]


class SourcesBody(Body):
    """Web addresses to be read."""

    sources: Annotated[
        list[Annotated[str, Field(max_length=2000, pattern=r"^https?://[!-~]+$")]], Field(min_length=1, max_length=100)
    ]


class EraseDocuments(Body):
    """Documents to be erased, by id or address."""

    documents: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    dry_run: bool = False


class EraseAuthor(Body):
    """An author, all of whose messages are to be erased."""

    author: Name
    dry_run: bool = False


class EraseChannel(Body):
    """A channel to be erased."""

    channel: Name
    dry_run: bool = False


EraseBody = EraseDocuments | EraseAuthor | EraseChannel
