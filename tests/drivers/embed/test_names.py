"""The names of embedders: what is allowed after #, two as one, and what a name that is wrong is told."""

from pathlib import Path

import pytest

from clew import Document, Engine, Settings
from clew.core.errors import NotFound, SettingsError
from clew.core.settings import EmbedderConfig
from clew.drivers import make_embedder
from clew.drivers.embed.hashed import HashedEmbedder
from clew.drivers.embed.names import split_dim

ALLOWED = r"after # comes the length .*bge-small#128.* or int8 .*, or both in that order \(bge-small#128#int8\)"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hashed#int8#128", ALLOWED),
        ("hashed#128#64", ALLOWED),
        ("hashed#", ALLOWED),
        ("hashed#small", ALLOWED),
        ("hashed:64#int8#32", ALLOWED),
        ("hashed#int8#int8", ALLOWED),
        ("hashed+hashed:64#int8#int8", ALLOWED),
        ("hashed#00064", "'hashed#00064'; the length after # is in the digits 0 to 9, without a zero before it"),
        ("hashed#٦٤#int8", "the length after # is in the digits 0 to 9"),
        ("hashed#0", "'hashed#0'; vectors are cut to 2 numbers or more, as in bge-small#128"),
        ("hashed#1#int8", "vectors are cut to 2 numbers or more"),
        ("hashed#9999", "9999, and hashed has 256 numbers a vector; give 2 to 256"),
        ("hashed+hashed:64+hashed:32", "two embedders can be one, as in bge-small[+]multilingual, not more"),
    ],
)
def test_a_name_that_cannot_be_says_what_may_be(name: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make_embedder(EmbedderConfig(name=name))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hashed+nosuch", "there is no embedder 'nosuch', of 'hashed[+]nosuch'.* There are: bge-small, hashed, "),
        ("hashed+wordlama", "'wordlama', of .*; did you mean wordllama[?] There are: "),
        ("hashed+nonsense", "'nonsense', of 'hashed[+]nonsense'[.] There are: "),
        ("hashed+", "there is no embedder '', of 'hashed[+]'; two names go with a plus between"),
        ("nosuch#128", "there is no embedder 'nosuch'"),
    ],
)
def test_an_unknown_part_is_named(name: str, message: str) -> None:
    with pytest.raises(NotFound, match=message):
        make_embedder(EmbedderConfig(name=name))


def test_a_folder_may_have_any_sign() -> None:
    known = {"onnx:", "hashed"}
    assert split_dim("onnx:models/c#sharp", known) == ("onnx:models/c#sharp", 0)
    assert split_dim("onnx:models/one#128", known) == ("onnx:models/one", 128)
    with pytest.raises(Exception, match=r"c\+\+"):
        make_embedder(EmbedderConfig(name="onnx:nowhere/c++"))


def test_settings_of_vectors_hold_for_an_embedder_given_as_an_object(tmp_path: Path) -> None:
    settings = Settings(embedder=EmbedderConfig(dim=64, int8=True))
    with Engine.open(tmp_path / "a.clew", embedder=HashedEmbedder(), settings=settings) as engine:
        engine.add_documents([Document("keys", "Keys are rotated.")])
        assert (engine.status().embedder, engine.status().dim) == ("hashed#64#int8", 64)
        assert engine.search("keys")
    made = make_embedder(EmbedderConfig(name="hashed#64#int8"))
    with Engine.open(tmp_path / "a.clew", embedder=made, settings=settings) as engine:  # as it is: it has them already
        assert engine.status().documents == 1
    with pytest.raises(SettingsError, match="hashed#int8 has int8 vectors, which are not cut"):
        Engine.open(tmp_path / "b.clew", embedder=make_embedder(EmbedderConfig(name="hashed#int8")), settings=settings)
    with pytest.raises(SettingsError, match="give 2 to 32"):
        Engine.open(tmp_path / "b.clew", embedder=HashedEmbedder(32), settings=settings)
    assert not (tmp_path / "b.clew").exists()
