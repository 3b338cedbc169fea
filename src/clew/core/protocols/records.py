"""Protocol of the records that are kept beside the content of a collection."""

from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

RecordKind = Literal["tuned", "evaluations", "feedback"]


class RecordStore(Protocol):
    """Texts that are kept with a collection and are no part of its content: tuned settings, runs, feedback.

    Of each kind there are texts by name; a kind with one text has the empty name. Writing one does not change the
    change number. DriverFailed where the store fails, ReadOnlyStore where it can only be read.
    """

    def names(self, kind: RecordKind) -> list[str]:
        """The names of the texts of a kind, sorted."""

    def read(self, kind: RecordKind, name: str = "") -> str:
        """The text, empty if there is none."""

    def write(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Replaces a text, whole or not at all; an empty one deletes it."""

    def append(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Adds to the end of a text, at a cost that does not grow with it; a new one starts empty."""

    def describe(self, kind: RecordKind, name: str = "") -> str:
        """Where the text is kept, for an error that says what to delete."""

    def locate(self, kind: RecordKind, name: str = "") -> Path | None:
        """The file of the text; None where it is no file."""


@runtime_checkable
class KeepsRecords(Protocol):
    """A store that keeps records itself; those of any other are files in the folder of the collection."""

    @property
    def records(self) -> RecordStore:
        """The records of the collection."""
