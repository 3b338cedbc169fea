"""`doctor` finds every fault that is planted in a collection, in either store, and repairs those that can be."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clew import Engine
from tests.conftest import made_databases
from tests.engine.upkeep.faults import FAULTS, Fault, damage_folder, damage_server, fill, make_damageable

EMBEDDER = "hashed:64"
CASES = [
    pytest.param(store, fault, id=f"{store}-{fault.name}")
    for store in ("folder", "postgres")
    for fault in FAULTS
    if fault.fits(store)
]
REMOVED = ("document gone", "text gone")  # of all others the text is sound, or its chunks say it


@pytest.fixture(scope="module")
def whole_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a collection and its sources, to be copied."""
    folder = tmp_path_factory.mktemp("whole")
    with Engine.open(folder / "team.clew", embedder="hashed:32") as engine:
        fill(engine, folder)
    return folder


@pytest.fixture(scope="module")
def whole_database(
    postgres_server: str, postgres_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The name of a database with the same collection."""
    with made_databases(postgres_server) as make:
        url = make(postgres_template)
        with Engine.open(url, embedder="hashed:32") as engine:
            fill(engine, tmp_path_factory.mktemp("sources"))
        make_damageable(url)
        yield urlsplit(url).path[1:]


@pytest.fixture(scope="module")
def tally() -> Iterator[dict[str, Counter[str]]]:
    """Counts what becomes of the faults, by store, and prints it in the end (`-n 0 -s` shows it)."""
    counts: dict[str, Counter[str]] = {}
    yield counts
    for store, found in counts.items():
        print(f"\n{store}: {', '.join(f'{count} {what}' for what, count in found.items())}")  # noqa: T201


def open_damaged(store: str, fault: Fault | None, request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """An engine over a copy of the collection with a fault in it."""
    if store == "folder":
        folder = tmp_path / "copy"
        shutil.copytree(request.getfixturevalue("whole_folder"), folder)
        path: str | Path = folder / "team.clew"
        if fault:
            damage_folder(folder / "team.clew" / "default", fault)
    else:
        path = request.getfixturevalue("postgres_database")(request.getfixturevalue("whole_database"))
        if fault:
            damage_server(str(path), fault)
    engine = Engine.open(path, embedder=EMBEDDER)
    if fault and fault.change:
        fault.change(engine)
    return engine


@pytest.mark.parametrize("store", ["folder", "postgres"])
def test_nothing_is_found_where_nothing_is_wrong(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with open_damaged(store, None, request, tmp_path) as engine:
        assert engine.doctor(full=True).defects == ()


def test_there_are_sixty_faults_for_each_store() -> None:
    assert all(sum(fault.fits(store) for fault in FAULTS) >= 60 for store in ("folder", "postgres"))
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize(("store", "fault"), CASES)
def test_a_fault_is_found_and_repaired(
    store: str, fault: Fault, tally: dict[str, Counter[str]], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    counts = tally.setdefault(store, Counter(planted=0, found=0, repaired=0))
    counts["planted"] += 1
    with open_damaged(store, fault, request, tmp_path) as engine:
        report = engine.doctor(repair=True)  # which looks again after the repair
        assert "vault" in {record.id for record in engine.list()} or fault.name in REMOVED
    found = [defect for defect in report.defects if defect.area == fault.area]
    assert found, report.defects
    assert all(defect.problem and defect.advice for defect in report.defects)
    counts["found"] += 1
    counts["repaired"] += all(defect.is_repaired for defect in found)
    counts.update({f"by {defect.remedy}" for defect in found if defect.is_repaired})
    if fault.is_repaired:
        assert all(defect.is_repaired for defect in report.defects), report.defects
    else:
        assert not any(defect.is_repaired for defect in found)
