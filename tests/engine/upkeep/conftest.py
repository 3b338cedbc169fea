"""A filled engine on both stores, and what changes its collection past Clew."""

import pytest

from clew import Engine
from tests.engine.chosen import OpenEngine
from tests.engine.upkeep.changes import Change, fill, make_change


@pytest.fixture
def filled(open_engine: OpenEngine) -> Engine:
    engine = open_engine(embedder="hashed:32")
    fill(engine)
    return engine


@pytest.fixture
def change(request: pytest.FixtureRequest, filled: Engine) -> Change:
    return make_change(request, filled)
