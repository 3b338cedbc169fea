"""The shard index: a qdrant-edge shard that follows the database, for collections too large for the exact index."""

import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import qdrant_edge as edge

from clew.core.errors import DriverFailed
from clew.drivers.store.sqlite import frequencies, points, signals
from clew.drivers.store.sqlite.candidates import Candidates, translate_errors
from clew.drivers.store.sqlite.checkpoint import FILE as MARK
from clew.drivers.store.sqlite.checkpoint import Checkpoint, write_checkpoint
from clew.drivers.store.sqlite.database import CollectionState, Database
from clew.drivers.store.sqlite.files import delete_folder
from clew.drivers.store.sqlite.folder import measure_disk_usage
from clew.drivers.store.sqlite.index import BrokenIndex
from clew.drivers.store.sqlite.row_cache import RowCache
from clew.drivers.store.sqlite.seal import SEAL, Seal, has_right_seal
from clew.drivers.store.sqlite.shard_searches import ShardSearches
from clew.drivers.store.sqlite.signals import Tombstone
from clew.drivers.store.sqlite.sparse import copy_file
from clew.drivers.store.sqlite.vectors import stores_half

SAVE_EVERY = 5_000  # rows that are followed between two savings
DELETE_BATCH = 1_000
MIN_FREE = 64 << 20  # bytes on the disk: the files are mapped, and on a full disk writing to them ends the process


