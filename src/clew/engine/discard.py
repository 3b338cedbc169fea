"""Deleting the vectors that are not in use, with the room that they took on the disk."""

from clew.core.protocols import ReclaimsRoom, Store
from clew.core.report import Report, SourceFailure

MIN_FREE = 0.1  # share of a folder's database that is free, from which it is rewritten though no vectors are staged


def discard_vectors(store: Store) -> Report | None:
    """Deletes the staged vectors and gives free room back to the disk; None if there was neither."""
    was_there = store.staged_model() is not None and store.discard_staged()
    problems = store.reclaim_room(0.0 if was_there else MIN_FREE) if isinstance(store, ReclaimsRoom) else None
    if problems is None:
        return Report() if was_there else None
    found = "the vectors are deleted" if was_there else "there were no unused vectors"
    if problems:
        reasons = [f"{found}, but {problem} (`clew reembed --discard`)" for problem in problems]
        return Report(failed=tuple(SourceFailure("free room", reason) for reason in reasons))
    if was_there:
        return Report()
    return Report(noted=(SourceFailure("free room", f"{found}; the room that was free in the file was given back"),))
