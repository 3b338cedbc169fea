"""The names of embedders: a model, the length that its vectors are cut to, how they are stored, and two as one.

"bge-small", "bge-small#128", "bge-small#int8", "bge-small#128#int8"; "bge-small+multilingual", each with a length or
not, and "#int8" at the end for both.
"""

from collections.abc import Set

from clew.core.errors import NotFound, SettingsError
from clew.core.protocols import Embedder
from clew.core.quantize import INT8_MARK, has_int8_vectors
from clew.core.settings import EmbedderConfig
from clew.core.suggest import format_suggestion

JOIN_MARK = "+"  # in the name of two embedders
DIM_MARK = "#"  # before the length that vectors are cut to
_ALLOWED = (
    "after # comes the length that vectors are cut to (bge-small#128) or int8 (bge-small#int8), or both in that order "
    "(bge-small#128#int8)"
)
_BETWEEN = "two names go with a plus between."


def remove_int8_mark(name: str) -> str:
    """The name without the "#int8" at its end; SettingsError if there are two."""
    plain = name.removesuffix(INT8_MARK)
    if has_int8_vectors(plain):
        raise SettingsError(f"embedder.name is {name!r}; {_ALLOWED}")
    return plain


def split_dim(name: str, known: Set[str]) -> tuple[str, int]:
    """The model of a name without "#int8", and the length after it, 0 if there is none.

    SettingsError says what is allowed. A name with a colon may have a # in it: that of a folder.
    """
    model, mark, dim = name.rpartition(DIM_MARK)
    if not mark:
        return name, 0
    if not dim.isdecimal():
        if name.partition(DIM_MARK)[0] in known:
            raise SettingsError(f"embedder.name is {name!r}; {_ALLOWED}")
        return name, 0
    if has_int8_vectors(model) or model.partition(DIM_MARK)[0] in known - {model}:
        raise SettingsError(f"embedder.name is {name!r}; {_ALLOWED}")
    if str(int(dim)) != dim:
        raise SettingsError(
            f"embedder.name is {name!r}; the length after # is in the digits 0 to 9, without a zero before it, as in "
            "bge-small#128"
        )
    if int(dim) < 2:
        raise SettingsError(f"embedder.name is {name!r}; vectors are cut to 2 numbers or more, as in bge-small#128")
    return model, int(dim)


def check_joined(name: str, known: Set[str]) -> None:
    """NotFound for a part of two names that is not known, SettingsError for three; nothing for a folder with a plus."""
    if _is_known(name, known):
        return
    parts = name.split(JOIN_MARK)
    labels = [f"{key}…" if key.endswith(":") else key for key in known]
    for part in parts:
        if not _is_known(part, known):
            hint = format_suggestion(part, labels, max_names=1, cutoff=0.6) if part else _BETWEEN
            raise NotFound(
                f"there is no embedder {part!r}, of {name!r}{f'; {hint}' if hint else '.'} "
                f"There are: {', '.join(labels)}"
            )
    if len(parts) > 2:
        raise SettingsError(
            f"embedder.name is {name!r}; two embedders can be one, as in bge-small+multilingual, not more"
        )


def _is_known(name: str, known: Set[str]) -> bool:
    prefix, colon, _ = name.partition(":")
    return prefix.partition(DIM_MARK)[0] + colon in known


def shape_embedder(embedder: Embedder, config: EmbedderConfig) -> Embedder:
    """A given embedder with its vectors cut and stored as the settings say; itself if they say nothing of it."""
    if config.dim and config.dim != embedder.dim:
        from clew.drivers.embed.truncated import truncate_embedder

        if has_int8_vectors(embedder.name):
            raise SettingsError(
                f"embedder.dim is {config.dim}, and {embedder.name} has int8 vectors, which are not cut"
            )
        embedder = truncate_embedder(embedder, config.dim)
    if config.int8:
        from clew.drivers.embed.quantized import quantize_embedder

        return quantize_embedder(embedder)
    return embedder
