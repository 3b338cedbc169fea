"""A real Ray on this machine: what its workers store is what `add` stores, within one cost limit.

It takes seconds to start, so every day there is one test of one worker, and `make soak` has the others.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from typer.testing import CliRunner

from clew import DriverFailed, Embedder, Engine, Progress, Settings
from clew.surface.cli.app import app
from tests.ray.conftest import list_rows
from tests.soak import choose_runs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
ONLY_LONG = pytest.mark.skipif(not choose_runs(0, 1), reason="takes long: make soak")
OpenCollection = Callable[..., Engine]
DEFAULTS = Settings()
PRICED = replace(DEFAULTS, embedder=replace(DEFAULTS.embedder, price=1000.0))


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """A Ray of two cores, joined; it listens on loopback alone and leaves nothing behind."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(prefix="r") as folder:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        import ray

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


def test_the_command_line_adds_and_embeds_anew_with_a_cluster(pages: Path, tmp_path: Path, local_ray: None) -> None:
    own = ["--path", f"lance://{tmp_path}/lake", "--embedder", "hashed"]
    cluster = ["--ray", "auto", "--workers", "1"]
    run = CliRunner().invoke
    added = run(app, [*own, "--collection", "b", "add", str(pages), *cluster])
    assert added.exit_code == 0, added.output
    with (
        Engine.open(f"lance://{tmp_path}/lake", collection="a", embedder="hashed") as whole,
        Engine.open(f"lance://{tmp_path}/lake", collection="b", embedder="hashed") as shared,
    ):
        whole.add(pages)
        assert list_rows(shared) == list_rows(whole)
        whole.reembed("hashed:32")
        expected = list_rows(whole)
        embedded = run(app, [*own, "--collection", "b", "reembed", "hashed:32", *cluster])
        assert embedded.exit_code == 0, embedded.output
        assert "the collection uses hashed:32" in embedded.output
    with Engine.open(f"lance://{tmp_path}/lake", collection="b", embedder="hashed:32") as shared:
        assert list_rows(shared) == expected


def test_a_node_that_cannot_import_is_said_in_one_line_and_nothing_is_added(
    pages: Path, tmp_path: Path, local_ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack_module() -> tuple[str, str]:
        return "", "ModuleNotFoundError: No module named 'clew'"

    monkeypatch.setattr("clew.ray.probe.try_import", lack_module)
    own, run = ["--path", f"lance://{tmp_path}/lake", "--embedder", "hashed"], CliRunner().invoke
    added = run(app, [*own, "add", str(pages), "--ray", "auto", "--workers", "1"])
    assert added.exit_code == 5, added.output
    (line,) = [line for line in added.stderr.splitlines() if line.startswith("clew: ")]
    assert "cannot import Clew (ModuleNotFoundError: No module named 'clew'); install clew[ray] there" in line
    assert run(app, [*own, "list", "--json"]).stdout.count('"title"') == 0


def make_broken_embedder() -> Embedder:
    """An embedder that fails in the workers; its class is sent there, since they cannot import it."""
    from clew.drivers.embed.hashed import HashedEmbedder

    class Broken(HashedEmbedder):
        def embed(self, texts: Any, *, role: Any) -> Any:
            if len(texts) > 1:
                raise DriverFailed("the model has no memory left")
            return super().embed(texts, role=role)

    made = Broken()
    made.name = "broken"
    return made


@pytest.mark.soak
@ONLY_LONG
def test_a_worker_that_fails_ends_the_work_and_the_vectors_in_use_stay(
    open_collection: OpenCollection, pages: Path, local_ray: None
) -> None:
    engine = open_collection("a", settings=PRICED)
    engine.add(pages)
    before = list_rows(engine)
    with pytest.raises(DriverFailed, match="the model has no memory left"):
        engine.reembed(make_broken_embedder(), ray="auto", workers=2)
    assert list_rows(engine) == before
    engine.reembed(discard=True)
    stopped = engine.reembed("hashed:32", ray="auto", workers=2, max_cost=0.0)
    assert "the limit is" in stopped.stopped
    assert (stopped.embedded, engine.status().embedder) == (0, "hashed")
    stages: list[str] = []
    engine.reembed("hashed:32", ray="auto", workers=2, on_progress=lambda each: stages.append(each.stage))
    assert (stages[0], stages[-1], engine.status().embedder) == ("starting", "embedding", "hashed:32")


@pytest.mark.soak
@ONLY_LONG
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
