"""Workers in this process: what each does with its share, whatever happened to the worker before it."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from clew import DriverFailed, EmbedderConfig, Engine, SettingsError
from clew.core.errors import ClewError
from clew.engine.add import make_ingest_context
from clew.index.add.context import ignore_warning
from clew.index.walk.files import DEFAULT_RULES
from clew.index.walk.sync import MovedFiles
from clew.ray.pool import TaskWorker, make_embed
from clew.ray.shares import COLUMN, Outcome, Share, Skipped, WorkerSpec, dump, load, make_shares
from clew.ray.worker import BudgetKeeper, Worker
from tests.ray.conftest import list_rows

OpenCollection = Callable[..., Engine]


def make_spec(engine: Engine, **changes: object) -> WorkerSpec:
    opened = engine.opened
    spec = WorkerSpec(
        opened.address,
        opened.collection,
        EmbedderConfig(name="hashed"),
        None,
        opened.settings,
        opened.root,
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def list_shares(engine: Engine, folder: Path) -> list[Share | Skipped]:
    context = make_ingest_context(engine.opened, None)
    found = context.discover([folder], DEFAULT_RULES, [])
    recipe = context.make_recipe(embedder=context.embedder, llm=None, on_warning=ignore_warning)
    return list(make_shares(context.make_sources(found, ignore_warning), store=context.store, recipe=recipe))


def do(worker: Worker, share: Share) -> Outcome:
    outcome = load(worker({COLUMN: dump(share)})[COLUMN])
    assert isinstance(outcome, Outcome)
    return outcome


def test_shares_hold_few_files_or_a_whole_channel_and_leave_out_what_is_stored(
    open_collection: OpenCollection, pages: Path
) -> None:
    engine = open_collection("a")
    shares = list_shares(engine, pages)
    sizes = [len(share.sources) for share in shares if isinstance(share, Share)]
    assert sizes[:3] == [32, 32, 6]
    channels = [share for share in shares if isinstance(share, Share)][3:]
    assert len(channels) == 3
    engine.add(pages)
    (pages / "000.md").write_text("# Another page")
    shares = list_shares(engine, pages)
    assert sum(share.unchanged for share in shares if isinstance(share, Skipped)) == 69
    changed, *threads = [share for share in shares if isinstance(share, Share)]
    assert [len(changed.sources), len(changed.hashes), len(threads)] == [1, 1, 3]


def test_a_share_done_again_after_its_worker_was_lost_counts_as_added_and_stores_nothing_anew(
    open_collection: OpenCollection, pages: Path
) -> None:
    engine, whole = open_collection("a"), open_collection("b")
    whole.add(pages)
    share = next(share for share in list_shares(engine, pages) if isinstance(share, Share))
    lost = do(Worker(dump(make_spec(engine)), {}, None, "add"), replace(share, sources=share.sources[:20]))
    assert len(lost.report.added) == 20
    change = engine.opened.store.change_number()
    again = do(Worker(dump(make_spec(engine)), {}, None, "add"), replace(share, sources=share.sources[:20])).report
    assert engine.opened.store.change_number() == change
    assert (sorted(again.added), again.skipped, again.chunks) == (sorted(lost.report.added), 0, lost.report.chunks)
    rest = do(Worker(dump(make_spec(engine)), {}, None, "add"), share).report
    assert (len(rest.added), rest.skipped) == (32, 0)
    stored = list_rows(engine)
    assert stored == {name: row for name, row in list_rows(whole).items() if name in stored}


def test_a_changed_document_of_a_lost_worker_counts_as_changed(open_collection: OpenCollection, pages: Path) -> None:
    engine = open_collection("a")
    engine.add(pages / "000.md")
    (pages / "000.md").write_text("# Another page")
    share = next(share for share in list_shares(engine, pages / "000.md") if isinstance(share, Share))
    worker = Worker(dump(make_spec(engine)), {}, None, "add")
    for _ in range(2):
        report = do(worker, share).report
        assert (len(report.changed), report.added, report.skipped) == (1, (), 0)


def test_two_workers_that_prepare_and_store_do_what_one_does(open_collection: OpenCollection, pages: Path) -> None:
    engine, whole = open_collection("a"), open_collection("b")
    whole.add(pages)
    prepare = Worker(dump(make_spec(engine)), {}, None, "prepare")
    store = Worker(dump(make_spec(engine)), {}, None, "store")
    for share in list_shares(engine, pages):
        if isinstance(share, Share):
            row = prepare({COLUMN: dump(share)})
            first, change = load(store(row)[COLUMN]).report, engine.opened.store.change_number()
            again = load(store(row)[COLUMN]).report
            assert (first.added, first.skipped) == (again.added, again.skipped)
            assert engine.opened.store.change_number() == change
    assert list_rows(engine) == list_rows(whole)


def test_a_worker_that_cannot_import_a_part_says_so(
    open_collection: OpenCollection, pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_collection("a")
    module = ModuleType("only_here")
    exec("def chunk(document):\n    return []\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    spec = dump(make_spec(engine, chunker=module.chunk))
    monkeypatch.delitem(sys.modules, "only_here")
    share = next(share for share in list_shares(engine, pages) if isinstance(share, Share))
    for stage in ("add", "prepare"):
        row = Worker(spec, {}, None, stage)({COLUMN: dump(share)})
        error = load(row[COLUMN]).error
        assert isinstance(error, DriverFailed)
        assert "No module named 'only_here'" in str(error)
    passed_on = load(Worker(dump(make_spec(engine)), {}, None, "store")(row)[COLUMN])
    assert "No module named 'only_here'" in str(passed_on.error)


def test_a_worker_that_cannot_reach_the_store_says_so(open_collection: OpenCollection, pages: Path) -> None:
    engine = open_collection("a")
    share = next(share for share in list_shares(engine, pages) if isinstance(share, Share))
    nowhere = make_spec(engine, address="postgresql://nobody@127.0.0.1:1/none")
    error = do(Worker(dump(nowhere), {}, None, "add"), share).error
    assert isinstance(error, ClewError)
    assert "127.0.0.1" in str(error)


def test_a_part_that_cannot_be_sent_is_refused(open_collection: OpenCollection, pages: Path) -> None:
    engine = open_collection("a")
    with pytest.raises(SettingsError, match="cannot be sent to the workers"):
        dump(make_spec(engine, embedder=engine.opened.store))


def test_the_keeper_refuses_what_would_exceed_the_limit_of_all_workers() -> None:
    keeper = BudgetKeeper(1.0)
    assert keeper.reserve(0.6, "m") == ""
    assert "the limit is 1.0000" in keeper.reserve(0.6, "m")
    keeper.settle(0.6, 0.1)
    assert keeper.reserve(0.6, "m") == ""
    assert keeper.get_spent() == 0.1
    keeper.stop("enough")
    keeper.stop("later")
    assert keeper.get_stopped() == "enough"


def test_a_folder_is_refused(tmp_path: Path, pages: Path) -> None:
    refused = pytest.raises(SettingsError, match="belongs to this machine")
    with Engine.open(tmp_path / "team", embedder="hashed") as engine, refused:
        engine.add_distributed(pages, address="local")


def test_nothing_is_started_where_all_is_stored(open_collection: OpenCollection, pages: Path) -> None:
    engine = open_collection("a")
    (pages / "chat.jsonl").unlink()
    engine.add(pages)
    report = engine.add_distributed(pages, address="127.0.0.1:1")
    assert (report.skipped, report.added, report.changed) == (70, (), ())


def test_a_moved_file_keeps_its_vectors(open_collection: OpenCollection, pages: Path) -> None:
    engine = open_collection("a")
    engine.add(pages)
    (pages / "000.md").rename(pages / "moved.md")
    gone = MovedFiles(engine.opened.store, engine.opened.root).list_gone()
    share = next(share for share in list_shares(engine, pages / "moved.md") if isinstance(share, Share))
    outcome = do(Worker(dump(make_spec(engine)), gone, None, "add"), share)
    assert (outcome.report.embedded, len(outcome.moved.former)) == (0, 1)


def test_there_is_no_cluster_at_the_address(open_collection: OpenCollection, pages: Path) -> None:
    engine = open_collection("a")
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        with pytest.raises(DriverFailed, match=f"no Ray cluster at '{address}'"):
            engine.add_distributed(pages, address=address)
    assert engine.status().documents == 0


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are POSIX")
def test_a_full_disk_is_an_error_and_nothing_is_lost(pages: Path, tmp_path: Path) -> None:
    import resource

    def open_lake(name: str) -> Engine:
        return Engine.open(f"lance://{tmp_path}/lake", collection=name, embedder="hashed")

    with open_lake("a") as engine, open_lake("b") as whole:
        whole.add(pages)
        spec = make_spec(engine)
        first, second, *rest = [share for share in list_shares(engine, pages) if isinstance(share, Share)]
        worker = Worker(dump(spec), {}, None, "add")
        assert len(do(worker, first).report.added) == 32
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # a longer file cannot be written, as on a full disk
        try:
            outcome = do(worker, second)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert isinstance(outcome.error, DriverFailed)
        assert "the disk is full" in str(outcome.error)
        assert engine.status().documents == 32
        reports = [do(worker, share).report for share in (second, *rest)]
        assert [failure for report in reports for failure in report.failed] == []
        assert list_rows(engine) == list_rows(whole)


def test_workers_of_a_cluster_need_its_address(open_collection: OpenCollection) -> None:
    engine = open_collection("a")
    with pytest.raises(SettingsError, match="give its address too"):
        engine.reembed("hashed:32", workers=2)
    with pytest.raises(DriverFailed, match=r"no Ray cluster at '127\.0\.0\.1:1'"):
        engine.reembed("hashed:32", ray="127.0.0.1:1")
    assert engine.opened.store.staged_model() is None


def test_an_embedder_that_a_worker_cannot_import_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("only_here")
    exec("class Own:\n    name = 'own'\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    given = dump(partial(make_embed, module.Own()))
    monkeypatch.delitem(sys.modules, "only_here")
    error = TaskWorker(given).run((["a"], "passage"))
    assert isinstance(error, DriverFailed)
    assert "No module named 'only_here'" in str(error)
    worker = TaskWorker(dump(partial(make_embed, EmbedderConfig(name="hashed:8"))))
    assert worker.run((["a"], "passage")).shape == (1, 8)
