"""The records of a collection as files of its folder."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from clew.core.errors import DriverFailed
from clew.core.protocols.records import RecordKind

NAME: Final = "*"  # stands for the name of a text in the path of its file
FILES: Final[Mapping[RecordKind, str]] = MappingProxyType(
    {"tuned": "tuned.json", "evaluations": f"evaluations/{NAME}.jsonl", "feedback": "feedback.jsonl"}
)


class FolderRecords:
    """The records in a folder; see `RecordStore`. `files` are the paths by kind."""

    def __init__(self, folder: Path, *, files: Mapping[RecordKind, str] = FILES) -> None:
        self._folder, self._files = folder, files

    def names(self, kind: RecordKind) -> list[str]:
        """The names of the texts of a kind, sorted; other files with the same ending are among them."""
        pattern = self._files[kind]
        found = sorted(self._folder.glob(pattern)) if self._folder.is_dir() else []
        return [file.stem if NAME in pattern else "" for file in found if file.is_file()]

    def read(self, kind: RecordKind, name: str = "") -> str:
        """The text, empty if there is none."""
        file = self.locate(kind, name)
        try:
            return file.read_text("utf-8") if file.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise DriverFailed(f"{file} cannot be read: {reason}; check its permissions, or delete it") from error

    def write(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Replaces a text by renaming a new file; an empty one deletes it."""
        file = self.locate(kind, name)
        with _name_failures(file):
            if not text:
                file.unlink(missing_ok=True)
                return
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name_of_draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # new and private
            draft = Path(name_of_draft)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    stream.write(text)
                draft.replace(file)
            except BaseException:
                draft.unlink()
                raise

    def append(self, kind: RecordKind, text: str, *, name: str = "") -> None:
        """Adds to the end of a text, on a line of its own."""
        file = self.locate(kind, name)
        with _name_failures(file):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(file, "a+b", opener=_open_private) as stream:
                data = text.encode()
                if stream.seek(0, os.SEEK_END):
                    stream.seek(-1, os.SEEK_END)
                    data = data if stream.read(1) == b"\n" else b"\n" + data  # after a line that was cut off
                stream.write(data)

    def describe(self, kind: RecordKind, name: str = "") -> str:
        """The path of the file."""
        return str(self.locate(kind, name))

    def locate(self, kind: RecordKind, name: str = "") -> Path:
        """The file of the text."""
        return self._folder / self._files[kind].replace(NAME, name)


@contextmanager
def _name_failures(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DriverFailed(f"{file} cannot be written: {error.strerror}; check its permissions") from error


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)  # a link may lead anywhere
