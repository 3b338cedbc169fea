"""search, context and explain through the command line, on the real engine: every option changes what comes out."""

import math
from pathlib import Path

import pytest

from tests.surface.cli.conftest import Clew

QUERY = "who rotates the keys?"


# -- search


def test_search_shows_rank_relevance_place_and_snippet(clew: Clew) -> None:
    done = clew("search", QUERY, "-k", "2")
    assert done.code == 0
    lines = done.out.splitlines()
    shown = [line.split()[:2] for line in lines if line[:1].isdigit()]
    hits = clew("search", QUERY, "-k", "2", "--json").json["hits"]
    assert shown == [[f"{hit['rank']}.", f"{hit['relevance']:.2f}"] for hit in hits]
    assert done.err == ""
    first = next(line for line in lines if "Vault" in line)
    assert " > " in first
    assert first.endswith("pages/vault.md")
    assert any("Signing keys are rotated" in line for line in lines)
    assert "\x1b" not in done.out


def test_multi_query_without_a_model_says_that_it_is_hybrid(clew: Clew) -> None:
    asked = ("who rotates the signing keys? when is lunch served at noon?", "--strategy", "multi_query")
    assert "this is hybrid" in clew("explain", *asked).out
    assert "this is hybrid" in str(clew("search", *asked, "--json").json["trace"])


def test_search_as_json(clew: Clew) -> None:
    shape = clew("search", QUERY, "--json").json
    assert shape["language"] == "en"
    for rank, hit in enumerate(shape["hits"], 1):
        assert hit["rank"] == rank
        assert 0 <= hit["relevance"] <= 1
        assert all(math.isfinite(score) for score in (hit["score"], *hit["scores"].values()))
        text = clew("read", hit["document"]["id"], "--json").json["text"]
        assert text[hit["chunk"]["start"] : hit["chunk"]["end"]] == hit["chunk"]["text"]
    assert shape["trace"]["name"] == "search"
    assert shape["trace"]["steps"]
    assert shape["trace"]["ms"] > 0
    assert shape["reason"] == ""


def test_depth_is_how_many_each_ranking_considers(clew: Clew) -> None:
    assert len(clew.hits("keys rotation soup gauge", "-k", "3")) == 3
    shallow = clew("search", "keys rotation soup gauge", "-k", "1", "--depth", "1", "--json").json
    deep = clew("search", "keys rotation soup gauge", "-k", "1", "--depth", "50", "--json").json
    counts = [[step["out"] for step in shape["trace"]["steps"][0]["steps"]] for shape in (shallow, deep)]
    assert counts[0] != counts[1]


@pytest.mark.parametrize("number", ["relevance", "similarity"])
@pytest.mark.parametrize("strategy", ["hybrid", "lexical", "semantic"])
def test_a_minimum_binds_every_hit_of_every_strategy(clew: Clew, strategy: str, number: str) -> None:
    asked = ("search", QUERY, "-k", "10", "--strategy", strategy, "--json")
    hits = clew(*asked).json["hits"]
    minimum = sorted(hit[number] for hit in hits)[len(hits) // 2]
    kept = clew(*asked, f"--min-{number}", str(minimum - 1e-9)).json["hits"]
    expected = [hit["chunk"]["id"] for hit in hits if hit[number] >= minimum - 1e-9]
    assert [hit["chunk"]["id"] for hit in kept] == expected
    assert 0 < len(kept) < len(hits)


def test_min_relevance_of_a_context(clew: Clew) -> None:
    asked = ("context", QUERY, "-k", "10", "--json")
    unbound = {"CLEW_CONTEXT__MIN_CHANCE": "0", "CLEW_CONTEXT__MIN_RELEVANCE": "0"}
    hits = clew("search", QUERY, "-k", "10", "--json").json["hits"]
    best = max(hit["relevance"] for hit in hits)
    assert len(clew(*asked, **unbound).json["passages"]) > 1
    [passage] = clew(*asked, "--min-relevance", str(best - 1e-9), **unbound).json["passages"]
    assert passage["relevance"] == pytest.approx(best)
    assert clew(*asked, "--min-relevance", "1.5").code == 2


@pytest.mark.parametrize("option", ["--min-relevance", "--min-similarity"])
def test_where_a_minimum_leaves_nothing_the_best_hit_is_described(clew: Clew, option: str) -> None:
    best = clew("search", QUERY, "-k", "1", "--json").json["hits"][0]
    numbers = f"a relevance of {best['relevance']:.2f} and a similarity of {best['similarity']:.2f}"
    reason = f"the best hit has {numbers}, below the minimum that is set"
    done = clew("search", QUERY, option, "1")
    assert (done.code, done.out) == (0, f"No results: {reason}\n")
    assert clew("search", QUERY, option, "1", "--json").json["reason"] == reason
    filtered = clew("search", QUERY, option, "1", "--since", "2099-01-01")
    assert filtered.out.startswith("No results: nothing matches within the filters")


def test_where_without_leaves_nothing_the_reason_names_it(clew: Clew) -> None:
    every = {hit["document"]["id"] for hit in clew("search", QUERY, "-k", "100", "--json").json["hits"]}
    left_out = [word for each in every for word in ("--without", each)]
    found = clew("search", QUERY, "-k", "100", *left_out[:-2], "--json").json
    assert {hit["document"]["id"] for hit in found["hits"]} == {left_out[-1]}
    reason = "`without` leaves out all that matches; leave out less to see the rest"
    assert clew("search", QUERY, *left_out, "--json").json["reason"] == reason
    assert clew("search", QUERY, *left_out).out == f"No results: {reason}\n"


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
        (("--until", "2025-06-01"), {"vault.md", "lunch.md", "tide.py"}),
        (("--since", "2025-06-01T00:00:00Z", "--until", "2025-06-01T00:00:01+00:00"), {"oncall.md"}),
        (("--meta", "owner=ines"), {"vault.md"}),
        (("--meta", "owner=ines", "--meta", "owner=sol"), {"vault.md", "oncall.md"}),
        (("--meta", "owner=ines", "--meta", "author=eve"), set()),
    ],
)
def test_filters(clew: Clew, options: tuple[str, ...], found: set[str]) -> None:
    assert set(clew.hits("keys soup gauge", *WIDE, *options)) == found
    unbound = {"CLEW_CONTEXT__MIN_CHANCE": "0", "CLEW_CONTEXT__MIN_RELEVANCE": "0"}
    shape = clew("context", "keys soup gauge", *WIDE, *options, "--json", **unbound).json
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
        (("--mode", "psychic"), "search.mode from the command line is 'psychic'; it must be one of ann, exact"),
        (("--min-similarity", "2"), "search.min_similarity is 2"),
    ],
)
@pytest.mark.parametrize("command", ["search", "context", "explain"])
def test_what_cannot_be_asked(clew: Clew, command: str, options: tuple[str, ...], said: str) -> None:
    done = clew(command, QUERY, *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"clew: {said}")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["search", "context", "explain"])
