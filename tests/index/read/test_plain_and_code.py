"""Plain text and code: which sections they have."""

import textwrap

import pytest

from clew.core.types import Document
from clew.index.read.text.code import read_code
from clew.index.read.text.plain import read_plain_text


def list_sections(document: Document) -> list[tuple[str, int | None]]:
    return [(section.label, section.parent) for section in document.sections]


def test_underlined_titles_are_sections() -> None:
    text = "=====\nGuide\n=====\n\nWords.\n\nSetup\n-----\n\nMore.\n\nDetail\n~~~~~~\n\nOdd.\n\nUse\n---\n\nEnd.\n"
    document = read_plain_text(text, uri="a", name="guide.rst")
    assert list_sections(document) == [("Guide", None), ("Setup", 0), ("Detail", 1), ("Use", 0)]
    assert document.title == "Guide"
    assert document.meta == {"format": "text"}


@pytest.mark.parametrize(
    "text",
    [
        "A sentence that is longer than its line\n---\n\ntext",
        "words\nmore words\n==========\n\ntext",
        "----\n\ntext",
        "a  b\n=  =\n",
        "...\n---\n",
        "text",
    ],
)
def test_what_is_no_title(text: str) -> None:
    assert list_sections(read_plain_text(text, uri="a", name="a-file.txt")) == [("", None)]
    assert read_plain_text(text, uri="a", name="a-file.txt").title == "A file"


def test_a_log_has_no_titles() -> None:
    assert list_sections(read_plain_text("Start\n=====\n\nline\n", uri="a", name="a.log")) == [("", None)]


PYTHON = '''\
"""Docs."""

import os

LIMIT = 3


# Rotates.
@decorated
async def rotate_signing_key(x: int) -> int:
    def inner(): ...
    return 1


class Vault:
    """A vault."""

    size = 1

    def open(self): ...

    @property
    def name(self):
        return """
class NotAClass:
"""

    other = 2

    class Inner:
        def deep(self): ...


if __name__ == "__main__":
    main()
'''


def test_python_definitions() -> None:
    document = read_code(PYTHON, uri="a", name="vault.py")
    assert list_sections(document) == [
        ("", None),
        ("async def rotate_signing_key", None),
        ("class Vault", None),
        ("def open", 2),
        ("def name", 2),
        ("", 2),
        ("class Inner", 2),
        ("def deep", 6),
        ("", None),
    ]
    assert document.title == "vault.py"
    assert document.meta == {"format": "code", "language": "python"}
    rotate = document.sections[1]
    assert document.text[rotate.start :].startswith("# Rotates.\n@decorated\n")


def test_python_that_does_not_parse_goes_by_lines() -> None:
    text = "import x\n\ndef one():\n    print 'old'\n\nclass Two:\n    pass\n"
    assert list_sections(read_code(text, uri="a", name="a.py")) == [
        ("", None),
        ("def one()", None),
        ("class Two", None),
    ]


def test_old_escapes_raise_no_warning() -> None:
    assert list_sections(read_code('x = "\\d"\n\ndef f(): ...\n', uri="a", name="a.py")) == [
        ("", None),
        ("def f", None),
    ]


@pytest.mark.parametrize(
    ("name", "text", "labels"),
    [
        (
            "a.js",
            "import x from 'y';\n\nexport async function rotate(key) {\n  a();\n\n  b();\n}\n\n"
            "const f = (x) => {\n}\n\nrun();\n",
            ["", "export async function rotate(key)", "const f = (x) =>", ""],
        ),
        (
            "a.go",
            "package main\n\n// Rotate it.\nfunc Rotate(k Key) error {\n\treturn nil\n}\n",
            ["package main", "func Rotate(k Key) error"],
        ),
        (
            "a.rs",
            "use x;\n\n#[derive(Debug)]\npub struct Vault {\n    a: u8,\n}\n\nimpl Vault {\n}\n",
            ["", "pub struct Vault", "impl Vault"],
        ),
        (
            "a.c",
            "#include <x.h>\n\nint main(int argc, char **argv)\n{\n    return 0;\n}\n",
            ["", "int main(int argc, char **argv)"],
        ),
        (
            "a.java",
            "import x;\n\n@Bean\npublic final class Vault {\n\n    void open() {\n    }\n}\n",
            ["", "public final class Vault"],
        ),
        ("a.sh", "set -e\n\nrotate() {\n  echo\n}\n\nrotate\n", ["", "rotate()", ""]),
        ("a.sql", "CREATE TABLE keys (\n  id int\n);\n\nselect 1;\n", ["CREATE TABLE keys (", ""]),
        ("a.toml", "x = 1\n\n[tool.ruff]\nline = 1\n\n[[items]]\na = 1\n", ["", "[tool.ruff]", "[[items]]"]),
        ("a.json", '{\n  "a": 1\n}\n', [""]),
        ("a.yaml", "a: 1\n\nb: 2\n", [""]),
        ("a.rb", "class Vault\n  def open\n  end\nend\n\ndef close\nend\n", ["class Vault", "def close"]),
    ],
)
def test_definitions_by_lines(name: str, text: str, labels: list[str]) -> None:
    assert [label for label, _ in list_sections(read_code(text, uri="a", name=name))] == labels


def test_a_section_begins_with_its_definition() -> None:
    text = textwrap.dedent("""\
        x = 1

        // Says hello.
        function hello() {
        }
        """)
    document = read_code(text, uri="a", name="a.js")
    assert document.text[document.sections[1].start :].startswith("// Says hello.")
