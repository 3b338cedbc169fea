"""The files of the page and the paths that only it asks, without a browser."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew import Filter
from clew.surface.web import FILES
from clew.surface.web.routes import TUNABLE
from tests.surface.server.conftest import Running, fill, serving

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "web"
MAX_BYTES = 200_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("page") / "store"
    fill(path)
    with serving(path) as running:
        yield running


def test_the_page_is_served_compressed_and_only_once(served: Running) -> None:
    total = 0
    for path, media_type in FILES.items():
        reply = served.get(path, headers={"accept-encoding": "gzip"})
        assert (reply.status_code, reply.headers["content-type"]) == (200, media_type)
        assert reply.headers["content-encoding"] == "gzip"
        assert "default-src 'self'" in reply.headers["content-security-policy"]
        assert served.get(path, headers={"accept-encoding": "identity"}).content == reply.content
        again = served.get(path, headers={"if-none-match": reply.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        total += int(reply.headers["content-length"])
    assert total <= MAX_BYTES


def test_the_page_names_no_other_host(served: Running) -> None:
    page = served.get("/").text
    assert "http://" not in page
    assert "https://" not in page
    assert 'src="/page/app.js"' in page


def test_the_built_files_are_of_these_sources() -> None:
    files = sorted(
        ["index.html", "package.json", "package-lock.json", "vite.config.js"]
        + [str(path.relative_to(SOURCES)) for path in (SOURCES / "src").rglob("*.*")]
    )
    found = hashlib.sha256()
    for name in files:
        found.update(f"{name}\n".encode() + (SOURCES / name).read_bytes())
    built = ROOT / "src" / "clew" / "surface" / "web" / "page" / "sources.sha256"
    assert built.read_text() == f"{found.hexdigest()}\n", (
        "the page was not built after its last change; run `make page`"
    )


def test_what_the_page_asks_besides_the_verbs(served: Running) -> None:
    info = served.get("/v1/page/info").json()
    assert (info["collection"], info["can_write"], info["has_model"]) == ("default", True, False)
    assert {"hybrid", "auto"} <= set(info["strategies"])
    names = served.get("/v1/page/names").json()
    assert names == {"kinds": ["page", "thread"], "channels": ["board", "ops"], "authors": ["ada", "ben", "eve"]}
    reply = served.get("/v1/page/threads", params={"channel": "ops"}).json()
    assert sum(each["messages"] for each in reply["threads"]) == 2
    assert min(each["first"] for each in reply["threads"]) == "2026-03-01T09:00:00+00:00"
    assert reply["days"] == {"2026-03-01": 2}


def test_every_setting_that_why_not_names_can_be_tried(served: Running) -> None:
    body = {"query": "vault key", "target": "keys", "tokens": 100}
    for name, values in TUNABLE.items():
        if name == "conversation.mmr":  # needs another setting beside it
            continue
        tried = {**body, "settings": {name: values[0]}}
        assert served.post("/v1/page/why-not", tried).status_code == 200, name
    floor = {"query": "vault key", "settings": {"search.min_relevance": 1.0}}
    assert served.post("/v1/page/search", floor).json()["hits"] == []
    assert served.post("/v1/search", {"query": "vault key"}).json()["hits"]  # nothing is kept
    whole = served.post("/v1/page/explain", {"query": "vault key", "settings": {"search.semantic_weight": 1}}).json()
    assert whole["hits"][0]["document"]["id"] == "keys"
    cut = served.post("/v1/page/context", {"query": "vault key", "settings": {"context.min_relevance": 1}}).json()
    assert cut["passages"] == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"llm.api_key": "x"}, "cannot be set here"),
        ({"search.min_relevance": "much"}, "takes values such as"),
        ({"search.min_relevance": 2}, "between 0 and 1"),
        ({"search.candidates": 10**9}, "more than can be tried here"),
    ],
)
def test_other_settings_are_refused(served: Running, settings: dict[str, object], said: str) -> None:
    reply = served.post("/v1/page/search", {"query": "vault key", "settings": settings})
    assert reply.status_code in (400, 422)
    assert said in reply.json()["error"]["message"]


def test_a_chat_of_the_page_goes_on_in_a_terminal(served: Running) -> None:
    asked = served.post("/v1/page/chats/page-1", {"query": "Who rotates the vault key?"})
    assert asked.headers["content-type"].startswith("text/event-stream")
    assert "Dan rotates the vault key" in asked.text
    chat = served.server.engines.get("default").chat("page-1")  # as `clew chat --session page-1` opens it
    chat.ask("When is soup served?")
    [kept] = served.get("/v1/page/chats").json()["chats"]
    assert kept["name"] == "page-1"
    assert [each["text"] for each in kept["messages"][::2]] == ["Who rotates the vault key?", "When is soup served?"]
    assert served.http.delete("/v1/page/chats/page-1").json() == {"dropped": 1}
    assert served.get("/v1/page/chats").json() == {"chats": []}


def test_a_server_with_keys_keeps_no_chats(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with serving(tmp_path / "store") as running:
        assert running.post("/v1/page/chats/secret", {"query": "When is soup served?"}).status_code == 200
        _, token = running.server.keys.add("another", rights="write")
        running.http.headers["authorization"] = f"Bearer {token}"
        assert running.get("/v1/page/info").json()["keeps_chats"] is False
        assert running.get("/v1/page/chats").json() == {"chats": []}
        assert running.post("/v1/page/chats/secret", {"query": "When is soup served?"}).status_code == 403
        assert running.http.delete("/v1/page/chats/secret").status_code == 403


def test_a_key_sees_only_its_part_on_the_page(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with serving(tmp_path / "store") as running:
        _, token = running.server.keys.add("ops", where=Filter(channels=frozenset({"ops"})))
        assert running.get("/").status_code == 200  # the files are open: they ask for the key
        assert running.get("/v1/page/info").status_code == 401
        running.http.headers["authorization"] = f"Bearer {token}"
        assert running.get("/v1/page/info").json()["can_write"] is False
        assert running.get("/v1/page/names").json() == {
            "kinds": ["thread"],
            "channels": ["ops"],
            "authors": ["ada", "ben"],
        }
        assert running.get("/v1/page/threads", params={"channel": "board"}).json() == {"threads": [], "days": {}}
