"""A job as the server replies with it: by the names that were sent, without the paths of its own disk."""

from pathlib import PurePath
from typing import Any

from clew.core.jobs import Job
from clew.surface.server.places import Places
from clew.surface.to_json import to_json

_OWN = ("root", "is_upload")  # of a request: for the worker alone


def job_to_reply(job: Job, places: Places) -> dict[str, Any]:
    """The JSON of a job; paths are relative to the folder of the upload, or the last part of one elsewhere.

    Its errors do not tell where the store is.
    """
    shown: dict[str, Any] = to_json(job)
    root = str(shown["request"].get("root") or "")
    names = {f"{root}/": "", root: "."} if root else {}
    for source in shown["request"].get("sources", ()):
        if "://" not in source and not source.startswith(f"{root}/"):
            names[source] = PurePath(source).name
    shown["request"] = {name: value for name, value in shown["request"].items() if name not in _OWN}
    return {name: _rename(value, names, places) for name, value in shown.items()}


def _rename(value: Any, names: dict[str, str], places: Places) -> Any:
    """The value with every path in its texts replaced by its name."""
    if isinstance(value, str):
        for path, name in names.items():
            value = value.replace(path, name)
        return places.hide(value)
    if isinstance(value, dict):
        return {key: _rename(each, names, places) for key, each in value.items()}
    return [_rename(each, names, places) for each in value] if isinstance(value, list) else value
