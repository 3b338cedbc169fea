"""What the server does not tell its clients: where on its disk, or in which database, things are."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, Final

from clew.core.errors import ClewError
from clew.core.jobs import Job
from clew.core.suggest import mask_secrets
from clew.drivers import is_address
from clew.surface.to_json import to_json

SHOWN: Final = "the store"


class Places:
    """The addresses of a store and of the server's own folder, as errors may name them."""

    def __init__(self, path: str, folder: Path) -> None:
        found = {str(folder), str(folder.resolve())}
        if is_address(path):
            found |= {path, mask_secrets(path), path.partition("?")[0], path.removeprefix("lance://")}
        else:
            whole = Path(path).expanduser()
            found |= {path, str(whole), str(whole.absolute()), str(whole.resolve())} - {".", ".."}
        longest_first = sorted(map(re.escape, found), key=len, reverse=True)
        self._pattern = re.compile(rf"(?<![\w./-])(?:{'|'.join(longest_first)})(?![\w-])")

    def hide(self, text: str) -> str:
        """The text without the addresses."""
        return self._pattern.sub(SHOWN, text)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """An error of Clew that leaves the block names none of them."""
        try:
            yield
        except ClewError as error:
            error.args = tuple(self.hide(each) if isinstance(each, str) else each for each in error.args)
            raise


_OWN = ("root", "is_upload")  # of a request: for the worker alone


def job_to_reply(job: Job, places: Places) -> dict[str, Any]:
    """The JSON of a job; paths are relative to the folder of the upload, or the last part of one elsewhere.

    Its errors do not tell where the store is.
    """
    shown: dict[str, Any] = to_json(job)
    root = str(shown["request"].get("root") or "")
    names = {f"{root}/": "", root: "."} if root else {}
    for source in shown["request"].get("sources", ()):
        if "://" not in source and not source.startswith(f"{root}/"):
            names[source] = PurePath(source).name
    shown["request"] = {name: value for name, value in shown["request"].items() if name not in _OWN}
    return {name: _rename(value, names, places) for name, value in shown.items()}


def _rename(value: Any, names: dict[str, str], places: Places) -> Any:
    """The value with every path in its texts replaced by its name."""
    if isinstance(value, str):
        for path, name in names.items():
            value = value.replace(path, name)
        return places.hide(value)
    if isinstance(value, dict):
        return {key: _rename(each, names, places) for key, each in value.items()}
    return [_rename(each, names, places) for each in value] if isinstance(value, list) else value
