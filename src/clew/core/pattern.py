"""Regular expressions that are compiled when they are first used: a search imports hundreds and uses a few."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as compile_pattern
else:

    class compile_pattern:  # noqa: N801 - called like `re.compile`
        """Stands for a compiled pattern; its methods are those of the pattern from their first use on."""

        def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
            self._source = (pattern, flags)

        def __getattr__(self, name: str) -> Any:
            if name == "_compiled":
                self._compiled = re.compile(*self._source)
                return self._compiled
            value = getattr(self._compiled, name)
            setattr(self, name, value)
            return value


__all__ = ["compile_pattern"]