@pytest.mark.parametrize("query", ["", "  \n "])
def test_an_empty_query_is_an_error(clew: Clew, command: str, query: str) -> None:
    done = clew(command, query)
    assert done.code == 2
    assert "empty" in done.err


def test_nothing_found_says_why(clew: Clew, fresh: Clew) -> None:
    done = fresh("search", QUERY)
    assert done.code == 3  # there is no collection at all
    fresh("add", "pages/lunch.md")
    filtered = fresh("search", QUERY, "--since", "2099-01-01")
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


def test_a_query_may_look_like_an_option(clew: Clew) -> None:
    assert clew("search", "--json", "--", "--path").json["hits"] is not None


# -- context and explain


def test_context_is_the_text_alone(clew: Clew) -> None:
    done = clew("context", QUERY)
    shape = clew("context", QUERY, "--json").json
    assert done.code == 0
    assert done.out.rstrip("\n") == shape["text"].rstrip("\n") != ""
    why = [each["reason"] for each in shape["dropped"]]
    assert why == ["relevance"] * len(why) != []
    said = f"{len(shape['passages'])} passages, {shape['tokens']} tokens, {len(why)} dropped (relevance {len(why)})\n"
    assert done.err.replace("passage,", "passages,") == said
    hits = {hit["chunk"]["id"]: hit for hit in clew("search", QUERY, "-k", "10", "--json").json["hits"]}
    for passage in shape["passages"]:
        best = max(hits[chunk]["relevance"] for chunk in passage["chunks"] if chunk in hits)
        assert passage["relevance"] == pytest.approx(best)


def test_context_options(clew: Clew) -> None:
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


def test_explain(clew: Clew) -> None:
    done = clew("explain", QUERY, "-k", "1", "--strategy", "lexical")
    assert done.code == 0
    assert done.out.startswith(f"{QUERY!r} by lexical: 1 hit\n")
    assert " ms" in done.out
    hit = clew("search", QUERY, "-k", "1", "--strategy", "lexical", "--json").json["hits"][0]
    numbers = f"relevance {hit['relevance']:.2f}  similarity {hit['similarity']:.2f}  score {hit['score']:.3f}"
    assert done.out.splitlines()[-1].startswith(f"  1. {numbers}  pages/")
    shape = clew("explain", QUERY, "-k", "1", "--strategy", "lexical", "--json").json
    assert (shape["language"], "language=en" in done.out) == ("en", True)
    assert (shape["query"], shape["strategy"], len(shape["hits"])) == (QUERY, "lexical", 1)
    assert shape["hits"][0]["document"]["uri"].startswith("pages/")
    assert shape["trace"]["steps"]
