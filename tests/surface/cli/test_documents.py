"""add, drop, list, read, status and config show, through the command line, on the real engine."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clew import DriverFailed
from clew.drivers.llm.scripted import ScriptedLLM
from tests.surface.cli.conftest import Clew


def count_chunks(clew: Clew) -> Any:
    return clew("status", "--json").json["chunks"]


# -- add


def test_add_says_what_it_did(fresh: Clew) -> None:
    done = fresh("add", "pages")
    assert done.code == 0
    assert re.match(r"4 added, 0 changed, 0 skipped, 0 failed; (\d+) chunks, \1 embedded, 0 reused", done.out)
    assert done.err  # how far it was, a line a stage
    again = fresh("add", "pages")
    assert again.out.startswith("0 added, 0 changed, 4 skipped, 0 failed; ")


def test_a_source_that_is_not_there_makes_no_collection(fresh: Clew) -> None:
    done = fresh("add", "nosuch", "--path", "other")
    assert (done.code, done.err) == (4, "clew: nosuch: does not exist; no collection was made\n")
    assert not (fresh.folder / "other").exists()
    assert fresh("add", "nosuch", "pages", "--path", "other").code == 4
    assert fresh("status", "--path", "other", "--json").json["documents"] == 4


def test_add_as_json(fresh: Clew) -> None:
    done = fresh("add", "pages/vault.md", "--json")
    assert (done.json["added"], done.json["changed"], done.json["failed"]) == (["pages/vault.md"], [], [])
    assert done.json["chunks"] == done.json["embedded"] > 0
    page = fresh.folder / "pages" / "vault.md"
    page.write_text(page.read_text() + "\n## More\n\nA new part.\n")
    again = fresh("add", "pages/vault.md", "--json").json
    assert (again["added"], again["changed"]) == ([], ["pages/vault.md"])


def test_a_source_that_fails_is_named_and_the_rest_is_added(fresh: Clew) -> None:
    (fresh.folder / "pages" / "broken.md").write_bytes(b"a\0b")
    done = fresh("add", "pages", "nowhere.md")
    assert done.code == 4
    assert done.out.startswith("4 added, 0 changed, 0 skipped, 2 failed; ")
    assert re.search(r"^failed: .*nowhere.md: .+$", done.err, re.MULTILINE)
    assert re.search(r"^failed: .*broken.md: .+$", done.err, re.MULTILINE)
    failed = fresh("add", "pages", "nowhere.md", "--json")
    assert failed.code == 4
    assert {Path(each["source"]).name for each in failed.json["failed"]} == {"nowhere.md", "broken.md"}
    assert all(each["reason"] for each in failed.json["failed"])


def test_plan_says_what_add_would_do_and_does_nothing(fresh: Clew) -> None:
    planned = fresh("plan", "pages", "--json").json
    assert len(planned["added"]) == 4
    assert planned["embedded"] == planned["chunks"] > 0
    assert not (fresh.folder / ".clew").exists()
    assert re.search(r"^tokens to embed +\d+$", fresh("plan", "pages").out, re.MULTILINE)
    priced = fresh("plan", "pages", "--json", CLEW_EMBEDDER__PRICE="5").json
    assert priced["cost"] == pytest.approx(5 * priced["embedded_tokens"] / 1e6)
    assert fresh("add", "pages", "--json").json["embedded"] == planned["embedded"]
    assert fresh("plan", "pages", "--json").json["unchanged"] == 4
    assert fresh("plan", "pages", "--contextual", "--json").json["changed"]


def test_sync_drops_what_has_vanished(fresh: Clew) -> None:
    fresh("add", "pages")
    (fresh.folder / "pages" / "lunch.md").unlink()
    assert fresh("plan", "pages", "--sync", "--json").json["dropped"] == ["pages/lunch.md"]
    assert fresh("add", "pages", "--json").json["dropped"] == 0
    assert "; 1 dropped" in fresh("add", "pages", "--sync").out
    assert "lunch" not in fresh("list").out


def test_sync_of_an_empty_folder_asks_or_needs_yes(fresh: Clew) -> None:
    fresh("add", "pages")
    for page in (fresh.folder / "pages").iterdir():
        page.unlink()
    assert "4, of which 4 only with --yes" in fresh("plan", "pages", "--sync").out
    refused = fresh("add", "pages", "--sync")
    assert refused.code == 4
    assert "4 of its 4 files are gone" in refused.err
    assert "--yes" in refused.err
    assert len(fresh("list", "--json").json["documents"]) == 4
    assert len(fresh("add", "pages", "--sync", "--json").json["held_back"]) == 4
    done = fresh("add", "pages", "--sync", "--yes")
    assert (done.code, "; 4 dropped" in done.out) == (0, True)


def test_what_is_passed_over_is_counted_and_listed(fresh: Clew) -> None:
    pages = fresh.folder / "pages"
    (pages / ".hidden.md").write_text("# Hidden")
    (pages / "data.bin").write_text("?")
    (pages / "node_modules").mkdir()
    (pages / "node_modules" / "a.md").write_text("# Theirs")
    (pages / ".gitignore").write_text("secret.md\n")
    (pages / "secret.md").write_text("# Secret")
    done = fresh("add", "pages", "--exclude", "lunch.md", "--include", "*.md", "--include", "*.bin")
    assert done.code == 0
    assert done.out.startswith("2 added")
    counts = "2 hidden, 1 dependencies, 1 excluded, 1 in .gitignore, 1 not included, 1 unknown format"
    assert f"passed over: {counts} (--verbose lists them)\n" in done.err
    listed = fresh("add", "pages", "--verbose").err
    assert re.search(r"^  .*secret.md: in .gitignore$", listed, re.MULTILINE)
    assert re.search(r"^  .*node_modules/: dependencies \(1 file\)$", listed, re.MULTILINE)
    shown = fresh("add", "pages", "--json").json
    assert shown["passed_over_counts"]["in .gitignore"] == 1
    assert {"source": str(Path("pages", "secret.md")), "reason": "in .gitignore", "files": 1} in shown["passed_over"]
    assert fresh("add", "pages", "--no-ignore").out.startswith("2 added")
    assert fresh("add", "pages", "--include", "!").code == 2


def test_patterns_as_a_shell_completes_them_and_those_that_match_nothing(fresh: Clew) -> None:
    done = fresh("add", "pages", "--exclude", "./pages/lunch.md", "--exclude", "pages/lunhc.md")
    assert (done.code, done.out.startswith("3 added")) == (0, True)
    assert "note: pages/lunhc.md: as a pattern of ingestion.exclude it matched no file or folder" in done.err
    refused = fresh("add", "pages", "--exclude", "[z-a]")
    assert refused.code == 2
    assert "ingestion.exclude has '[z-a]', but a range in it runs from a later to an earlier" in refused.err


def test_plan_names_what_fails_and_estimates_the_time(fresh: Clew) -> None:
    (fresh.folder / "pages" / "broken.md").write_bytes(b"a\0b")
    planned = fresh("plan", "pages")
    assert re.search(r"^failing sources +1$", planned.out, re.MULTILINE)
    assert re.search(r"^time +about \d+ (?:s|min) on this machine$", planned.out, re.MULTILINE)
    assert re.search(r"^fails: .*broken.md: is not text", planned.err, re.MULTILINE)
    assert "planning: 5 of 5 documents" in planned.err


def test_contexts_and_summaries_are_options(fresh: Clew) -> None:
    fresh("add", "pages")
    assert not any(each["summary"] for each in fresh("list", "--json").json["documents"])
    assert fresh("backfill", "--json").json["embedded"] == 0
    assert fresh("backfill", "--json", CLEW_INGESTION__SUMMARIES="extractive").json["embedded"] == 4
    assert all(each["summary"] for each in fresh("list", "--json").json["documents"])
    assert fresh("backfill").out.startswith("0 added, 0 changed")
    done = fresh("add", "pages", "--contextual", "--json").json
    assert len(done["changed"]) == 4


def test_a_model_writes_summaries_only_where_it_is_asked(fresh: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(prompt: str) -> str:
        if "soup" in prompt and not recovered:
            raise DriverFailed("the model is away")
        return "What the model says."

    def list_makers() -> set[str]:
        return {each["summary_by"] for each in fresh("list", "--json").json["documents"]}

    refused = fresh("add", "pages", "--summaries")
    assert refused.code == 2
    assert "there is no language model" in refused.err
    llm, recovered = ScriptedLLM(describe, name="small"), list[bool]()
    monkeypatch.setattr("clew.drivers.make_language_model", lambda _: llm)
    fresh("add", "pages")
    assert (llm.calls, list_makers()) == (0, {""})
    fresh("add", "pages", CLEW_INGESTION__SUMMARIES="extractive")
    assert (llm.calls, list_makers()) == (0, {"extract"})
    assert fresh("backfill").out.startswith("0 added, 0 changed")
    done = fresh("backfill", "--refresh")
    assert (done.code, llm.calls) == (4, 4)
    assert "failed: pages/lunch.md: the model is away" in done.err
    recovered.append(True)
    assert fresh("backfill", "--refresh").out.startswith("0 added, 1 changed")
    assert (llm.calls, list_makers()) == (5, {"small"})
    recovered.clear()
    (fresh.folder / "pages" / "lunch.md").write_text("There is no soup today.", encoding="utf-8")
    done = fresh("add", "pages", "--summaries")
    assert "1 changed, 3 skipped" in done.out
    assert "1 incomplete: the next run completes them" in done.out
    assert fresh("status", "--json", CLEW_INGESTION__SUMMARIES="llm").json["without_summary"] == 1
    recovered.append(True)
    fresh("add", "pages", "--summaries")
    assert fresh("status", "--json", CLEW_INGESTION__SUMMARIES="llm").json["without_summary"] == 0
    assert list_makers() == {"small"}


def test_a_ceiling_of_cost_stops_the_work(fresh: Clew) -> None:
    done = fresh("add", "pages", "--max-cost", "0", CLEW_EMBEDDER__PRICE="5")
    assert done.code == 9
    assert "limit is 0.0000" in done.err
    status = fresh("status", "--json").json
    assert status["pending"] == status["chunks"] > 0
    assert f"0 of {status['chunks']} chunks are searchable by meaning, the others by words" in fresh("status").out
    assert fresh("add", "pages", "--max-cost", "1", CLEW_EMBEDDER__PRICE="5").code == 0


def test_a_search_says_once_what_is_not_yet_searchable_by_meaning(fresh: Clew) -> None:
    fresh("add", "pages", "--max-cost", "0", CLEW_EMBEDDER__PRICE="5")
    count = fresh("status", "--json").json["chunks"]
    told = f"0 of {count} chunks are searchable by meaning, the others by words"
    for command in ("search", "context", "ask"):
        assert fresh(command, "signing keys").err.count(told) == 1
        assert fresh(command, "signing keys", "--json").json["trace"]["steps"]
    (hits, trace) = (fresh("search", "signing keys", "--json").json[name] for name in ("hits", "trace"))
    assert hits
    assert trace["steps"][0]["notes"]["pending"] == told
    assert told in fresh("search", "xylophone").out
    page = next(Path("pages").iterdir())
    assert "0 of " in fresh("search", "signing keys", "--document", str(page)).err
    fresh("backfill")
    assert "searchable by meaning" not in fresh("search", "signing keys").err


# -- list, read, drop, status


def test_list(clew: Clew) -> None:
    header, *rows = [line.split("\t") for line in clew("list").out.splitlines()]
    assert header == ["id", "kind", "chunks", "title", "uri", "created", "updated", "language"]
    assert [(row[1], row[3], row[4]) for row in rows if row[3] and row[4] != "pages/tide.py"] == [
        ("page", "Lunch", "pages/lunch.md"),
        ("page", "On call", "pages/oncall.md"),
        ("page", "Vault", "pages/vault.md"),
    ]
    listed = clew("list", "--json").json["documents"]
    assert [each["uri"] for each in listed] == [row[4] for row in rows]
    assert [each["language"] for each in listed] == [row[7] for row in rows]
    assert {each["uri"]: each["language"] for each in listed}["pages/vault.md"] == "en"
    assert sum(each["chunks"] for each in listed) == count_chunks(clew)


def test_list_of_a_kind(clew: Clew) -> None:
    every = clew("list", "--json").json["documents"]
    for kind in ("page", "thread"):
        ours = clew("list", "--kind", kind, "--json").json["documents"]
        assert ours == [each for each in every if each["kind"] == kind] != []
    assert clew("list", "--kind", "unheard-of").out == ""


@pytest.mark.parametrize("name", ["pages/lunch.md", "id"])
def test_read(clew: Clew, name: str) -> None:
    if name == "id":
        name = next(e["id"] for e in clew("list", "--json").json["documents"] if e["uri"] == "pages/lunch.md")
    done = clew("read", name)
    assert done.code == 0
    assert "Soup is served at noon." in done.out
    shape = clew("read", name, "--json").json
    assert shape["language"] == "en"
    assert shape["text"].rstrip("\n") == done.out.rstrip("\n")
    assert "".join(shape["text"][part["start"] : part["end"]] for part in shape["sections"]) == shape["text"]


def test_drop(fresh: Clew) -> None:
    fresh("add", "pages")
    assert fresh("drop", "pages/lunch.md", "pages/vault.md").out == "2 dropped\n"
    assert [line.split("\t")[4] for line in fresh("list").out.splitlines()[1:]] == ["pages/oncall.md", "pages/tide.py"]
    assert fresh("drop", "pages/oncall.md", "--json").json == {"dropped": 1}
    assert fresh("drop", "pages/oncall.md").code == 3


def test_drop_single_messages(fresh: Clew) -> None:
    rows = [{"id": f"m{n}", "text": f"Note {n}", "channel": "ops", "at": f"2026-01-0{n}T09:00:00Z"} for n in (1, 2)]
    rows[1]["reply_to"] = "m1"
    Path("ops.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fresh("add", "ops.jsonl")
    assert fresh("drop", "--messages", "m2").out == "1 dropped\n"
    assert fresh("read", "ops/m1").out == "2026-01-01 09:00: Note 1\n"
    missing = fresh("drop", "--messages", "m2")
    assert missing.code == 3
    assert "no message 'm2'" in missing.err


def test_status(clew: Clew) -> None:
    shape = clew("status", "--json").json
    assert (shape["path"], shape["collection"], shape["documents"]) == (".clew", "default", 5)
    assert shape["embedder"].startswith("hashed")
    lines = dict(line.split(None, 1) for line in clew("status").out.splitlines() if len(line.split()) > 1)
    assert lines["content"] == f"5 documents in {shape['chunks']} chunks"
    assert lines["embedder"] == f"{shape['embedder']}, {shape['dim']} dimensions"
    assert lines["languages"].split(", ") == [f"{code} {count}" for code, count in shape["languages"].items()]


# -- where: the program's own options


def test_calibrate_says_what_it_measured_and_keeps_it(fresh: Clew) -> None:
    fresh("add", "pages")
    before = fresh("search", "signing keys", "--json").json["hits"]
    shape = fresh("calibrate", "--json").json
    assert (shape["embedder"], shape["chunks"]) == ("hashed", fresh("status", "--json").json["chunks"])
    done = fresh("calibrate")
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first == f"hashed, measured on {shape['chunks']} chunks"
    assert second.startswith(f"reach {shape['reach']:.3f}: ")
    assert f"spread {shape['spread']:.3f}: " in second
    after = fresh("search", "signing keys", "--json").json["hits"]
    assert [hit["similarity"] for hit in after] == [hit["similarity"] for hit in before]
    assert [hit["relevance"] for hit in after] != [hit["relevance"] for hit in before]


def test_calibrate_warns_where_the_embedder_tells_nothing_apart(fresh: Clew) -> None:
    for number in range(8):  # the sentence in the middle, which stands for a question, is the same in all of them
        text = f"{chr(65 + number) * 5} opens. This sentence stands in each of them. {chr(75 + number) * 5} closes.\n"
        (fresh.folder / "pages" / f"{number}.md").write_text(text)
    fresh("add", *(f"pages/{number}.md" for number in range(8)))
    done = fresh("calibrate")
    assert done.code == 0
    assert done.err.startswith("warning: reach is below 3 spreads: hashed hardly knows the language")
    assert done.err.strip() == f"warning: {fresh('calibrate', '--json').json['warning']}"


def test_calibrate_needs_something_to_measure(fresh: Clew) -> None:
    assert fresh("calibrate").code == 3  # there is no collection
    fresh("add", "pages/lunch.md")
    done = fresh("calibrate")
    assert done.code == 2
    assert "fewer than two chunks" in done.err


def test_path_and_collection_by_flag_environment_and_file(fresh: Clew) -> None:
    assert fresh("--path", "team.clew", "--collection", "notes", "add", "pages/lunch.md").code == 0
    assert (fresh.folder / "team.clew" / "notes").is_dir()
    by_flag = ("-p", "team.clew", "--collection", "notes")
    assert fresh(*by_flag, "status", "--json").json["documents"] == 1
    assert fresh("status", *by_flag, "--json").json["documents"] == 1
    assert fresh("status", "--path=team.clew", "--collection=notes", "--json").json["documents"] == 1
    assert fresh("status", "--json", CLEW_PATH="team.clew", CLEW_COLLECTION="notes").json["documents"] == 1
    assert fresh("status", "--json").code == 3
    (fresh.folder / "other.toml").write_text('path = "team.clew"\ncollection = "notes"\n')
    assert fresh("--config", "other.toml", "status", "--json").json["documents"] == 1
    assert fresh("--config", "other.toml", "status", CLEW_COLLECTION="default").code == 3
    assert fresh("--config", "other.toml", "--collection", "notes", "status", CLEW_COLLECTION="default").code == 0


def test_embedder_by_flag(fresh: Clew) -> None:
    done = fresh("--embedder", "hashed", "add", "pages/lunch.md", CLEW_EMBEDDER__NAME="unheard-of")
    assert done.code == 0
    assert fresh("add", "pages/lunch.md", CLEW_EMBEDDER__NAME="unheard-of").code == 3


def test_config_show(fresh: Clew) -> None:
    (fresh.folder / "clew.toml").write_text('[search]\nk = 7\n[embedder]\napi_key = "sk-very-secret"\n')
    done = fresh("--collection", "notes", "config", "show")
    lines = done.out.splitlines()
    assert lines[0] == f"# {fresh.folder / 'clew.toml'}"
    assert 'collection = "notes"  # flag' in lines
    assert 'embedder.name = "hashed"  # environment' in lines
    assert "search.k = 7  # file" in lines
    assert "search.nprobe = none  # default" in lines
    assert 'embedder.api_key = "********"  # file' in lines
    shape = fresh("config", "show", "--json")
    assert "very-secret" not in done.out + shape.out
    assert shape.json["file"] == str(fresh.folder / "clew.toml")
    assert shape.json["settings"]["search.k"] == {"value": 7, "from": "file"}
