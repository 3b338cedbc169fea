"""Runs in the format of TREC, which trec_eval, ir-measures and ranx read."""

from pathlib import Path
from urllib.parse import quote

from clew.core.errors import SourceError
from clew.evaluation.types import EvaluationRun

MAX_FACTOR = 100
_PLAIN = "/:#?&=+,;@!()[]{}'~"  # of an address; white space would end a column


def export_trec(run: EvaluationRun, folder: str | Path) -> tuple[Path, ...]:
    """Writes `qrels.txt`, and a run file for each system, into a folder; the files.

    The score of a result is one over its rank, since trec_eval orders by it. Grades are whole numbers there, so all are
    multiplied by `find_grade_factor(run)`; measures with linear gains, as Clew's, stay the same. White space, % and
    letters beyond ASCII in a name are percent-encoded, and a space in the name of a system is a hyphen.
    """
    folder, factor = Path(folder), find_grade_factor(run)
    qrels = [
        f"{_escape(question)} 0 {_escape(name)} {round(grade * factor)}"
        for question in run.questions
        for name, grade in run.grades.get(question, {}).items()
    ]
    files = {folder / "qrels.txt": qrels}
    for number, system in enumerate(run.systems, 1):
        tag = _escape(system.name.replace(" ", "-"))
        files[folder / f"{number}-{tag.replace('/', '-')}.run"] = [
            f"{_escape(result.question)} Q0 {_escape(name)} {rank} {1 / rank:.6f} {tag}"
            for result in run.results
            if result.system == system.name
            for rank, name in enumerate(result.ranking, 1)
        ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, lines in files.items():
            file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    except OSError as error:
        raise SourceError(str(folder), f"cannot be written: {error.strerror}") from error
    return tuple(files)


def find_grade_factor(run: EvaluationRun) -> int:
    """The smallest number that makes all grades whole ones, 2 for a half; 100 if none does, and they are rounded."""
    grades = {grade for each in run.grades.values() for grade in each.values()}
    whole = (at for at in range(1, MAX_FACTOR) if all(abs(at * each - round(at * each)) < 1e-6 for each in grades))
    return next(whole, MAX_FACTOR)


def _escape(name: str) -> str:
    return quote(name, safe=_PLAIN)
