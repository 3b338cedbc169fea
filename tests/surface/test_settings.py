"""Flag over environment over file over default; what cannot be names itself."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from clew.core.errors import SettingsError
from clew.core.settings import DEFAULTS
from clew.core.settings.types import InvalidValue, check_value_type, describe_type, parse_text_as_type
from clew.core.suggest import HIDDEN, mask_secrets
from clew.surface.settings.load import Invocation, describe_settings, list_setting_keys, load_invocation


def load_from(
    folder: Path, text: str | None = None, environ: Mapping[str, str] | None = None, **flags: object
) -> Invocation:
    """The invocation from a folder with this clew.toml; `__` in the name of a flag stands for a dot."""
    if text is not None:
        (folder / "clew.toml").write_text(text, encoding="utf-8")
    overrides = {name.replace("__", "."): value for name, value in flags.items()}
    return load_invocation(environ=environ or {}, overrides=overrides, folder=folder)


def test_without_anything_all_is_default(tmp_path: Path) -> None:
    start = load_from(tmp_path)
    assert (start.path, start.collection, start.settings, start.file) == (".clew", "default", DEFAULTS, None)
    assert set(start.origins.values()) == {"default"}


def test_flag_over_environment_over_file_over_default(tmp_path: Path) -> None:
    text = "[search]\nk = 2\ndepth = 20\nrounds = 3"
    start = load_from(
        tmp_path, text, {"CLEW_SEARCH__K": "3", "CLEW_SEARCH__DEPTH": "33"}, search__k=4, search__mode=None
    )
    search = start.settings.search
    assert (search.k, search.depth, search.rounds, search.overfetch) == (4, 33, 3, DEFAULTS.search.overfetch)
    origins = [start.origins[f"search.{name}"] for name in ("k", "depth", "rounds", "overfetch", "mode")]
    assert origins == ["flag", "environment", "file", "default", "default"]


@pytest.mark.slow
def test_every_setting_can_be_given_in_the_file_and_in_the_environment(tmp_path: Path) -> None:
    other: dict[type, Any] = {str: "other", int: 9, float: 0.25, bool: False}
    given = {
        "ingestion.chunk_size": 100,
        "ingestion.language": "de",
        "search.mode": "exact",
        "search.fusion": "rrf",
        "search.nprobe": 7,
        "search.min_similarity": 0.5,
        "search.document_min_similarity": 0.5,
        "llm.window": 2000,
        "history.keyword_weight": 1.5,
        "llm.prices": ["openai:small 0.1 0.4"],
        "ingestion.include": ["*.md"],
        "ingestion.exclude": ["drafts/"],
        "ingestion.max_read_memory": 200_000_000,
        "formatter.medium_chunk_threshold": 900,
        "conversation.max_tokens": 500,
        "conversation.single_below": 5,
        "conversation.order": "score",
        "conversation.dedup_strategy": "none",
        "conversation.mmr": 0.5,
        "scoring.min_similarity": 0.5,
        "agent.max_cost": 0.5,
        "session.idle": 60.5,
        "store.access": ["hr", "staff"],
        "store.as_of": "2025-05-31",
        "server.max_body": 2048,
        "server.hosts": ["clew.test"],
        "server.origins": ["https://app.test"],
    }
    for key in list_setting_keys().values():
        value = given.get(
            key.name, key.default if key.name == "context.render" else other.get(key.value_type, key.default)
        )
        written = str(value).lower() if isinstance(value, (bool, int, float)) else json.dumps(value)
        at = load_from(tmp_path, f"{key.name} = {written}")
        assert at.origins[key.name] == "file"
        assert describe_settings(at)[key.name]["value"] not in (None, "")
        said = ",".join(value) if isinstance(value, list) else str(value)
        by_environment = load_from(tmp_path, "", {key.environment_variable: said})
        assert by_environment.origins[key.name] == "environment"
        if key.name not in (
            "path",
            "embedder.cache",
            "llm.cache",
            "context.tokenizer",
            "server.folder",
        ):  # those are relative to the file
            assert describe_settings(by_environment)[key.name]["value"] == describe_settings(at)[key.name]["value"]


def test_the_file_of_a_folder_above_is_found_and_its_paths_are_its_own(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "clew.toml").write_text('path = "team.clew"\n[embedder]\ncache = "vectors.db"', encoding="utf-8")
    start = load_invocation(environ={}, overrides={}, folder=below)
    assert start.file == tmp_path / "clew.toml"
    assert start.path == str(tmp_path / "team.clew")
    assert start.settings.embedder.cache == str(tmp_path / "vectors.db")
    (below / "clew.toml").write_text('path = "postgresql://host/db"', encoding="utf-8")
    assert load_invocation(environ={}, overrides={}, folder=below).path == "postgresql://host/db"


def test_a_named_file_is_read_in_place_of_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "clew.toml").write_text("search.k = 2", encoding="utf-8")
    other = tmp_path / "other.toml"
    other.write_text("search.k = 3", encoding="utf-8")
    assert load_invocation(file=other, environ={}, overrides={}, folder=tmp_path).settings.search.k == 3


def test_labels_in_the_environment_are_never_taken_for_no_limit(tmp_path: Path) -> None:
    assert load_from(tmp_path).settings.store.access is None
    read = {
        text: load_from(tmp_path, None, {"CLEW_STORE__ACCESS": text}).settings.store.access for text in ("", "none")
    }
    assert read == {"": (), "none": ("none",)}
    assert load_from(tmp_path, None, {"CLEW_STORE__ACCESS": "staff, hr"}).settings.store.access == ("hr", "staff")
    assert load_from(tmp_path, "[store]\naccess = []").settings.store.access == ()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("CLEW_PATH", "path"),
        ("CLEW_COLLECTION", "collection"),
        ("CLEW_EMBEDDER", "embedder.name"),
    ],
)
def test_short_names_in_the_environment(tmp_path: Path, name: str, key: str) -> None:
    start = load_from(tmp_path, None, {name: "team"})
    assert describe_settings(start)[key] == {"value": "team", "from": "environment"}


def test_the_long_name_wins_over_the_short(tmp_path: Path) -> None:
    start = load_from(tmp_path, None, {"CLEW_EMBEDDER": "short", "CLEW_EMBEDDER__NAME": "long"})
    assert start.settings.embedder.name == "long"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[search]\ndepht = 5", "search.depht in {file} is not a setting; did you mean search.depth?"),
        ("[serach]\nk = 5", "serach in {file} is not a setting; did you mean search?"),
        ("depth = 5", "depth in {file} is not a setting; did you mean search.depth?"),
        ("zzz = 5", "zzz in {file} is not a setting; the settings are path, collection, embedder.name"),
        ("search = 5", "search in {file} is a table of settings: write [search]"),
        ("store = 'x.clew'", "store in {file} is a table of settings: write [store]"),
        ("[search]\nk = 'five'", "search.k in {file} is 'five'; it must be a whole number"),
        ("[search]\nk = true", "search.k in {file} is True; it must be a whole number"),
        ("[search]\nk = 5.0", "search.k in {file} is 5.0; it must be a whole number"),
        ("[search]\nmode = 'fast'", "search.mode in {file} is 'fast'; it must be one of ann, exact"),
        ("[search]\nmin_similarity = nan", "search.min_similarity in {file} is nan; it must be a number"),
        (
            "[ingestion]\nuse_semantic_chunking = 1",
            "ingestion.use_semantic_chunking in {file} is 1; it must be true or",
        ),
        ("[search.k]\nx = 1", "search.k in {file} is {{'x': 1}}; it must be a whole number"),
        ("path = 5", "path in {file} is 5; it must be text"),
        ("[search]\nk = 0", "search.k is 0; it must be at least 1 (set in {file})"),
        ("[search\n", "{file} is not valid TOML: "),
    ],
)
def test_what_cannot_be_in_the_file_names_itself(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_from(tmp_path, text)
    assert str(caught.value).startswith(said.format(file=tmp_path / "clew.toml"))


def test_a_file_below_the_working_directory_is_named_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        SettingsError, match=r"^search.depht in clew.toml is not a setting; did you mean search.depth\?$"
    ):
        load_from(tmp_path, "search.depht = 5")


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"CLEW_SEARCH__DEPHT": "5"},
            "CLEW_SEARCH__DEPHT in the environment is not a setting; did you mean CLEW_SEARCH__DEPTH?",
        ),
        (
            {"CLEW_SEARCH_DEPTH": "5"},
            "CLEW_SEARCH_DEPTH in the environment is not a setting; did you mean CLEW_SEARCH__DEPTH?",
        ),
        ({"CLEW_SEARCH__K": "five"}, "search.k from CLEW_SEARCH__K is 'five'; it must be a whole number"),
        ({"CLEW_PATH": ""}, "path is empty; it must be the collection's folder (set by CLEW_PATH)"),
        ({"CLEW_SEARCH__K": "0"}, "search.k is 0; it must be at least 1 (set by CLEW_SEARCH__K)"),
    ],
)
def test_what_cannot_be_in_the_environment_names_itself(tmp_path: Path, environ: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_from(tmp_path, None, environ)
    assert str(caught.value) == said


def test_a_variable_of_another_program_is_left_alone(tmp_path: Path) -> None:
    assert load_from(tmp_path, None, {"CLEW_TEST_HOST": "x"}).settings == DEFAULTS


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere.toml cannot be read: No such file"):
        load_invocation(file=tmp_path / "nowhere.toml", environ={}, overrides={})
    (tmp_path / "latin.toml").write_bytes(b"path = '\xe9'")
    with pytest.raises(SettingsError, match=r"latin.toml cannot be read: it is not UTF-8"):
        load_invocation(file=tmp_path / "latin.toml", environ={}, overrides={})


def test_secrets_are_hidden_wherever_they_are_shown(tmp_path: Path) -> None:
    start = load_from(tmp_path, '[embedder]\napi_key = "sk-secret"\nurl = "https://ada:pass@host/v1"')
    start = load_from(tmp_path, None, {"CLEW_PATH": "postgresql://ada:p:a@s@host/db"})
    shown = describe_settings(start)
    assert shown["embedder.api_key"] == {"value": HIDDEN, "from": "file"}
    assert shown["embedder.url"]["value"] == f"https://ada:{HIDDEN}@host/v1"
    assert shown["path"]["value"] == f"postgresql://ada:{HIDDEN}@host/db"
    assert start.settings.embedder.api_key == "sk-secret"
    assert describe_settings(load_from(tmp_path, ""))["embedder.api_key"]["value"] == ""
    with pytest.raises(SettingsError) as caught:
        load_from(tmp_path, "embedder.api_key = 12345")
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ada:s3cret@host/db", "postgresql://ada:********@host/db"),
        ("postgresql://ada@/db?host=h&password=s3cret&x=1", "postgresql://ada@/db?host=h&password=********&x=1"),
        ("postgresql:/ada:s3cret@host/db", "postgresql:/ada:********@host/db"),
        ("https://host/v1?api_key=s3cret", "https://host/v1?api_key=********"),
    ],
)
def test_what_is_secret_in_an_address_is_hidden(address: str, shown: str) -> None:
    assert mask_secrets(address) == shown


def test_an_address_without_a_password_stays() -> None:
    for address in ("postgresql://host/db", "https://ada@host", "team.clew", "https://host/a:b@c"):
        assert mask_secrets(address) == address


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", int, 5),
        ("5", float, 5.0),
        ("0.5", float | None, 0.5),
        ("", float | None, None),
        ("none", int | None, None),
        ("off", bool, False),
        ("YES", bool, True),
        ("5", str, "5"),
        ("exact", Literal["ann", "exact"], "exact"),
        ("a, b", tuple[str, ...], ("a", "b")),
        ("1,2", tuple[int, ...], (1, 2)),
    ],
)
def test_text_is_parsed_as_its_kind(text: str, kind: Any, value: Any) -> None:
    said = check_value_type(parse_text_as_type(text, kind), kind)
    assert said == value
    assert type(said) is type(value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, int),
        ("5", int),
        (float("inf"), float),
        (None, int),
        ("x", float | None),
        (["a", 1], tuple[str, ...]),
        ("a", tuple[str, ...]),
    ],
)
def test_nothing_is_guessed(value: Any, kind: Any) -> None:
    with pytest.raises(InvalidValue):
        check_value_type(value, kind)


def test_kinds_in_words() -> None:
    assert describe_type(float | None) == "a number"
    assert describe_type(Literal["a", "b"]) == "one of a, b"
    assert describe_type(tuple[int, ...]) == "a list, each a whole number"
