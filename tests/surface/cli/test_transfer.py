"""export, restore and reembed through the command line."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.surface.cli.conftest import Clew


def test_export_and_restore(clew: "Clew") -> None:
    done = clew("export", "all.zip")
    assert done.code == 0, done.err
    assert done.out == "5 documents with 7 chunks exported to all.zip\n"
    shape = clew("export", "all.zip", "--json").json
    assert list(shape) == ["file", "documents", "chunks", "embedder", "dim", "language", "parts", "format", "bytes"]
    assert (shape["documents"], shape["embedder"], shape["dim"]) == (5, "hashed", 256)
    restored = clew("restore", "all.zip", "--path", "other")
    assert restored.out.startswith("5 added, 0 changed, 0 skipped, 0 failed; 7 chunks, 0 embedded, 7 reused")
    assert clew.hits("keys") == clew.hits("keys", "--path", "other")
    again = clew("restore", "all.zip", "--path", "other", "--json").json
    assert (again["added"], again["skipped"]) == ([], 5)


def test_a_new_collection_takes_the_embedder_of_the_file(fresh: "Clew") -> None:
    assert fresh("add", "pages", "--embedder", "hashed:64").code == 0
    assert fresh("export", "all.zip", CLEW_EMBEDDER__NAME="").code == 0
    restored = fresh("restore", "all.zip", "--path", "other", CLEW_EMBEDDER__NAME="")
    assert restored.code == 0, restored.err
    assert fresh("status", "--path", "other", "--json", CLEW_EMBEDDER__NAME="").json["embedder"] == "hashed:64"
    refused = fresh("restore", "all.zip", "--path", "third", "--embedder", "hashed")
    assert refused.code == 7
    assert "hashed:64 (64 dimensions)" in refused.err


def test_a_damaged_file_makes_no_collection(fresh: "Clew") -> None:
    assert fresh("add", "pages").code == 0
    assert fresh("export", "all.zip").code == 0
    file = fresh.folder / "all.zip"
    data = bytearray(file.read_bytes())
    data[500] ^= 1
    file.write_bytes(data)
    refused = fresh("restore", "all.zip", "--path", "other")
    assert refused.code == 4
    assert "the part documents-00001.parquet is damaged" in refused.err
    assert not (fresh.folder / "other").exists()
    assert fresh("export", "all.zip", "--path", "nowhere").code == 3


def test_reembed_and_back(fresh: "Clew") -> None:
    assert fresh("add", "pages").code == 0
    before = fresh.hits("keys")
    done = fresh("reembed", "--to", "hashed:64")
    assert done.code == 0, done.err
    assert re.fullmatch(
        r"\d+ texts embedded \(chunks and summaries\); the collection uses hashed:64 \(64 dimensions\)\n", done.out
    )
    assert fresh("search", "keys").code == 7  # the environment still names the old one
    assert fresh.hits("keys", CLEW_EMBEDDER__NAME="hashed:64")
    shape = fresh("reembed", "--back", "--json").json
    assert (shape["embedder"], shape["dim"], shape["embedded"]) == ("hashed", 256, 0)
    assert fresh.hits("keys") == before
    assert fresh("reembed", "--discard").out == "unused vectors deleted; the collection uses hashed\n"
    assert fresh("reembed", "--discard").code == 3
    assert fresh("reembed").code == 2
    converted = fresh("reembed", "--to", "hashed#64#int8")
    assert converted.out.endswith(
        "vectors of chunks and summaries converted, none embedded; the collection uses hashed#64#int8 (64 dimensions)\n"
    )
    assert fresh("reembed", "--back").code == fresh("reembed", "--discard").code == 0
    stopped = fresh("reembed", "--to", "hashed:64", "--max-cost", "0", CLEW_EMBEDDER__PRICE="1")
    assert stopped.code == 4
    assert "stopped at 0.0000 spent" in stopped.err
