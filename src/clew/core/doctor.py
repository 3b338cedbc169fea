"""The findings of `doctor` in a collection: defects, by area and severity, and their remedies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, get_args, runtime_checkable

# The stored data and everything derived from it, its quality, and its surroundings.
# fmt: off
Area = Literal[
    "truth", "spans", "counts", "vectors", "postings", "filters", "index", "summaries", "orphans", "staged",
    "calibration", "embeddings", "sizes", "duplicates", "languages", "threads", "sources", "protection", "disk",
]
# fmt: on
AREAS: Final[tuple[Area, ...]] = get_args(Area)
Severity = Literal["damage", "warning", "advice"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
Remedy = Literal["copy", "rebuild", "rechunk", "keep", "remove", "delete", "accept", "protect", ""]
REMEDIES: Final[Mapping[Remedy, str]] = {
    "copy": "the file is written anew, row by row; rows that cannot be read are left out, and told by what lacks them",
    "rebuild": "it is made again from what is stored",
    "rechunk": "its chunks are made again from its text, without the contexts of a language model",
    "keep": "the text that is sound is kept and its chunks are made again; what cannot be trusted is left out (where"
    " that is its record, nobody sees it by a label); add its source again",
    "remove": "it is removed, since nothing of its text can be trusted; add its source again, or restore an export",
    "delete": "the rows are deleted",
    "accept": "the collection goes on with what is there; add the sources again",
    "protect": "it is put back as Clew makes it",
    "": "restore a backup, or an export into a new collection, or add the sources to a new collection",
}


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect: its area, the problem, the document (an id) if any, and the remedy.

    Damage makes results wrong, a warning says that they may soon be wrong, advice how to improve them. An empty
    `remedy` means that `--repair` cannot help; `advice` says what to do in any case, `next_step` if it is given.
    """

    area: Area
    problem: str
    document: str = ""
    remedy: Remedy = ""
    is_repaired: bool = False
    severity: Severity = "damage"
    next_step: str = ""

    @property
    def advice(self) -> str:
        """What `--repair` does about the defect, or what to do where it cannot help."""
        return self.next_step or REMEDIES[self.remedy]


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The defects that `doctor` found; `checked` counts the documents, chunks and other items that it examined.

    `is_sample`: only a sample of the documents was read; `full=True` reads them all.
    """

    defects: tuple[Defect, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    is_sample: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether no damage is left unrepaired; warnings and advice may be."""
        return all(defect.is_repaired or defect.severity != "damage" for defect in self.defects)


@dataclass(frozen=True, slots=True)
class Inspection:
    """A store's check of its contents: defects, counts of checked items, and the ids of the documents that were read.

    `names` are the addresses or titles, by id, of documents with defects, even of damaged records.
    """

    defects: tuple[Defect, ...]
    checked: Mapping[str, int] = field(default_factory=dict)
    documents: tuple[str, ...] = ()
    is_sample: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Inspectable(Protocol):
    """A store whose contents can be checked; a store limited to a part of a collection cannot."""

    def inspect(self, *, max_chunks: int | None = None) -> Inspection:
        """Find defects in all areas; change nothing.

        If the collection has more than `max_chunks` (None: no limit), only a random sample of documents with about that
        many chunks is read. Checks on whole tables run in any case.
        """

    def repair(self, defects: list[Defect]) -> None:
        """Apply the remedies of the store: all but new chunks and summaries, which a later put writes.

        Chunks that must be made again stay until then, unless only a part of their document was sound.
        """
