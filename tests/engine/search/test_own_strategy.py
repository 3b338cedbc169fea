"""A strategy of the caller's own, handed to the call itself."""

import pytest

from clew import Document, Engine, Hit, Query, SettingsError


@pytest.fixture
def engine() -> Engine:
    engine = Engine.open(":memory:", embedder="hashed")
    engine.add_documents([Document(name, f"The {name} of the harbour is open.") for name in ("gate", "shop", "pier")])
    return engine


def test_a_function_is_a_strategy(engine: Engine) -> None:
    known = {hit.document.id: hit for hit in engine.search("harbour", k=3)}

    def backwards(query: Query) -> list[Hit]:
        assert query.text == "harbour"
        return [known[name] for name in sorted(known, reverse=True)]

    assert [hit.document.id for hit in engine.search("harbour", k=2, strategy=backwards)] == ["shop", "pier"]
    assert [[hit.document.id for hit in hits] for hits in engine.search_many(["harbour"], k=1, strategy=backwards)] == [
        ["shop"]
    ]
    assert engine.context("harbour", k=3, strategy=backwards).passages
    assert engine.explain("harbour", k=1, strategy=backwards).strategy == "backwards"
    assert [hit.document.id for hit in engine.search("harbour", k=3)] == [*known]  # it is not kept


def test_what_is_no_function_is_refused(engine: Engine) -> None:
    with pytest.raises(SettingsError, match="strategy is a int; give a name or a function"):
        engine.search("harbour", strategy=5)  # type: ignore[arg-type]