class ShardIndex(ShardSearches):
    """An open shard. The caller holds its lock."""

    name = "qdrant-edge shard"

    def __init__(
        self,
        folder: Path,
        database: Database,
        checkpoint: Checkpoint,
        *,
        rows: RowCache | None = None,
        is_copy: bool = False,
    ) -> None:
        """Opens the shard in a folder, or one that was copied there, or creates one if the checkpoint is a new one."""
        self.checkpoint = checkpoint
        self.folder = folder
        self._database = database
        self._lock = threading.RLock()
        self._saved = checkpoint
        self._seal = Seal(folder)
        self._rows = rows or RowCache(database)
        with translate_errors():
            place = folder / "shard"
            is_new = not checkpoint.counts
            if not is_new and not is_copy and not has_right_seal(folder):
                raise BrokenIndex("its files are not as they were written, or were not finished")
            self._frequencies = (
                frequencies.EMPTY if is_new else frequencies.load_document_frequencies(folder / checkpoint.counts)
            )
            if not is_new:
                self._shard = edge.EdgeShard.load(str(place))
                if not is_copy:
                    self._seal.renew()
            else:
                place.mkdir(parents=True)
                self._check_room()
                with database.reader as db:
                    is_half = stores_half(db, checkpoint.dim)
                self._shard = edge.EdgeShard.create(str(place), points.make_config(checkpoint.dim, is_half=is_half))
                for made in points.make_field_indexes():
                    self._shard.update(made)
            self._candidates = Candidates(self._shard)

    def catch_up(self, state: CollectionState) -> None:
        """Applies every change of the database up to a state. Idempotent, so it can be repeated after a crash."""
        if self._has_followed(state):
            return
        with self._lock, translate_errors():
            if self._has_followed(state):
                return
            found = signals.read_tombstones(self._database, self.checkpoint.change, self.checkpoint.row, state)
            if found is None:
                raise BrokenIndex("it is too far behind to catch up")
            tombstones, filled = found
            self._check_room()
            self._seal.break_()
            self._remove_rows(tombstones)
            if filled.ids:
                self._shard.update(
                    edge.UpdateOperation.upsert_points(points.make_points(filled, self.checkpoint.average))
                )
            changed = len(tombstones) + len(filled.ids)
            self._advance_checkpoint(changed, change=max(self.checkpoint.change, state.change))
            for batch in signals.read_rows_in_batches(self._database, self.checkpoint.row, state):
                self._check_room()
                if batch.signals.ids:
                    made = points.make_points(batch.signals, self.checkpoint.average)
                    self._shard.update(edge.UpdateOperation.upsert_points(made))
                added = np.concatenate([batch.signals.terms, *batch.removed_terms])
                self._frequencies = frequencies.update_document_frequencies(self._frequencies, added)
                self._advance_checkpoint(len(batch.signals.ids), row=batch.last_row)
            self._candidates.forget()

    def count_words(self) -> frequencies.CountTable:
        """How many chunks have each word, as this index has counted them."""
        return frequencies.merge_document_frequencies(self._frequencies)

    def count_chunks(self) -> int:
        """How many chunks are in the shard."""
        with translate_errors():
            return self._shard.count(edge.CountRequest(exact=True))

    def has_chunks(self, number: int) -> bool:
        """Whether so many chunks are in the shard."""
        with translate_errors():
            known = self._shard.info().points_count  # at once; one that a kill left in two segments is in it twice
        return known == number or self.count_chunks() == number

    def build_graph(self) -> None:
        """Builds the HNSW graph. Holds the interpreter's lock, perhaps for a minute."""
        with self._lock, translate_errors():
            self._check_room(measure_disk_usage(self.folder))
            self._seal.break_()
            self._shard.optimize()
            self._candidates.forget()
            self.checkpoint = replace(self.checkpoint, unindexed=0)
            self._saved = replace(self._saved, change=-1)

    def save(self) -> None:
        """Saves the shard and its checkpoint; returns when both are safe on disk.

        Changes may go on while its seal is made; then the next saving seals it.
        """
        with self._lock, translate_errors():
            self._save_unsealed()
            breaks = self._seal.breaks
        with translate_errors():
            self._seal.write(self._lock, breaks)

    def _save_unsealed(self) -> None:
        if self.checkpoint != self._saved:
            self._seal.break_()
            self._shard.flush()
            old, name = self.checkpoint.counts, f"counts-{self.checkpoint.row}-{self.checkpoint.change}.npy"
            frequencies.save_document_frequencies(self.folder / name, self._frequencies)
            self.checkpoint = self._saved = replace(self.checkpoint, counts=name)
            write_checkpoint(self.folder, self.checkpoint)
            if old and old != name:
                (self.folder / old).unlink(missing_ok=True)

    def copy_to(self, target: Path) -> Checkpoint:
        """Copies the saved shard to another folder and returns its checkpoint, which the copy has not.

        So nobody takes the copy for a shard that is finished. Searches and changes go on meanwhile; if there
        were changes, it is copied once more, and they wait.
        """
        is_copied = False
        with self._lock, translate_errors():
            self._save_unsealed()
            breaks = self._seal.breaks
        with suppress(OSError):  # files come and go where it changes, and it is copied once more
            self._copy_files(target)
            is_copied = True
        with self._lock, translate_errors():
            if not is_copied or breaks != self._seal.breaks:
                delete_folder(target)
                self._save_unsealed()
                self._copy_files(target)
            return self.checkpoint

    def _copy_files(self, target: Path) -> None:
        (target / "shard").mkdir(parents=True)
        left_out = shutil.ignore_patterns(f"{MARK}*", f"{SEAL}*")
        try:
            shutil.copytree(self.folder, target, ignore=left_out, copy_function=copy_file, dirs_exist_ok=True)
        except shutil.Error as error:
            _, _, reason = error.args[0][0]  # of the first file; it names all of them
            raise OSError(reason) from error

    def close_without_saving(self) -> None:
        """Closes the shard without saving."""
        with self._lock, suppress(Exception):
            self._shard.close()

    def save_and_close(self) -> None:
        """Saves and closes the shard."""
        with self._lock:
            try:
                self.save()
            finally:
                with translate_errors():
                    self._shard.close()
            with translate_errors():
                self._seal.write(self._lock, self._seal.breaks)

    def _check_room(self, size: int = 0) -> None:
        """Raises DriverFailed if the disk has no room for so many bytes."""
        free = shutil.disk_usage(self.folder).free
        if free < MIN_FREE + size:
            raise DriverFailed(
                f"{self.folder.parent}: the disk has {free >> 20} MB free, and to write the index "
                f"{(MIN_FREE + size) >> 20} MB are needed; make room"
            )

    def _has_followed(self, state: CollectionState) -> bool:
        return self.checkpoint.change >= state.change and self.checkpoint.row >= state.last

    def _remove_rows(self, tombstones: list[Tombstone]) -> None:
        """Deletes rows; those that were added and removed since it last caught up were never in it."""
        rows: list[int | UUID | str] = [row for row, _ in tombstones]
        for start in range(0, len(rows), DELETE_BATCH):
            self._shard.update(edge.UpdateOperation.delete_points(rows[start : start + DELETE_BATCH]))
        removed = [terms for row, terms in tombstones if row <= self.checkpoint.row]
        self._frequencies = frequencies.update_document_frequencies(self._frequencies, np.empty(0, np.int64), removed)

    def _advance_checkpoint(self, rows: int, *, row: int | None = None, change: int | None = None) -> None:
        """Moves the checkpoint after so many rows were added or removed, and saves it now and then."""
        now = self.checkpoint
        self.checkpoint = replace(
            now,
            row=now.row if row is None else row,
            change=now.change if change is None else change,
            unindexed=now.unindexed + rows,
        )
        if self.checkpoint.unindexed - self._saved.unindexed > SAVE_EVERY:
            self._save_unsealed()
