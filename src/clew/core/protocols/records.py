"""Protocol of the records that are kept beside the content of a collection."""

from pathlib import Path
from typing import Literal, Protocol

RecordKind = Literal["tuned", "evaluations", "feedback", "erasing"]


class RecordStore(Protocol):
    """Texts kept with a collection that are no part of its content: tuned settings, runs, feedback, an erasure begun.

    Of each kind there are texts by name; a kind with one text has the empty name. Writing one does not change the
    change number. DriverFailed where the store fails, ReadOnlyStore where it can only be read.
    """

    def read_all(self, kind: RecordKind) -> dict[str, str]:
        """Return the texts of a kind by name, sorted."""

    def read(self, kind: RecordKind, name: str = "") -> str:
        """The text, empty if there is none."""

    def write(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Replaces a text, whole or not at all; an empty one deletes it, and of an erasure its bytes."""

    def append(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Adds to the end of a text, at a cost that does not grow with it; a new one starts empty."""

    def describe(self, kind: RecordKind, name: str = "") -> str:
        """Say where the text is kept, for an error that says what to delete."""

    def locate(self, kind: RecordKind, name: str = "") -> Path | None:
        """The file of the text; None where it is no file."""
