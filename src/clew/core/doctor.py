"""What `doctor` finds in a collection: defects, by area and severity, and what repairs each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, get_args, runtime_checkable

# What is stored and made of it, how well it serves, and what is around it.
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
    """Something that is not as it should be: where, what, of which document (an id), and what repairs it.

    Damage makes results wrong, a warning says that they may soon be, advice how they could be better. An empty `remedy`
    means that `--repair` cannot help; `advice` says what to do in any case: `next_step` where that is given.
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
        """What `--repair` does about it, or what is left to do where it can do nothing."""
        return self.next_step or REMEDIES[self.remedy]


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What `doctor` found, after how much: `checked` counts documents, chunks and whatever else was looked at.

    `is_sample`: the documents that were read are a sample; `full=True` reads them all.
    """

    defects: tuple[Defect, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    is_sample: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged, or all that was has been repaired; warnings and advice may be left."""
        return all(defect.is_repaired or defect.severity != "damage" for defect in self.defects)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a store says of its contents: defects, what was checked, and the ids of the documents that were read.

    `names` are the addresses or titles of documents by id where something is wrong, of damaged records too.
    """

    defects: tuple[Defect, ...]
    checked: Mapping[str, int] = field(default_factory=dict)
    documents: tuple[str, ...] = ()
    is_sample: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Inspectable(Protocol):
    """A store whose contents can be checked; not one that sees a part of a collection."""

    def inspect(self, *, max_chunks: int | None = None) -> Inspection:
        """Return what is wrong, in any area. Changes nothing.

        Of a collection of more than `max_chunks` (None: no limit), the documents that are read are a random sample of
        about so many chunks; what can be asked of the tables as a whole is asked all the same.
        """

    def repair(self, defects: list[Defect]) -> None:
        """Apply the remedies that a store can: all but new chunks and summaries, which a put brings.

        Chunks that are to be made again stay until then, but for a document of which only a part was sound.
        """
