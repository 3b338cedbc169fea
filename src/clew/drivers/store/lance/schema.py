"""The columns of a collection: one dataset with its head and all kinds of rows.

So one commit of Lance changes a document atomically with all its rows. Unused columns of a kind of row are null, which
costs next to nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clew.core.stored import StagedModel
from clew.core.types import Matrix
from clew.drivers.store.backend import COLUMNS, STAGED, Head, Row
from clew.drivers.store.checks import other_format_error

HEAD: Final = 0  # the kind of the head's row, which every commit replaces
FORMAT: Final = 4  # of the columns
ARRAYS: Final = ("facets", "terms", "counts", "vector", "staged")
_NUMBERS: Final = frozenset(  # all others are texts
    [
        *("row", "doc", "chars", "chunks", "sum", "revision", "n", "block", "piece", "idx", "start", "stop", "print"),
        "pending",
    ]
)
SCALARS: Final = (
    "kind",
    *dict.fromkeys(name for columns in COLUMNS.values() for name in columns if name not in ARRAYS),
)


def make_schema(head: Head) -> pa.Schema:
    """Make the schema for the vectors of a collection; staged vectors may have any dimension."""
    width = pa.float16() if isinstance(head, LanceHead) and head.is_half else pa.float32()
    arrays = (pa.list_(pa.string()), pa.list_(pa.int64()), pa.list_(pa.uint16()), pa.list_(width, head.dim))
    return pa.schema(
        [
            *((name, _get_type(name)) for name in SCALARS),
            *zip(ARRAYS, (*arrays, pa.list_(pa.float32())), strict=True),
        ]
    )


def _get_type(name: str) -> pa.DataType:
    special = {"kind": pa.uint8(), "seconds": pa.float64(), "length": pa.int64()}
    return special.get(name) or (pa.int64() if name in _NUMBERS else pa.string())


def make_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Make a table from rows; terms, counts and vectors are arrays, facets a JSON list or a set."""
    columns: list[pa.Array] = []
    for column in schema:
        if column.name == "vector":
            vectors = [None if row["kind"] == STAGED else row.get("vector") for row in rows]
            columns.append(_make_vector_column(vectors, column.type))
            continue
        if column.name == "staged":
            values = [row["vector"] if row["kind"] == STAGED else None for row in rows]
        elif column.name == "facets":
            values = [_sort_facets(row.get("facets")) for row in rows]
        else:
            values = [row.get(column.name) for row in rows]
        columns.append(pa.array(values, column.type))
    return pa.table(columns, schema=schema)


def _sort_facets(facets: Any) -> list[str] | None:
    return None if facets is None else sorted(json.loads(facets) if isinstance(facets, str) else facets)


def _make_vector_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    dim, form = kind.list_size, kind.value_type.to_pandas_dtype()
    empty = np.zeros(dim, form)
    flat = np.concatenate([empty if value is None else value for value in values]) if values else empty[:0]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.astype(form), kind.value_type), dim, mask=mask)


def read_vector_column(column: Any, dim: int) -> Matrix:
    """Read a column of vectors without nulls as a matrix."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    found = whole.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(found, np.float32).reshape(len(whole), dim)


def read_rows(table: Any, dim: int) -> list[Row]:
    """Read the rows of a table or batch; terms, counts and vectors become arrays, facets a set."""
    names = table.schema.names
    rows: list[Row] = table.select([name for name in names if name not in ARRAYS]).to_pylist()
    for name in (name for name in names if name in ARRAYS):
        for row, value in zip(rows, _read_arrays(table[name], name, dim), strict=True):
            if name != "staged":
                row[name] = value
            elif row["kind"] == STAGED:
                row["vector"] = value
    return rows


def _read_arrays(column: Any, name: str, dim: int) -> Sequence[Any]:
    if name == "facets":
        return [None if own is None else frozenset(own) for own in column.to_pylist()]
    if name == "vector":
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        found = iter(read_vector_column(column.filter(column.is_valid()), dim))
        return [next(found) if is_valid else None for is_valid in valid.tolist()]
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    flat, bounds = whole.values.to_numpy(zero_copy_only=False), whole.offsets.to_numpy().tolist()
    valid = whole.is_valid().to_numpy(zero_copy_only=False).tolist()
    return [flat[bounds[at] : bounds[at + 1]] if is_valid else None for at, is_valid in enumerate(valid)]


@dataclass(frozen=True, slots=True)
class LanceHead(Head):
    """The head of a collection in Lance; every commit replaces its row."""

    created: str = ""
    erased: str = ""  # when an erasure removed older versions
    paused: float = 0.0  # until when writers wait for an erasure, in seconds since 1970
    format: int = FORMAT
    is_half: bool = False  # whether vectors are stored in half precision

    def to_row(self) -> Row:
        """Write the head as a row."""
        return {"kind": HEAD, "row": 0, "text": json.dumps(asdict(self))}


def parse_head(text: str, place: str, version: int) -> LanceHead:
    """Parse the head from the text of its row; StoreMismatch if another version of Clew wrote it."""
    columns = json.loads(text)
    if columns["format"] != FORMAT:
        raise other_format_error(place, columns["format"], FORMAT)
    staged = StagedModel(**columns.pop("staged")) if columns["staged"] else None
    return LanceHead(**{**columns, "staged": staged, "version": version})
