"""Tokenizers in the format of the `tokenizers` library (`tokenizer.json`): loading and counting."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from clew.core.errors import DriverFailed, NotFound

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def load_tokenizer(path: Path) -> "Tokenizer":
    """Load a tokenizer from a file; turn off the truncation and padding that the file may set."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def load_token_counter(path: str | Path) -> Callable[[str], int]:
    """Return a function that counts the tokens of a text, without special ones, with the tokenizer in a file."""
    if not Path(path).is_file():
        raise NotFound(f"there is no tokenizer in {path}; context.tokenizer names the model's tokenizer.json")
    try:
        tokenizer = load_tokenizer(Path(path))
    except Exception as error:  # the library raises bare Exceptions
        raise DriverFailed(f"{path} is not a readable tokenizer ({error}); give the model's tokenizer.json") from error

    def count_tokens(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count_tokens


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by "?": neither tokenizers nor JSON bodies accept them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
