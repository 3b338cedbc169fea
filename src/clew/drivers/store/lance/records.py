"""The records of a collection in Lance."""

from clew.core.protocols.records import RecordKind
from clew.drivers.store.lance.entries import Entries, EntryTable


class LanceRecords:
    """The records by kind and name; see `RecordStore`. Adding to one writes them all: they are few and small."""

    __slots__ = ("_entries",)

    def __init__(self, entries: EntryTable) -> None:
        self._entries = entries

    def names(self, kind: RecordKind) -> list[str]:
        """The names of the texts of a kind, sorted."""
        return sorted(key.partition("/")[2] for key in self._entries.read() if key.startswith(f"{kind}/"))

    def read(self, kind: RecordKind, name: str = "") -> str:
        """The text, empty if there is none."""
        return str(self._entries.read().get(f"{kind}/{name}", ""))

    def write(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Replaces a text in one transaction; an empty one deletes it."""

        def decide(entries: Entries) -> None:
            entries[f"{kind}/{name}"] = text
            if not text:
                del entries[f"{kind}/{name}"]

        self._entries.change(decide)

    def append(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Adds to the end of a text in one transaction."""

        def decide(entries: Entries) -> None:
            key = f"{kind}/{name}"
            entries[key] = entries.get(key, "") + text

        self._entries.change(decide)

    def describe(self, kind: RecordKind, name: str = "") -> str:
        """The entry of the text."""
        return f"the entry '{kind}/{name}' of the dataset records.lance"

    def locate(self, kind: RecordKind, name: str = "") -> None:
        """None: there is no file."""
