"""What a file is called in a collection: the same wherever one stands when it is added."""

from pathlib import Path


def uri_of(path: Path, root: Path) -> str:
    """The address of a file: from the root where it lies below it, else the whole path."""
    whole = path.absolute().resolve()
    return (whole.relative_to(root) if whole.is_relative_to(root) else whole).as_posix()
