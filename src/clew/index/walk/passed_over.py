"""Why a walk would pass over one file: the rules of each folder on the way to it, as `add` would apply them."""

import os
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.settings import IngestionConfig
from clew.index.walk.ignore import begin_walk, make_walk_rules


def find_reason_passed_over(file: Path, *, root: Path, config: IngestionConfig) -> str:
    """Why adding a folder above a file would pass it over, such as "hidden" or "in .gitignore"; empty if it would not.

    The walk begins at `root`, or at the folder of a file outside it.
    """
    real = Path(os.path.abspath(file))  # noqa: PTH100 (a link stays one)
    top = root if real.is_relative_to(root) else real.parent
    try:
        rules, path = begin_walk(make_walk_rules(config), top, given=top, root=root), ""
        folder = top
        parts = real.relative_to(top).parts
        for depth, name in enumerate(parts, 1):
            with os.scandir(folder) as entries:
                rules = rules.enter(list(entries), path)
            is_folder = depth < len(parts)
            if reason := rules.find_reason(name, path + name, is_folder=is_folder):
                return reason
            folder, path = folder / name, f"{path}{name}/"
    except (OSError, SourceError):
        return ""
    return ""
