"""Code: a definition is a section. Python is asked for its own; of the other languages a few line rules are enough."""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from threading import Lock

from clew.core.ids import document_id
from clew.core.types import Document
from clew.index.read.outline import Heading, outline
from clew.index.read.text.markdown import line_starts

LANGUAGES = {
    ".py": "python",
    ".pyi": "python",
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts", ".tsx"), "typescript"),
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    ".kt": "kotlin",
    ".scala": "scala",
    ".swift": "swift",
    ".cs": "csharp",
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp"), "cpp"),
    ".rb": "ruby",
    ".php": "php",
    ".lua": "lua",
    ".pl": "perl",
    ".r": "r",
    **dict.fromkeys((".sh", ".bash", ".zsh"), "shell"),
    ".sql": "sql",
    **dict.fromkeys((".css", ".scss"), "css"),
    **dict.fromkeys((".json", ".jsonl"), "json"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    ".toml": "toml",
    **dict.fromkeys((".ini", ".cfg"), "ini"),
    ".proto": "protobuf",
}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DATA = frozenset(("json", "yaml"))
_COMMENT = re.compile(
    r"\s*(?:#(?!!?\[)|//|/\*|\*|--|;|@|#!?\[)"
)  # decorators and attributes belong to what follows too
_MODIFIERS = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|sealed|open|override|virtual"
    r"|async|unsafe|extern|inline|partial|data|pub(?:\([^)]*\))?)\s+)*"
)
_KEYWORD = re.compile(
    _MODIFIERS
    + r"(?:function|func|fun|fn|def|class|struct|enum|interface|trait|impl|type|module|namespace|object|union"
    r"|record|protocol|extension|message|service|sub|macro_rules!|package"
    r"|create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+|unique\s+|materialized\s+)?\w+)\b",
    re.IGNORECASE,
)
_ARROW = re.compile(_MODIFIERS + r"(?:const|let|var)\s+\w+[^=]*=\s*(?:async\s*)?(?:function\b|\(|\w+\s*=>)")
_BRACED = re.compile(r"[\w~].*(?:\)|[\w>\]*&])[^;=]*\{\s*$|[\w~][\w\s:*&<>,~]*\([^;=]*\)\s*(?:const\s*)?$")
_SHELL = re.compile(r"(?:function\s+)?[\w-]+\s*\(\)")
_TABLE = re.compile(r"\[+[^\]]+\]+\s*(?:[#;].*)?$")
_LABEL = 100  # characters
_LONGEST = 400  # characters of a line that may begin a definition; a longer one was written by a program
_lock = Lock()


def code(text: str, *, uri: str, name: str) -> Document:
    """The Document of a source file; its definitions are the sections, those inside a class under it."""
    suffix = f".{name.lower().rpartition('.')[2]}"
    language = LANGUAGES.get(suffix, "")
    return Document(
        id=document_id(uri),
        text=text,
        sections=outline(text, list(_definitions(text, language))),
        title=name,
        uri=uri,
        meta={"format": "code", "language": language},
    )


def _definitions(text: str, language: str) -> Iterator[Heading]:
    """Where the definitions begin; what stands between them has no label."""
    if language in _DATA:
        return
    tree = _python(text) if language == "python" else None
    if tree is not None:
        yield from _of_python(tree.body, line_starts(text), _lines(text), level=1)
    else:
        yield from _by_lines(text, language)


def _python(text: str) -> ast.Module | None:
    """The syntax tree, or None for what this Python cannot parse."""
    with _lock, warnings.catch_warnings():  # the filters are shared by all threads
        warnings.simplefilter("ignore")  # an old escape in someone's file is not our concern
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _of_python(
    body: Sequence[ast.stmt], starts: Sequence[int], lines: Sequence[str], *, level: int
) -> Iterator[Heading]:
    """The definitions in a body, and the statements after a definition that are none."""
    loose = False
    for number, node in enumerate(body):
        if not isinstance(node, _DEFINITIONS):
            if loose:
                yield Heading(starts[_first_line(node, lines)], level, "")
                loose = False
            continue
        loose = number + 1 < len(body)
        yield Heading(starts[_first_line(node, lines)], level, _label(node))
        if isinstance(node, ast.ClassDef):
            inner = next((i for i, child in enumerate(node.body) if isinstance(child, _DEFINITIONS)), len(node.body))
            yield from _of_python(node.body[inner:], starts, lines, level=level + 1)


def _first_line(node: ast.stmt, lines: Sequence[str]) -> int:
    """The line that a statement begins on, with its decorators and the comment right above it."""
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    line = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    while line and lines[line - 1].lstrip().startswith("#"):
        line -= 1
    return line


def _label(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    return f"async def {node.name}" if isinstance(node, ast.AsyncFunctionDef) else f"def {node.name}"


def _by_lines(text: str, language: str) -> Iterator[Heading]:
    """A definition begins at the margin after a blank line, its comments before it; so does what is none."""
    starts = line_starts(text)
    lines = _lines(text)
    in_definition = False
    for number, line in enumerate(lines):
        if not line or line[0] in " \t})]" or (number and lines[number - 1]):
            continue
        first = next((below for below in lines[number:] if not below or not _COMMENT.match(below)), "")
        label = _named(first or line, language)
        if label or in_definition:
            yield Heading(starts[number], 1, label)
        in_definition = bool(label)


def _lines(text: str) -> list[str]:
    return [text[start:stop].rstrip() for start, stop in pairwise(line_starts(text))]


def _named(line: str, language: str) -> str:
    """What a definition is called by its first line, or nothing if the line begins none."""
    if language in ("toml", "ini"):
        return line.strip() if _TABLE.match(line) else ""
    rules = (_SHELL,) if language == "shell" else (_KEYWORD, _ARROW, _BRACED)
    if len(line) > _LONGEST or not any(rule.match(line) for rule in rules):
        return ""
    return line.strip().rstrip("{:").rstrip()[:_LABEL]
