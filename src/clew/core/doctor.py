"""What `doctor` finds in a collection: defects, by area, and what repairs each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, runtime_checkable

Area = Literal["truth", "spans", "counts", "vectors", "postings", "index", "summaries", "orphans"]
AREAS: Final[tuple[Area, ...]] = (
    "truth",
    "spans",
    "counts",
    "vectors",
    "postings",
    "index",
    "summaries",
    "orphans",
)
Remedy = Literal["recount", "rechunk", "remove", "delete", "rebuild", "summarise", "accept", ""]
REMEDIES: Final[Mapping[Remedy, str]] = {
    "recount": "the counts are added up again",
    "rechunk": "its chunks are made again from its text, without the contexts of a language model",
    "remove": "it is removed, since its text cannot be trusted; add its source again, or restore an export",
    "delete": "the rows are deleted",
    "rebuild": "it is built again",
    "summarise": "its summary is made again",
    "accept": "the collection goes on with what is there; add the sources again",
    "": "restore a backup, or an export into a new collection, or add the sources to a new collection",
}


@dataclass(frozen=True, slots=True)
class Defect:
    """Something that is not as it should be: where, what, of which document (an id), and what repairs it.

    An empty `remedy` means that `--repair` cannot help; `advice` says what to do in any case.
    """

    area: Area
    problem: str
    document: str = ""
    remedy: Remedy = ""
    is_repaired: bool = False

    @property
    def advice(self) -> str:
        """What `--repair` does about it, or what is left to do where it can do nothing."""
        return REMEDIES[self.remedy]


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What `doctor` found, after how much: `checked` counts documents, chunks and whatever else was looked at."""

    defects: tuple[Defect, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong, or all that was has been repaired."""
        return all(defect.is_repaired for defect in self.defects)


@runtime_checkable
class Inspectable(Protocol):
    """A store whose contents can be checked; not one that sees a part of a collection."""

    def inspect(self) -> tuple[list[Defect], Mapping[str, int]]:
        """What is wrong, in any area, and how much was checked. Changes nothing."""

    def repair(self, defects: list[Defect]) -> None:
        """Applies the remedies that a store can: all but new chunks and summaries, for which it clears the way."""
