"""`doctor` with `repair`: what stops midway loses nothing, and only what is proved to be damaged is removed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from clew import Engine
from clew.core.errors import DriverFailed
from clew.core.protocols import Role
from clew.core.types import Matrix
from clew.drivers.embed.hashed import HashedEmbedder
from tests.engine.chosen import OpenEngine
from tests.engine.test_doctor import fill, make_change

THREAD = "(SELECT row FROM documents WHERE kind = 'thread')"


class FailingEmbedder(HashedEmbedder):
    """A model that raises an error while there is one."""

    error: BaseException | None = None

    def embed(self, texts: Sequence[str], *, role: Role) -> Matrix:
        if self.error:
            raise self.error
        return super().embed(texts, role=role)


def find_thread(engine: Engine) -> str:
    (thread,) = [record.id for record in engine.list() if record.kind == "thread"]
    return thread


def test_a_repair_that_stops_midway_loses_no_chunks(open_engine: OpenEngine, request: pytest.FixtureRequest) -> None:
    embedder = FailingEmbedder(32)
    engine = open_engine(embedder=embedder)
    fill(engine)
    before = engine.status().chunks
    shown = [(hit.chunk.id, hit.score) for hit in engine.search("rota part", k=5)]
    make_change(request, engine)(
        f"UPDATE chunks SET context = 'forged' WHERE row = (SELECT min(row) FROM chunks WHERE doc = {THREAD})"
    )
    embedder.error = DriverFailed("the embedder is away")
    assert not engine.doctor(repair=True).is_sound
    assert engine.status().chunks == before
    embedder.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        engine.doctor(repair=True)
    assert engine.status().chunks == before
    embedder.error = None
    assert not engine.doctor().is_sound
    assert engine.doctor(repair=True).is_sound
    assert engine.doctor(full=True).defects == ()
    assert [(hit.chunk.id, hit.score) for hit in engine.search("rota part", k=5)] == shown


@pytest.mark.parametrize("kind", ["page", "thread"])
def test_a_document_or_thread_without_chunks_is_damaged_and_gets_them(open_engine: OpenEngine, kind: str) -> None:
    engine = open_engine(embedder="hashed:32")
    fill(engine)
    doc_id = find_thread(engine) if kind == "thread" else "d1"
    (stored,) = engine.opened.store.stored_documents([doc_id])
    bare = replace(stored, chunks=(), terms=(), vectors=np.zeros((0, 32), np.float32), summary_vector=None)
    engine.opened.store.put_stored(bare)
    report = engine.doctor()
    assert not report.is_sound
    assert ("sizes", doc_id, "rechunk") in {(each.area, each.document, each.remedy) for each in report.defects}
    assert engine.doctor(repair=True).is_sound
    assert engine.doctor(full=True).defects == ()
    assert doc_id in {hit.document.id for hit in engine.search("rota vault", k=50)}
