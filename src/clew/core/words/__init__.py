"""Word lists: data files in this folder, and their loader.

A file has sections, each with a line `[name]` at its head. A line that begins with # is a comment.
"""

from importlib.resources import files


def load_lines(name: str) -> dict[str, list[str]]:
    """Load the lines of a word list by section, in order."""
    sections: dict[str, list[str]] = {}
    for line in files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            sections[line[1:-1]] = []
        elif line and not line.startswith("#"):
            sections[next(reversed(sections))].append(line)
    return sections


def load_words(name: str) -> dict[str, frozenset[str]]:
    """Load the words of a word list by section, case-folded."""
    return {section: frozenset(" ".join(lines).casefold().split()) for section, lines in load_lines(name).items()}


def load_patterns(name: str) -> dict[str, str]:
    """Load one regular expression per section of a list; each line is an alternative."""
    return {section: "|".join(lines) for section, lines in load_lines(name).items()}
