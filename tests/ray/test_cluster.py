"""A real Ray on this machine: what its workers store is what `add` stores, within one cost limit."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from clew import Engine, Progress, Settings
from tests.ray.conftest import list_rows

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
OpenCollection = Callable[..., Engine]
DEFAULTS = Settings()
PRICED = replace(DEFAULTS, embedder=replace(DEFAULTS.embedder, price=1000.0))


@pytest.fixture
def local_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Ray of two cores, joined; it listens on loopback alone and leaves nothing behind."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    import ray

    with TemporaryDirectory(prefix="r") as folder:
        ray.init(
            num_cpus=2,
            num_gpus=0,
            object_store_memory=100 << 20,
            include_dashboard=False,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        try:
            yield
        finally:
            ray.shutdown()


def test_the_workers_store_what_add_stores_within_one_cost_limit(
    open_collection: OpenCollection, pages: Path, local_ray: None
) -> None:
    whole, shared = open_collection("a", settings=PRICED), open_collection("b", settings=PRICED)
    expected = whole.add(pages)
    limit = expected.cost / 2
    stages: dict[str, Progress] = {}
    first = shared.add_distributed(
        pages, workers=2, max_cost=limit, on_progress=lambda each: stages.update({each.stage: each})
    )
    assert "the limit is" in first.stopped
    assert 0 < first.cost <= limit
    assert 0 < len(first.added) == shared.status().documents < len(expected.added)
    assert (stages["starting"].done, stages["starting"].total) == (1, 1)
    assert stages["adding"].done == len(first.added)
    rest = shared.add(pages)
    assert sorted((*first.added, *rest.added)) == sorted(expected.added)
    assert first.cost + rest.cost == pytest.approx(expected.cost)
    assert list_rows(shared) == list_rows(whole)
