"""Word lists: data files of this folder, with one loader.

A file has sections, `[name]`, to which the lines after it belong; a line that begins with # is a comment.
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
    """Load the regular expressions of a list by section: each line is an alternative."""
    return {section: "|".join(lines) for section, lines in load_lines(name).items()}
