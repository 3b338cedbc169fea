"""The columns of a collection: one dataset holds the head, documents, their pieces of text, and chunks as its rows.

So a document changes in one commit of Lance, whole, with all that belongs to it. Columns that a kind of row has no use
for are null, which costs next to nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clew.core.types import Matrix
from clew.drivers.store.checks import other_format_error
from clew.drivers.store.lance.table import HEAD

HEAD_KIND, DOCUMENT, PIECE, CHUNK = 0, 1, 2, 3
FORMAT = 1  # of the columns

_COMMON: Final = (("kind", pa.uint8()), ("row", pa.int64()), ("doc", pa.int64()), ("id", pa.string()))
# As `codec.RECORD_COLUMNS` names them, with the kind of a document apart from the kind of a row.
_RECORD: Final = (
    *((name, pa.string()) for name in ("title", "uri", "document_kind", "hash", "stamp", "summary", "access")),
    *((name, pa.string()) for name in ("summary_by", "created", "updated")),
    ("revision", pa.int64()),
)
_PIECE: Final = (
    ("n", pa.int64()),
    ("sections", pa.string()),
    ("chars", pa.int64()),
    ("chunks", pa.int64()),
    *((name, pa.string()) for name in ("message", "parent", "awaits")),
)
_CHUNK: Final = (
    *((name, pa.int64()) for name in ("piece", "idx", "start", "stop", "print")),
    *((name, pa.string()) for name in ("text", "headings", "context", "at", "meta", "channel")),
    ("seconds", pa.float64()),
    ("length", pa.int64()),
    ("sum", pa.int64()),
)
SCALARS: Final = tuple(name for name, _ in (*_COMMON, *_RECORD, *_PIECE, *_CHUNK))
ARRAYS: Final = ("facets", "terms", "counts", "vector")  # `vector` is of a chunk, or of the summary of a document
Row = dict[str, Any]  # by the name of the column; what is missing is null


def make_schema(dim: int, *, is_half: bool) -> pa.Schema:
    """The columns for vectors of this width."""
    vectors = make_vector_type(dim, is_half=is_half)
    arrays = (pa.list_(pa.string()), pa.list_(pa.int64()), pa.list_(pa.uint16()), vectors)
    return pa.schema([*_COMMON, *_RECORD, *_PIECE, *_CHUNK, *zip(ARRAYS, arrays, strict=True)])


def make_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows as the table that is written; terms, counts and vectors are numpy arrays."""
    columns: list[pa.Array] = []
    for column in schema:
        values = [row.get(column.name) for row in rows]
        if column.name == "vector":
            columns.append(make_vector_column(values, column.type))
        else:
            columns.append(pa.array(values, column.type))
    return pa.table(columns, schema=schema)


def make_vector_type(dim: int, *, is_half: bool) -> pa.DataType:
    """The type of a column of vectors: single precision, or half of it."""
    return pa.list_(pa.float16() if is_half else pa.float32(), dim)


def make_vector_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Vectors, some of them None, as a column of this type."""
    dim, form = kind.list_size, kind.value_type.to_pandas_dtype()
    empty = np.zeros(dim, form)
    flat = np.concatenate([empty if value is None else value for value in values]) if values else empty[:0]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.astype(form), kind.value_type), dim, mask=mask)


def read_vector_column(column: Any, dim: int) -> Matrix:
    """A column of vectors without nulls as a matrix."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    found = whole.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(found, np.float32).reshape(len(whole), dim)


@dataclass(frozen=True, slots=True)
class Head:
    """What is said of the whole collection; its row is replaced by every commit."""

    embedder: str
    dim: int
    created: str
    change: int = 0
    documents: int = 0
    chunks: int = 0
    length: int = 0  # of all chunks in terms
    last: int = HEAD  # the greatest number of a row so far
    calibration: str = ""
    staged: Mapping[str, Any] | None = None  # the model of the staged vectors and their dataset
    erased: str = ""  # when an erasure removed older versions
    paused: float = 0.0  # until when writers wait for an erasure, in seconds since 1970
    format: int = FORMAT
    is_half: bool = False  # vectors are kept in half precision

    def to_row(self) -> Row:
        """The head as a row."""
        return {"kind": HEAD_KIND, "row": HEAD, "doc": HEAD, "id": "", "text": json.dumps(asdict(self))}


def parse_head(text: str, place: str) -> Head:
    """The head of its row's text; StoreMismatch if another version of Clew wrote it."""
    columns = json.loads(text)
    if columns["format"] != FORMAT:
        raise other_format_error(place, columns["format"], FORMAT)
    return Head(**columns)
