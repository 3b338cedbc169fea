"""What a reranker is told when it is made by name."""

from typing import Protocol


class Config(Protocol):
    """Which reranker, by its exact name, and where one behind an address answers."""

    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def api_key(self) -> str: ...
