"""The datasets of staged vectors beside a collection: each with the number of its row and what it was made of."""

from collections.abc import Mapping

import lance
import pyarrow as pa
from lance.file import LanceFileSession

from clew.core.types import Vector
from clew.drivers.store.lance.schema import make_vector_column
from clew.drivers.store.lance.snapshot import read_rows

_PREFIX, _SUFFIX = "staged-", ".lance"


def locate_staged(folder: str, name: str) -> str:
    """Where the dataset of that name is."""
    return f"{folder}/{_PREFIX}{name}{_SUFFIX}"


def list_staged(folder: str, options: Mapping[str, str]) -> list[str]:
    """The datasets that are there, those of interrupted work among them."""
    session = LanceFileSession(folder, dict(options))
    names = [path.rstrip("/").rsplit("/", 1)[-1] for path in session.list_with_delimiter().common_prefixes]
    found = [name for name in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    return [f"{folder}/{name}" for name in sorted(found) if session.list(name)]


def _open(uri: str, options: Mapping[str, str]) -> lance.LanceDataset | None:
    try:
        return lance.dataset(uri, storage_options=dict(options))
    except (ValueError, FileNotFoundError) as error:
        if "not found" in str(error).lower():
            return None
        raise


def read_staged(uri: str, options: Mapping[str, str], dim: int) -> dict[int, tuple[str, Vector]]:
    """The staged vectors by the number of their row, with what each was made of; the last of each."""
    dataset = _open(uri, options)
    if dataset is None:
        return {}
    return {row["row"]: (row["print"], row["vector"]) for row in read_rows(dataset.to_table(), dim)}


def write_staged(uri: str, options: Mapping[str, str], dim: int, made: Mapping[int, tuple[str, Vector | None]]) -> None:
    """Adds staged vectors."""
    kind = pa.list_(pa.float32(), dim)
    schema = pa.schema([("row", pa.int64()), ("print", pa.string()), ("vector", kind)])
    vectors = make_vector_column([vector for _, vector in made.values()], kind)
    prints = pa.array([print_ for print_, _ in made.values()], pa.string())
    table = pa.table([pa.array(list(made), pa.int64()), prints, vectors], schema=schema)
    lance.write_dataset(table, uri, mode="append", storage_options=dict(options))


def drop_staged(uri: str, options: Mapping[str, str]) -> None:
    """Removes a dataset with all its files, also if the work that wrote it was interrupted."""
    if _open(uri, options) is not None:
        lance.LanceDataset.drop(uri, storage_options=dict(options), ignore_not_found=True)
    folder, _, name = uri.rpartition("/")
    session = LanceFileSession(folder, dict(options))
    for path in session.list(name):
        session.delete_file(path)
