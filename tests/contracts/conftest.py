"""Every kind of store, for the contract tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from clew.core.settings import StoreConfig
from clew.drivers.store import lance, postgres
from clew.drivers.store.sqlite.backend import open_store
from clew.drivers.store.store import Store
from tests.azure_server import AZURITE
from tests.own_backend import load_opener
from tests.pooler import PGBOUNCER, find_database, started_pooler
from tests.soak import choose_runs

DIM = 8
MODEL = "model-a"
OWN = "of one's own"  # the backend in docs/extending.md, or that of --backend
KINDS = ("memory", "exact", "shard", "postgres", "postgres-graph", "lance", OWN)
# All of the contract too, in `make soak`; `test_store_on_lance.py` has the part that differs most for every day.
LONG = tuple(
    pytest.param(kind, marks=pytest.mark.soak)
    for kind in (
        "lance-index",
        "lance-s3",
        *(("lance-az",) if AZURITE else ()),
        *(("postgres-pooler",) if PGBOUNCER else ()),
    )
    if choose_runs(0, 1)
)

MakeStore = Callable[..., Store]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is such a thing: a shard waits for the disk at every turn."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def pooler(postgres_server: str) -> Iterator[str]:
    """The address of a pooler in transaction mode before the server."""
    with started_pooler(postgres_server) as url:
        yield url


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the contract over every kind of store, or over the backend of --backend alone."""
    if "make_store" in metafunc.fixturenames and not hasattr(metafunc.module, "make_store"):
        is_own = metafunc.config.getoption("--backend", None)
        metafunc.parametrize("make_store", (OWN,) if is_own else (*KINDS, *LONG), indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what does not ask the backend of --backend."""
    if config.getoption("--backend", None):
        items[:] = [each for each in items if each.path.name == "test_backend.py" or OWN in each.name]


@pytest.fixture
def make_store(request: pytest.FixtureRequest, place: Path) -> Iterator[MakeStore]:
    """Opens a store by the name of its collection; all are closed in the end."""
    opened: list[Store] = []

    def make(collection: str = "one", *, embedder: str = MODEL, dim: int = DIM) -> Store:
        config = (
            StoreConfig(exact_below=0) if request.param in ("shard", "postgres-graph", "lance-index") else StoreConfig()
        )
        if request.param.startswith("postgres"):
            url = request.getfixturevalue("postgres")
            if request.param == "postgres-pooler":
                pooler = find_database(request.getfixturevalue("pooler"), url)
                config = StoreConfig(exact_below=0, pooler=pooler)
            opened.append(postgres.open_store(url, collection=collection, embedder=embedder, dim=dim, config=config))
            if config.exact_below == 0:
                opened[-1].flush()  # so that there is a graph from the start
        elif request.param.startswith("lance"):
            remote = {"lance-s3": "s3", "lance-az": "azure"}.get(request.param)
            url = request.getfixturevalue(remote) if remote else f"lance://{place}"
            opened.append(lance.open_store(url, collection=collection, embedder=embedder, dim=dim, config=config))
        elif request.param == OWN:
            opener = load_opener(request.config.getoption("--backend", None))
            backend: Any = opener(place, collection)
            backend.contract_folder = place  # where an erasure must leave no bytes
            backend.open(embedder, dim)
            opened.append(Store(backend))
        elif request.param == "memory":
            opened.append(open_store(None, embedder=embedder, dim=dim, config=config))
        elif request.param in ("exact", "shard"):
            folder = place / collection
            opened.append(open_store(folder, embedder=embedder, dim=dim, config=config))
        else:
            raise ValueError(f"make_store has no branch for the kind {request.param!r} of KINDS")
        return opened[-1]

    yield make
    for store in opened:
        store.close()
