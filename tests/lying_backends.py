"""Backends that break their promises, for tests that show that the contract suite and doctor name them.

Each is the backend of docs/extending.md with one lie, opened as `--backend tests.lying_backends:NAME`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from clew import BaseBackend
from clew.drivers.store.backend import CHUNK, PIECE
from tests.own_backend import load_opener, load_page


def _lie(make: Callable[[Any], type]) -> Callable[[Path, str], BaseBackend]:
    """The function that opens a lying backend."""

    def open_backend(folder: Path, collection: str) -> BaseBackend:
        honest: Any = load_opener(None)(folder, collection)
        lying: BaseBackend = make(load_page()["DictBackend"])(honest.database)
        return lying

    return open_backend


def _count_wrongly(base: Any) -> type:
    class WrongCounts(base):  # type: ignore[misc]
        def commit(self, before: Any, head: Any, removed: Any, added: Any) -> bool:
            done: bool = super().commit(before, head, removed, added)
            if done and head.documents:
                self.database.head = replace(head, documents=head.documents + 1)
            return done

    return WrongCounts


def _lose_rows(base: Any, kind: int) -> type:
    class LostRows(base):  # type: ignore[misc]
        def commit(self, before: Any, head: Any, removed: Any, added: Mapping[Any, Any]) -> bool:
            lost = [key for key in added if key[0] == kind][-1:]
            kept = {key: added[key] for key in added if key not in lost}
            done: bool = super().commit(before, head, removed, kept)
            return done

    return LostRows


def _commit_halfway(base: Any) -> type:
    class Halfway(base):  # type: ignore[misc]
        def commit(self, before: Any, head: Any, removed: Any, added: Mapping[Any, Any]) -> bool:
            with self.database.lock:
                if self.database.head != before:
                    return False
                self.database.rows = {key: row for key, row in self.database.rows.items() if key not in removed}
                for key, row in added.items():
                    self.database.rows = {**self.database.rows, key: row}  # and what if the next one fails?
                self.database.head = head
                return True

    return Halfway


def _commit_anyway(base: Any) -> type:
    class LostUpdates(base):  # type: ignore[misc]
        def commit(self, before: Any, head: Any, removed: Any, added: Any) -> bool:
            done: bool = super().commit(self.database.head, head, removed, added)
            return done

    return LostUpdates


def _show_what_changes(base: Any) -> type:
    class MovingState(base):  # type: ignore[misc]
        @contextmanager
        def snapshot(self) -> Iterator[Any]:
            database = self.database

            class Live:
                head = property(lambda _: database.head)

                def find(self, wanted: Any, columns: Any) -> Any:
                    return load_page()["Snapshot"](database.head, database.rows).find(wanted, columns)

            yield Live()

    return MovingState


def _forget_named(base: Any) -> type:
    class LostTexts(base):  # type: ignore[misc]
        def write_named(self, kind: str, before: Any, after: Any) -> bool:
            self.database.texts[kind] = after
            return True

    return LostTexts


def _ignore_what_is_wanted(base: Any) -> type:
    class Everything(base):  # type: ignore[misc]
        @contextmanager
        def snapshot(self) -> Iterator[Any]:
            class All:
                def __init__(self, honest: Any) -> None:
                    self.head, self.rows = honest.head, honest.rows

                def find(self, wanted: Any, columns: Any) -> list[Any]:
                    return [row for row in self.rows.values() if row["kind"] == wanted.kind]

            with super().snapshot() as honest:
                yield All(honest)

    return Everything


wrong_counts = _lie(_count_wrongly)
lost_chunks = _lie(lambda base: _lose_rows(base, CHUNK))
lost_pieces = _lie(lambda base: _lose_rows(base, PIECE))
halfway = _lie(_commit_halfway)
lost_updates = _lie(_commit_anyway)
moving_state = _lie(_show_what_changes)
lost_texts = _lie(_forget_named)
all_rows = _lie(_ignore_what_is_wanted)
