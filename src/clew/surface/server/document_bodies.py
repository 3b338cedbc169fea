"""What requests may say of documents: those to be added, and those to be erased."""

from typing import Annotated

from pydantic import Field

from clew.core.types import Document
from clew.surface.server.bodies import Body
from clew.surface.server.fields import Label, LongText, Meta, Name, Names


class DocumentBody(Body):
    """A document made by a program; its text is read as Markdown."""

    id: Name = Field(description="A document of the same id is replaced.")
    text: LongText = Field(description="Markdown.")
    title: Label = ""
    uri: Label = Field("", description="Where it comes from; shown with citations, and a name for it as the id is.")
    kind: Annotated[str, Field(min_length=1, max_length=100)] = "page"
    access: Names | None = Field(None, description="Labels, one of which an asker must have; null: anybody.")
    meta: Meta = Field(default_factory=dict, description="Anything that is to be filtered by or shown.")

    def build(self) -> Document:
        """The Document."""
        given = self.model_dump(exclude={"access"})
        return Document(**given, sections=(), access=None if self.access is None else frozenset(self.access))


class DocumentsBody(Body):
    """Documents to be added."""

    documents: Annotated[list[DocumentBody], Field(min_length=1, max_length=1000)]


Address = Annotated[str, Field(max_length=2000, pattern=r"^https?://[!-~]+$")]


class SourcesBody(Body):
    """Web addresses to be read."""

    sources: Annotated[list[Address], Field(min_length=1, max_length=100, description="http and https addresses.")]


class EraseDocuments(Body):
    """Documents to be erased, by id or address."""

    documents: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    dry_run: bool = Field(False, description="Remove nothing; the receipt counts what would go.")


class EraseAuthor(Body):
    """An author, all of whose messages are to be erased."""

    author: Name
    dry_run: bool = Field(False, description="Remove nothing; the receipt counts what would go.")


class EraseChannel(Body):
    """A channel to be erased."""

    channel: Name
    dry_run: bool = Field(False, description="Remove nothing; the receipt counts what would go.")


EraseBody = EraseDocuments | EraseAuthor | EraseChannel
