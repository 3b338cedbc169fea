"""Reads every byte that is stored of a collection, so that a test can look there for what was erased."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psycopg

from clew.core.types import Vector

Stored = Iterator[tuple[str, bytes]]  # the file or column, and what is in it
_RELATIONS = (
    "SELECT c.relname::text, pg_read_binary_file(pg_relation_filepath(c.oid)) FROM pg_class c"
    " WHERE pg_relation_filepath(c.oid) IS NOT NULL AND (c.relnamespace = 'clew'::regnamespace"
    " OR c.relname = 'pg_statistic' OR c.oid IN (SELECT reltoastrelid FROM pg_class"
    " WHERE relnamespace = 'clew'::regnamespace OR relname = 'pg_statistic'))"
)


def list_forms(text: str) -> set[bytes]:
    """A text as it may be stored: as it is, escaped as JSON, and as JSON within JSON."""
    escaped = json.dumps(text)[1:-1]
    return {form.encode() for form in (text, escaped, json.dumps(escaped)[1:-1])}


def list_vector_forms(vector: Vector) -> set[bytes]:
    """A vector as it may be stored: in single and in half precision."""
    return {vector.astype(form).tobytes() for form in ("<f4", "<f2")}


def find_leftovers(needles: Iterable[bytes], stored: Iterable[tuple[str, bytes]]) -> dict[str, int]:
    """Where any of the needles stands, and how often."""
    anchors: dict[int, list[tuple[bytes, int]]] = {}  # eight bytes of each, by which all are looked for at once
    for needle in set(needles):
        at = max(range(len(needle) - 7), key=lambda start: len(set(needle[start : start + 8])))
        anchors.setdefault(int.from_bytes(needle[at : at + 8], "little"), []).append((needle, at))
    known, found = np.array(sorted(anchors), np.uint64), Counter[str]()
    for place, data in stored:
        for start in range(min(8, len(data) - 7)):
            words = np.frombuffer(data, "<u8", (len(data) - start) // 8, start)
            for word in np.flatnonzero(np.isin(words, known)):
                for needle, at in anchors[int(words[word])]:
                    found[place] += data.startswith(needle, max(0, start + 8 * int(word) - at))
    return {place: count for place, count in found.items() if count}


def read_store(store: Any) -> Stored:
    """Everything that a store keeps, of a collection in memory nothing."""
    backend = getattr(store, "_backend", store)
    if hasattr(backend, "_table"):
        return read_lake(backend._address.join(backend._collection), backend._address.options)
    if hasattr(backend, "_database"):
        return read_folder(backend._folder) if backend._folder else iter(())
    if hasattr(backend, "_pool"):
        return read_server(backend._pool.open_connection())
    return read_folder(backend.contract_folder)


def read_folder(folder: Path) -> Stored:
    """Every file of a folder. Another process reads: closing a file of SQLite would release the locks of this one."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file), subprocess.run(["cat", file], stdout=subprocess.PIPE, check=True).stdout


def read_server(connection: psycopg.Connection[Any]) -> Stored:
    """Every value of every table of Clew, and the samples in the server's statistics."""
    with connection:
        columns = connection.execute(
            "SELECT table_name::text, column_name::text, udt_name::text FROM information_schema.columns"
            " WHERE table_schema = 'clew'"
        ).fetchall()
        for table, column, kind in columns:
            for (value,) in connection.execute(f"SELECT {column}::text FROM clew.{table}").fetchall():
                yield f"{table}.{column}", (value or "").encode()
                if value and kind in ("vector", "halfvec"):
                    yield f"{table}.{column}", b"\0".join(list_vector_forms(np.array(json.loads(value), np.float32)))
                if value and kind == "bytea":
                    yield f"{table}.{column}", bytes.fromhex(value[2:])
        for (values,) in connection.execute(
            "SELECT concat(most_common_vals, histogram_bounds) FROM pg_stats WHERE schemaname = 'clew'"
        ).fetchall():
            yield "pg_stats", values.encode()


def read_server_files(connection: psycopg.Connection[Any]) -> Stored:
    """Every byte of the files of the tables of Clew, of their indexes and of the statistics, dead rows too."""
    connection.execute("CHECKPOINT")
    for name, data in connection.execute(_RELATIONS).fetchall():
        yield name, bytes(data)


def read_lake(folder: str, options: Mapping[str, str] | None = None) -> Stored:
    """Every object of a collection in Lance, and every value in its data files, of rows marked as deleted too."""
    from lance.file import LanceFileSession

    session = LanceFileSession(folder, dict(options or {}))
    with TemporaryDirectory() as home:
        for number, name in enumerate(session.list()):
            copy = Path(home, f"{number}.lance")
            session.download_file(name, str(copy))
            yield name, copy.read_bytes()
            if "/data/" in name:
                yield name, b"\0".join(_read_values(copy))


def _read_values(file: Path) -> Iterator[bytes]:
    import pyarrow as pa
    from lance.file import LanceFileReader

    for column in LanceFileReader(str(file)).read_all().to_table().itercolumns():
        for part in column.chunks:
            while not pa.types.is_primitive(part.type) and hasattr(part, "flatten"):
                part = part.flatten()
            if pa.types.is_primitive(part.type):
                yield np.asarray(part.to_numpy(zero_copy_only=False)).tobytes()
            else:
                yield "\0".join(str(each) for each in part.to_pylist()).encode()
