"""`make docs` writes the tables of docs/settings.md: every setting in the order of the code, with its default.

The prose of the page and the meaning of each setting stay as they are. A setting that the page does not have yet is put
into the table of its group with the comment beside it in the code, or stops the program if there is none; one that the
code no longer has is removed.
"""

import inspect
import re
from dataclasses import fields
from pathlib import Path

from clew.core.settings import DEFAULTS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "settings.md"
ROW = re.compile(r"^\| `(\w+)\.(\w+)` \|.*?\| (.+) \|$")
TABLE = re.compile(r"(?:^\| `\w+\.\w+` \|.*\n)+", re.MULTILINE)


def render_page(page: str) -> str:
    """The page with its tables written again; fails if a group of settings stands in no table."""
    seen: set[str] = set()
    text = TABLE.sub(lambda match: render_table(match[0], seen), page)
    if missing := {table.name for table in fields(DEFAULTS)} - seen:
        raise SystemExit(f"docs/settings.md has no table for {', '.join(sorted(missing))}: begin one with a row")
    return text


def render_table(table: str, seen: set[str]) -> str:
    """The rows of the groups that the table has, in their order there, each with all settings of the code."""
    rows = [found.groups() for line in table.splitlines() if (found := ROW.match(line))]
    meanings = {(group, name): meaning for group, name, meaning in rows}
    groups = list(dict.fromkeys(group for group, _, _ in rows))
    seen.update(groups)
    lines = []
    for group in groups:
        config = getattr(DEFAULTS, group, None)
        for setting in fields(config) if config is not None else ():
            meaning = meanings.get((group, setting.name)) or find_comment(type(config), setting.name)
            default = format_default(getattr(config, setting.name))
            lines.append(f"| `{group}.{setting.name}` | {default}{' ' if default else ''}| {meaning} |")
    return "\n".join(lines) + "\n"


def find_comment(config: type, name: str) -> str:
    """The comment beside a setting in the code."""
    source = inspect.getsource(config)
    body = source[source.index(f"class {config.__name__}") :]
    if found := re.search(rf"^    {name}: .*?  # (.+)$", body, re.MULTILINE):
        return found[1][0].upper() + found[1][1:].removesuffix(".") + "."
    raise SystemExit(
        f"{config.__name__}.{name} has no meaning: write a comment beside it, or a row in docs/settings.md"
    )


def format_default(value: object) -> str:
    """A default as the page shows it; nothing for what is unset."""
    if value is None or value == ():
        return ""
    return str(value).lower() if isinstance(value, bool) else f"{value:.9g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
