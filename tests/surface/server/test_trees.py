"""Uploads of folders and of files with paths, and what is told of files that cannot be added."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from clew import AsyncClient, Client, Engine, NotFound, ServerError, SettingsError, SourceError
from tests.surface.server.conftest import Running


def write(folder: Path, **files: str) -> Path:
    """A folder with files; two underscores stand for a slash."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/')}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def upload(running: Running, *names: str, text: bytes = b"# Page\n\nSoup.", **query: Any) -> Any:
    """The reply to an upload of files of these names."""
    files = [("files", (name, text)) for name in names]
    return running.http.post("/v1/documents", files=files, params=query)


def wait(running: Running, job: str, **query: Any) -> Any:
    while (found := running.get(f"/v1/jobs/{job}", params=query).json())["state"] not in ("done", "failed"):
        time.sleep(0.05)
    return found


@pytest.mark.slow
def test_a_tree_keeps_its_paths(running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = write(tmp_path / "docs", README="# One", a__README="# Two", a__b__page="# Three")
    write(tree / ".git", config="# Not this")
    with Client(running.address) as client:
        report = client.add(tree)
        assert report["added"] == ["docs/README.md", "docs/a/README.md", "docs/a/b/page.md"]
        assert report["passed_over"][0]["source"].endswith("docs/.git/")
        assert client.read("docs/a/README.md")["text"] == "# Two"
        monkeypatch.chdir(tmp_path)
        (tree / "a" / "README.md").write_text("# Two again")
        assert client.add("docs/a/README.md")["changed"] == ["docs/a/README.md"]  # a relative path is kept
        monkeypatch.chdir(tree)
        assert client.add(".")["added"] == ["README.md", "a/README.md", "a/b/page.md"]
        with pytest.raises(SettingsError, match="are both uploaded as"):
            client.add(tree / "README.md", tree / "a" / "README.md")
        for name in ("missing.md", "missing"):
            with pytest.raises(SourceError, match="does not exist; nothing was uploaded"):
                client.add(tmp_path / name)


@pytest.mark.slow
def test_what_is_uploaded_is_no_file_of_the_server(running: Running, folder: Path, tmp_path: Path) -> None:
    with Client(running.address) as client:
        write(tmp_path / "one", first="# Same\n\nThe same text.")
        write(tmp_path / "two", second="# Same\n\nThe same text.")
        client.add(tmp_path / "one" / "first.md")
        assert client.add(tmp_path / "two" / "second.md")["noted"] == []  # the first is not taken for a moved file
        (tmp_path / "two" / "second.md").write_text("")
        (note,) = client.add(tmp_path / "two" / "second.md")["noted"]
        assert note["reason"].endswith("the earlier version stays; drop it by its address")
    with Engine.open(folder, embedder="hashed") as engine:  # the files of its folder are beside those of the tests
        engine.add(tmp_path, sync=True, allow_mass_drop=True)
        assert engine.read("first.md").text == "# Same\n\nThe same text."


@pytest.mark.slow
def test_names_are_relative_paths_or_refused(running: Running) -> None:
    wrong = {
        "../x.md": "has an empty part",
        "a/../../x.md": "has an empty part",
        "a//x.md": "has an empty part",
        "./x.md": "has an empty part",
        "a\\..\\x.md": "has an empty part",
        "/etc/x.md": "is an absolute path",
        "C:/x.md": "is an absolute path",
        f"{'é' * 150}.md": "is too long",
        f"{'a/' * 600}x.md": "is too long",
    }
    for name, reason in wrong.items():
        reply = upload(running, "fine.md", name)
        assert reply.status_code == 422, name
        assert reason in reply.json()["error"]["message"], name
    raw = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a\x01.md"\r\n\r\nhi\r\n--x--\r\n'
    reply = running.http.post("/v1/documents", content=raw, headers={"content-type": "multipart/form-data; boundary=x"})
    assert "has signs that no file name may have" in reply.json()["error"]["message"]
    for same in (("a/x.md", "a/x.md"), ("a", "a/x.md"), ("a/x.md", "a")):
        reply = upload(running, *same)
        assert reply.status_code == 422
        assert "two files of the upload have this name" in reply.json()["error"]["message"]
    assert running.get("/v1/jobs").json()["jobs"] == []  # nothing of them was queued
    assert not list((running.server.folder / "uploads").rglob("*.md"))
    odd = ("what is it?.md", "a/[x] * y.md", ".hidden/page.md", "node_modules/é.md", "a\\b.md")
    job = wait(running, upload(running, *odd).json()["id"])
    assert sorted(job["result"]["added"]) == sorted((*odd[:4], "a/b.md"))


@pytest.mark.slow
def test_a_job_tells_what_failed_and_no_path_of_the_server(running: Running, tmp_path: Path) -> None:
    bad, empty, strange = tmp_path / "broken.pdf", tmp_path / "empty.md", tmp_path / "x.strange"
    bad.write_bytes(b"%PDF-1.7 nothing")
    empty.write_text("")
    strange.write_bytes(b"\x00\x01")
    with Client(running.address) as client:
        report = client.add(bad, empty, strange)
        assert sorted(each["source"] for each in report["failed"]) == ["broken.pdf", "x.strange"]
        assert report["passed_over_counts"] == {"empty": 1}
        (job,) = client.jobs()
        assert (job["state"], job["failed"]) == ("done", 2)
        assert job["message"].startswith("nothing was added, 2 failed, passed over: 1 empty; x.strange: ")
        assert job["request"]["sources"] == ["broken.pdf", "empty.md", "x.strange"]
        for shown in (job, client.job(job["id"]), report):
            assert str(tmp_path) not in json.dumps(shown)
        local = running.server.engines.get("default").enqueue_add(bad)  # as `clew add --background` does
        assert wait(running, local.id)["request"]["sources"] == ["broken.pdf"]
        assert str(tmp_path) not in running.get("/v1/jobs").text
        assert str(tmp_path) not in running.get(f"/v1/jobs/{local.id}?follow=true").text


@pytest.mark.slow
def test_more_files_than_a_request_takes_are_several_jobs(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = write(tmp_path / "many", **{f"p{number}": f"# Page {number}" for number in range(5)})
    monkeypatch.setattr("clew.client.client.MAX_FILES", 2)
    with Client(running.address) as client:
        assert [len(job["request"]["sources"]) for job in client.enqueue_add(*tree.iterdir())] == [2, 2, 1]
        (tree / "p9.md").write_text("# New")

    async def add() -> Any:
        async with AsyncClient(running.address) as other:
            return await other.add(tree)

    report = asyncio.run(add())
    assert len(report["added"]) + report["skipped"] == 6
    refused = upload(running, *(f"{number}.md" for number in range(101)))
    assert refused.status_code == 422
    assert "has 101 files; send at most 100 at once" in refused.json()["error"]["message"]


@pytest.mark.slow
def test_a_plan_or_an_unreadable_upload_makes_no_collection(running: Running, tmp_path: Path) -> None:
    planned = running.post("/v1/plan?collection=typo", {"sources": ["http://127.0.0.1:1/x"]})
    assert planned.status_code == 200
    assert len(planned.json()["failed"]) == 1
    for name, text in (("broken.pdf", b"%PDF-1.7 nothing"), ("x.strange", b"\x00\x01"), ("empty.md", b"")):
        reply = upload(running, name, text=text, collection="typo")
        assert reply.status_code == 422, name
        assert (
            "none of the files can be read, so the collection 'typo' was not made" in reply.json()["error"]["message"]
        )
        assert name in reply.json()["error"]["message"]
    with Client(running.address, collection="typo") as client:
        assert [each["name"] for each in client.collections()] == ["default"]
        with pytest.raises(NotFound, match="there is no collection 'typo'"):
            client.search("x")
        with pytest.raises(ServerError, match="empty"):
            client.add(write(tmp_path, empty="") / "empty.md")
    reply = upload(running, "broken.pdf", "fine.md", collection="made")
    assert wait(running, reply.json()["id"], collection="made")["failed"] == 1
