"""Source code: each definition is a section. Python is parsed; other languages are split by a few line rules."""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from threading import Lock

from clew.core.ids import make_document_id
from clew.core.types import Document
from clew.index.read.blocks import Heading, build_sections_from_headings
from clew.index.read.text.markdown import find_line_starts

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
_DATA_LANGUAGES = frozenset(("json", "yaml"))
_COMMENT = re.compile(
    r"\s*(?:#(?!!?\[)|//|/\*|\*|--|;|@|#!?\[)"
)  # including decorators and attributes, which belong to the definition below
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
_TABLE_HEADER = re.compile(r"\[+[^\]]+\]+\s*(?:[#;].*)?$")
_MAX_LABEL_CHARS = 100
_MAX_PARSED_CHARS = 2_000_000  # a syntax tree takes some hundred times the memory of its text
_MAX_LINE_CHARS = 400  # a longer line is generated and begins no definition
_warnings_lock = Lock()


def read_code(text: str, *, uri: str, name: str) -> Document:
    """Return the Document of a source file with a section for each definition, methods under their class."""
    suffix = f".{name.lower().rpartition('.')[2]}"
    language = LANGUAGES.get(suffix, "")
    return Document(
        id=make_document_id(uri),
        text=text,
        sections=build_sections_from_headings(text, list(_find_definitions(text, language))),
        title=name,
        uri=uri,
        meta={"format": "code", "language": language},
    )


def _find_definitions(text: str, language: str) -> Iterator[Heading]:
    """Yield a heading for each definition, and one without a label for the text after it."""
    if language in _DATA_LANGUAGES:
        return
    tree = _parse_python(text) if language == "python" else None
    if tree is not None:
        yield from _find_python_definitions(tree.body, find_line_starts(text), _split_lines(text), level=1)
    else:
        yield from _find_definitions_by_line(text, language)


def _parse_python(text: str) -> ast.Module | None:
    """Parse the syntax tree; None if this Python cannot parse it, or it is longer than _MAX_PARSED_CHARS."""
    with _warnings_lock, warnings.catch_warnings():  # the warning filters are global to all threads
        warnings.simplefilter("ignore")  # such as an invalid escape in the file
        if len(text) > _MAX_PARSED_CHARS:
            return None
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _find_python_definitions(
    body: Sequence[ast.stmt], starts: Sequence[int], lines: Sequence[str], *, level: int
) -> Iterator[Heading]:
    """Yield a heading for each definition in a body, and one without a label for the statements after it."""
    needs_section = False
    for number, node in enumerate(body):
        if not isinstance(node, _DEFINITIONS):
            if needs_section:
                yield Heading(starts[_find_first_line(node, lines)], level, "")
                needs_section = False
            continue
        needs_section = number + 1 < len(body)
        yield Heading(starts[_find_first_line(node, lines)], level, _make_definition_label(node))
        if isinstance(node, ast.ClassDef):
            inner = next((i for i, child in enumerate(node.body) if isinstance(child, _DEFINITIONS)), len(node.body))
            yield from _find_python_definitions(node.body[inner:], starts, lines, level=level + 1)


def _find_first_line(node: ast.stmt, lines: Sequence[str]) -> int:
    """Find the first line of a statement, including its decorators and the comment directly above."""
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    line = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    while line and lines[line - 1].lstrip().startswith("#"):
        line -= 1
    return line


def _make_definition_label(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    return f"async def {node.name}" if isinstance(node, ast.AsyncFunctionDef) else f"def {node.name}"


def _find_definitions_by_line(text: str, language: str) -> Iterator[Heading]:
    """Yield definitions by line rules: each begins at the margin after a blank line, including its comments."""
    starts = find_line_starts(text)
    lines = _split_lines(text)
    in_definition = False
    for number, line in enumerate(lines):
        if not line or line[0] in " \t})]" or (number and lines[number - 1]):
            continue
        below = (lines[at] for at in range(number, len(lines)))  # a slice would copy the rest each time
        first = next((each for each in below if not each or not _COMMENT.match(each)), "")
        label = _match_definition(first or line, language)
        if label or in_definition:
            yield Heading(starts[number], 1, label)
        in_definition = bool(label)


def _split_lines(text: str) -> list[str]:
    return [text[start:stop].rstrip() for start, stop in pairwise(find_line_starts(text))]


def _match_definition(line: str, language: str) -> str:
    """Return the label of the definition that begins on a line; empty if none does."""
    if len(line) > _MAX_LINE_CHARS:
        return ""
    if language in ("toml", "ini"):
        return line.strip() if _TABLE_HEADER.match(line) else ""
    rules = (_SHELL,) if language == "shell" else (_KEYWORD, _ARROW, _BRACED)
    if not any(rule.match(line) for rule in rules):
        return ""
    return line.strip().rstrip("{:").rstrip()[:_MAX_LABEL_CHARS]
