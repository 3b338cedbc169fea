"""Settings of the documentation site: `make site` builds it from the Markdown of the repository.

The source folder is the root of the repository, so a link works alike here and where the files are shown as they are.
The pages stay plain Markdown: the navigation is made from the lists of docs/index.md.
"""

import re
from pathlib import Path

from pygments.lexers import JsonLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
KEPT = {"docs", "examples", "src", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"}

project = "Clew"
author = "The Clew authors"
project_copyright = author
extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "examples/README.md",
    "src/clew/drivers/verify/model/README.md",
]
exclude_patterns = [path.name for path in ROOT.iterdir() if path.name not in KEPT] + [
    "docs/site",
    "examples/chat",
    "examples/handbook",
]

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
suppress_warnings = ["misc.highlighting_failure"]  # a block may leave things out with …

html_theme = "furo"
html_title = "Clew"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#0b6e74", "color-brand-content": "#0b6e74"},
    "dark_css_variables": {"color-brand-primary": "#5cc8c6", "color-brand-content": "#5cc8c6"},
}
pygments_style = "friendly"
pygments_dark_style = "native"
copybutton_prompt_text = "$ "  # copies the commands of a block, not what they print


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:  # noqa: ARG001
    """Give the start page a table of contents: a part for each bold line, with the pages of the list below it."""
    if page != root_doc:
        return
    parts = re.split(r"^\*\*(.+)\*\*$", source[0], flags=re.MULTILINE)[1:]
    for caption, listed in zip(parts[::2], parts[1::2], strict=True):
        pages = re.findall(r"^\s*(?:\d+\.|-) \[(.+?)\]\((.+?)\.md\)", listed, re.MULTILINE)
        lines = "\n".join(f"{title} <{target}>" for title, target in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def setup(app: Sphinx) -> None:
    """Connect what is above."""
    app.connect("source-read", add_navigation)
    app.add_lexer("jsonl", JsonLexer)
