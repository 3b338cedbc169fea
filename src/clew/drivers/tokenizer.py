"""Counts tokens as the model that reads the prompt does: by its own tokenizer, a file in the tokenizers' format."""

from collections.abc import Callable
from pathlib import Path

from clew.core.errors import DriverFailed, NotFound

Count = Callable[[str], int]


def counter(path: str | Path) -> Count:
    """How many tokens a text has for the model whose `tokenizer.json` this is, special ones left out."""
    from tokenizers import Tokenizer

    if not Path(path).is_file():
        raise NotFound(f"there is no tokenizer in {path}; context.tokenizer names the model's tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exceptions
        raise DriverFailed(
            f"{path} is no tokenizer that can be read ({error}); give the model's tokenizer.json"
        ) from error
    tokenizer.no_truncation()  # a file may ask for either, and the count would be wrong
    tokenizer.no_padding()

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count
