"""What the server does not tell its clients: where on its disk, or in which database, things are."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from clew.core.errors import ClewError
from clew.core.secret import mask_secrets
from clew.drivers import is_address

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
