"""search, context and explain through the command line, on the real engine: every option changes what comes out."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.surface.cli.conftest import Clew

QUERY = "who rotates the keys?"


# -- search


def test_search_shows_rank_score_place_and_snippet(clew: "Clew") -> None:
    done = clew("search", QUERY, "-k", "2")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("1. ")
    assert float(lines[0].split()[1]) > 0
    first = next(line for line in lines if "Vault" in line)
    assert " > " in first
    assert first.endswith("pages/vault.md")
    assert any("Signing keys are rotated" in line for line in lines)
    assert "\x1b" not in done.out


def test_search_as_json(clew: "Clew") -> None:
    shape = clew("search", QUERY, "--json").json
    assert list(shape) == ["hits", "reason", "trace"]
    for rank, hit in enumerate(shape["hits"], 1):
        assert list(hit) == ["rank", "score", "scores", "document", "chunk"]
        assert hit["rank"] == rank
        assert list(hit["document"]) == ["id", "title", "uri", "kind"]
        assert list(hit["chunk"]) == ["id", "text", "headings", "start", "end", "meta"]
        assert all(math.isfinite(score) for score in (hit["score"], *hit["scores"].values()))
        text = clew("read", hit["document"]["id"], "--json").json["text"]
        assert text[hit["chunk"]["start"] : hit["chunk"]["end"]] == hit["chunk"]["text"]
    assert shape["trace"]["name"] == "search"
    assert shape["trace"]["steps"]
    assert shape["trace"]["ms"] > 0
    assert shape["reason"] == ""


def test_k(clew: "Clew") -> None:
    assert len(clew.hits(QUERY, "-k", "1")) == 1
    assert len(clew.hits(QUERY, "-k", "2")) == 2
    assert len(clew.hits(QUERY, CLEW_SEARCH__K="1")) == 1


def test_strategy(clew: "Clew") -> None:
    for name in ("semantic", "lexical", "hybrid"):
        shape = clew("search", QUERY, "--strategy", name, "--json").json
        assert shape["trace"]["steps"][0]["notes"]["strategy"] == name
        assert name in shape["hits"][0]["scores"]
    unknown = clew("search", QUERY, "--strategy", "psychic")
    assert unknown.code == 3
    assert "hybrid" in unknown.err  # it lists those there are


def test_depth_is_how_many_each_ranking_considers(clew: "Clew") -> None:
    assert len(clew.hits("keys rotation soup gauge", "-k", "3")) == 3
    shallow = clew("search", "keys rotation soup gauge", "-k", "1", "--depth", "1", "--json").json
    deep = clew("search", "keys rotation soup gauge", "-k", "1", "--depth", "50", "--json").json
    counts = [[step["out"] for step in shape["trace"]["steps"][0]["steps"]] for shape in (shallow, deep)]
    assert counts[0] != counts[1]


def test_mode_is_handed_on(clew: "Clew") -> None:
    assert clew.hits(QUERY, "--mode", "exact") == clew.hits(
        QUERY, "--mode", "ann"
    )  # so few are searched exactly anyway
    done = clew("search", QUERY, "--mode", "psychic")
    assert done.code == 2
    assert done.err == "clew: search.mode from the command line is 'psychic'; it must be one of ann, exact\n"


def test_min_similarity_is_a_floor_for_the_cosine(clew: "Clew") -> None:
    loose = clew("search", QUERY, "--strategy", "semantic", "--min-similarity=-1", "--json").json["hits"]
    cosine = loose[0]["scores"]["semantic"]
    strict = clew("search", QUERY, "--strategy", "semantic", "--min-similarity", str(cosine - 1e-6), "--json").json[
        "hits"
    ]
    assert [hit["chunk"]["id"] for hit in strict] == [loose[0]["chunk"]["id"]]
    assert clew("search", QUERY, "--min-similarity", "2").code == 2


WIDE = ("-k", "10", "--min-similarity=-1")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), {"vault.md", "oncall.md", "lunch.md", "tide.py", "chat"}),
        (("--kind", "page"), {"vault.md", "oncall.md", "lunch.md", "tide.py"}),
        (("--kind", "thread"), {"chat"}),
        (("--document", "pages/lunch.md"), {"lunch.md"}),
        (("--document", "pages/lunch.md", "--document", "pages/vault.md"), {"lunch.md", "vault.md"}),
        (("--channel", "ops"), {"oncall.md"}),
        (("--author", "dan"), {"vault.md"}),
        (("--author", "dan", "--author", "eve"), {"vault.md", "oncall.md"}),
        (("--author", "dan", "--channel", "ops"), set()),
        (("--since", "2025-03-01"), {"vault.md", "oncall.md"}),
        (("--since", "2025-03-02"), {"oncall.md"}),
        (("--until", "2025-06-01"), {"vault.md"}),
        (("--since", "2025-06-01T00:00:00Z", "--until", "2025-06-01T00:00:01+00:00"), {"oncall.md"}),
        (("--meta", "owner=ines"), {"vault.md"}),
        (("--meta", "owner=ines", "--meta", "owner=sol"), {"vault.md", "oncall.md"}),
        (("--meta", "owner=ines", "--meta", "author=eve"), set()),
    ],
)
def test_filters(clew: "Clew", options: tuple[str, ...], found: set[str]) -> None:
    assert set(clew.hits("keys soup gauge", *WIDE, *options)) == found
    shape = clew("context", "keys soup gauge", *WIDE, *options, "--json").json
    assert {Path(each["uri"]).name for each in shape["documents"]} == found
    shape = clew("explain", "keys soup gauge", *WIDE, *options, "--json").json
    assert {Path(hit["document"]["uri"]).name for hit in shape["hits"]} == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--since", "soon"), "--since is 'soon'; it must be a date or a time such as"),
        (("--until", "2025-13-01"), "--until is '2025-13-01'; it must be"),
        (("--meta", "owner"), "--meta is 'owner'; it must be KEY=VALUE"),
        (("--meta", "=ines"), "--meta is '=ines'; it must be KEY=VALUE"),
        (("-k", "0"), "k is 0; it must be a whole number of at least 1"),
        (("-k", "-1"), "k is -1; it must be a whole number of at least 1"),
        (("--depth", "0"), "search.depth is 0; it must be at least 1 (set from the command line)"),
    ],
)
@pytest.mark.parametrize("command", ["search", "context", "explain"])
def test_what_cannot_be_asked(clew: "Clew", command: str, options: tuple[str, ...], said: str) -> None:
    done = clew(command, QUERY, *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"clew: {said}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["search", "context", "explain"])
@pytest.mark.parametrize("query", ["", "  \n "])
def test_an_empty_query_is_an_error(clew: "Clew", command: str, query: str) -> None:
    done = clew(command, query)
    assert done.code == 2
    assert "empty" in done.err


def test_nothing_found_says_why(clew: "Clew", fresh: "Clew") -> None:
    done = fresh("search", QUERY)
    assert done.code == 3  # there is no collection at all
    fresh("add", "pages/lunch.md")
    filtered = fresh("search", QUERY, "--kind", "unheard-of")
    assert (filtered.code, filtered.out) == (
        0,
        "No results: nothing matches within the filters; remove one of them to search more\n",
    )
    fresh("drop", "pages/lunch.md")
    empty = fresh("search", QUERY)
    assert (empty.code, empty.out) == (0, "No results: the collection is empty; `clew add` fills it\n")
    shape = fresh("search", QUERY, "--json")
    assert (shape.code, shape.json["hits"]) == (0, [])
    assert shape.json["reason"].startswith("the collection is empty")
    context = fresh("context", QUERY)
    assert (context.code, context.out) == (0, "")
    assert context.err.startswith("No results: ")


def test_a_query_may_look_like_an_option(clew: "Clew") -> None:
    assert clew("search", "--json", "--", "--path").json["hits"] is not None


# -- context and explain


def test_context_is_the_text_alone(clew: "Clew") -> None:
    done = clew("context", QUERY)
    shape = clew("context", QUERY, "--json").json
    assert done.code == 0
    assert done.out.rstrip("\n") == shape["text"].rstrip("\n") != ""
    said = f"{len(shape['passages'])} passages, {shape['tokens']} tokens, {len(shape['dropped'])} dropped\n"
    assert done.err.replace("passage,", "passages,") == said
    assert list(shape) == [
        "query",
        "text",
        "tokens",
        "passages",
        "documents",
        "dropped",
        "reason",
        "citations",
        "numbers",
        "trace",
    ]
    assert list(shape["passages"][0]) == ["source", "headings", "text", "similarity", "spans", "chunks"]


def test_context_options(clew: "Clew") -> None:
    whole = clew("context", QUERY, *WIDE, "--tokens", "2000", "--json").json
    small = clew("context", QUERY, *WIDE, "--tokens", "40", "--json").json
    assert small["tokens"] <= 40 < whole["tokens"]
    assert small["dropped"]
    assert set(small["dropped"][0]) >= {"source", "text", "reason", "tokens"}
    one = clew("context", QUERY, "-k", "1", "--json").json
    assert sum(len(passage["chunks"]) for passage in one["passages"]) == 1
    lexical = clew("context", QUERY, "--strategy", "lexical", "--json").json
    assert "lexical" in str(lexical["trace"])
    assert clew("context", QUERY, "--tokens", "0").code == 2


def test_explain(clew: "Clew") -> None:
    done = clew("explain", QUERY, "-k", "1", "--strategy", "lexical")
    assert done.code == 0
    assert done.out.startswith(f"{QUERY!r} by lexical: 1 hit\n")
    assert " ms" in done.out
    shape = clew("explain", QUERY, "-k", "1", "--strategy", "lexical", "--json").json
    assert list(shape) == ["query", "strategy", "hits", "trace"]
    assert (shape["query"], shape["strategy"], len(shape["hits"])) == (QUERY, "lexical", 1)
    assert shape["hits"][0]["document"]["uri"].startswith("pages/")
    assert shape["trace"]["steps"]
