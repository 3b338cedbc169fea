"""`make docs` writes docs/api.md: every public name of Clew with its signature and docstring.

The page is made from the source text, and of clients from the requests, so it is the same on every run and with every
version of Python.
"""

import ast
import inspect
import io
import json
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path
from textwrap import indent
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import clew
import clew.evaluation
from clew.client.client import Client, Method, Verbs
from clew.core.filter import EVERYTHING

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "api.md"
MAX_LINE = 100  # characters of a signature on one line
USED_TYPES = "Types used above"
HEAD = """# API reference

Every public name, generated from the docstrings by `make docs`. All are imported from `clew`, except those of
[clew.evaluation](#clewevaluation), [clew.compat](#clewcompat) and [clew.aio](#clewaio). [Using Clew from
Python](python.md) is the introduction.
"""
METHODS_OF = {"QueryTransformer": "Transformer"}  # a class whose methods are those of a base class
MADE_OF_REQUESTS = "Client"  # whose methods have the fields of the requests as parameters
AIO = """## clew.aio

`clew.aio.Engine` has the methods of [Engine](#engine) as coroutines; `list`, `ask_stream` and `agent_stream` are async
iterators. `await aio.Engine.open(…)` takes the parameters of `Engine.open`, and `sync` is the Engine underneath.
"""


@dataclass(frozen=True)
class Item:
    """A name and the source of its definition."""

    name: str
    module: str
    node: ast.ClassDef | ast.FunctionDef | ast.Assign


def render_page() -> str:
    """The whole page as Markdown."""
    engine, *items = sorted((find_item(name, "clew") for name in dir(clew)), key=lambda item: item.name != "Engine")
    titles = ("Values", "Classes", "Functions", "Protocols", "Function types and aliases", "Settings", "Errors")
    groups: dict[str, list[Item]] = {title: [] for title in titles}
    for item in items:
        groups[classify(item)].append(item)
    evaluation = [find_item(name, "clew.evaluation") for name in dir(clew.evaluation)]
    compat = find_compat_items()
    contents = ["Engine", *groups, "clew.evaluation", "clew.compat", "clew.aio", USED_TYPES]
    links = [f"[{title}](#{title.lower().replace('.', '').replace(' ', '-')})" for title in contents]
    parts = [HEAD, " ·\n".join(links) + "\n", render_engine(engine)]
    for title, members in groups.items():
        parts.append(f"## {title}\n")
        parts += [render_error_table(members)] if title == "Errors" else map(render_item, members)
    for module, members in {"clew.evaluation": evaluation, "clew.compat": compat}.items():
        parts += [f"## {module}\n\n{ast.get_docstring(parse_module(module))}\n", *map(render_item, members)]
    parts.append(AIO)
    parts.append(f"## {USED_TYPES}\n\nThey appear in signatures and are not exported.\n")
    used = find_used_types([engine, *items, *evaluation, *compat])
    parts.append(fence(render_statement(item.node, item.module) for item in used))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts))


def find_compat_items() -> list[Item]:
    """The names that only `clew.compat` has."""
    exported = find_item("__all__", "clew.compat").node
    assert isinstance(exported, ast.Assign)
    names = [name for name in ast.literal_eval(exported.value) if name not in dir(clew)]
    return [find_item(name, "clew.compat") for name in names]


@cache
def read_module(module: str) -> str:
    """The source of a module."""
    path = ROOT.joinpath("src", *module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")


@cache
def parse_module(module: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(read_module(module))


@cache
def read_comments(module: str) -> dict[int, str]:
    """The comments of a module by line."""
    tokens = tokenize.generate_tokens(io.StringIO(read_module(module)).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def find_item(name: str, module: str) -> Item:
    """The definition of a name in a module, or in the module that it is imported from."""
    tree = parse_module(module)
    for node in reversed(tree.body):  # the last definition counts: before it are overloads
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return Item(name, module, node)
        if isinstance(node, ast.Assign) and assigned_name(node) == name:
            return Item(name, module, node)
    for imports in ast.walk(tree):
        if isinstance(imports, ast.ImportFrom) and imports.module and imports.module.startswith("clew"):
            for alias in imports.names:
                if (alias.asname or alias.name) == name:
                    return find_item(alias.name, imports.module)
    raise LookupError(f"{module} has no {name}")


def find_used_types(items: list[Item]) -> list[Item]:
    """The type aliases in the signatures of the items that are not items themselves."""
    found: dict[str, Item] = {}
    known = {item.name for item in items}
    for item in items:
        for name in sorted({node.id for node in ast.walk(item.node) if isinstance(node, ast.Name)} - known):
            try:
                used = find_item(name, item.module)
            except LookupError:  # not of Clew
                continue
            if isinstance(used.node, ast.Assign) and name[0].isupper() and not name.isupper():
                found[name] = used
    return [found[name] for name in sorted(found)]


def classify(item: Item) -> str:
    """The title of the group that an item belongs to."""
    if item.module == "clew.core.errors":
        return "Errors"
    if item.module.startswith("clew.core.settings"):
        return "Settings"
    if isinstance(item.node, ast.FunctionDef):
        return "Functions"
    if isinstance(item.node, ast.Assign):
        return "Function types and aliases"
    if any(ast.unparse(base).startswith("Protocol") for base in item.node.bases):
        return "Protocols"
    decorators = map(ast.unparse, item.node.decorator_list)
    return "Values" if any(each.startswith("dataclass") for each in decorators) else "Classes"


def render_engine(item: Item) -> str:
    """The section of Engine, with a part for every method."""
    parts = [f"## {item.name}\n\n{docstring(item.node)}\n"]
    for name, method, module in list_methods(item):
        parts.append(f"### {item.name}.{name}\n\n{fence([render_signature(name, method, module)])}")
        parts.append(f"{docstring(method)}\n")
    return "\n".join(parts)


def render_item(item: Item) -> str:
    """The section of one name."""
    if isinstance(item.node, ast.ClassDef):
        return f"### {item.name}\n\n{docstring(item.node)}\n\n{fence(render_members(item))}"
    if isinstance(item.node, ast.FunctionDef):
        signature = render_signature(item.name, item.node, item.module)
        return f"### {item.name}\n\n{fence([signature])}\n{docstring(item.node)}\n"
    return f"### {item.name}\n\n{fence([render_statement(item.node, item.module)])}\n{alias_docstring(item)}\n"


def render_error_table(errors: list[Item]) -> str:
    """The errors with their base classes."""
    rows = ["| error | is a | meaning |", "|---|---|---|"]
    for item in errors:
        assert isinstance(item.node, ast.ClassDef)
        bases = ", ".join(f"`{ast.unparse(base)}`" for base in item.node.bases)
        rows.append(f"| `{item.name}` | {bases} | {' '.join(docstring(item.node).split())} |")
    return "\n".join(rows) + "\n"


def render_members(item: Item) -> Iterator[str]:
    """The fields of a class, then its methods, each with its docstring."""
    assert isinstance(item.node, ast.ClassDef)
    if item.name == MADE_OF_REQUESTS:
        yield from map(render_client_method, vars(Verbs).items())
        return
    for node in item.node.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield render_signature(item.name, node, item.module).removesuffix(" -> None")
        elif isinstance(node, ast.AnnAssign | ast.Assign) and not assigned_name(node).startswith("_"):
            yield render_statement(node, item.module)
    for name, method, module in list_methods(item):
        yield f"\n{render_signature(name, method, module)}\n{indent(docstring(method), '    ')}".rstrip()


def list_methods(item: Item) -> Iterator[tuple[str, ast.FunctionDef, str]]:
    """The name, definition and module of each public method of a class."""
    assert isinstance(item.node, ast.ClassDef)
    if item.name in METHODS_OF:
        yield from list_methods(find_item(METHODS_OF[item.name], item.module))
    for node in item.node.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, node, item.module
        elif isinstance(node, ast.Assign) and (value := find_function(node.value)):
            used = find_attribute(value, item.module)
            if isinstance(used.node, ast.FunctionDef):
                yield assigned_name(node), used.node, used.module


def find_function(value: ast.expr) -> ast.Attribute | None:
    """What `_search.search` means in `search = _search.search` and in `staticmethod(_search.search)`."""
    if isinstance(value, ast.Call) and len(value.args) == 1:
        value = value.args[0]
    return value if isinstance(value, ast.Attribute) else None


def find_attribute(value: ast.Attribute, module: str) -> Item:
    """The function that `_module.function` means in a module."""
    for node in ast.walk(parse_module(module)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.asname == ast.unparse(value.value):
                    return find_item(value.attr, f"{node.module}.{alias.name}")
    raise LookupError(ast.unparse(value))


def render_signature(name: str, node: ast.FunctionDef, module: str) -> str:
    """The signature as it is written in the source, without the engine, self and cls."""
    returns = f" -> {render_type(node.returns, module)}" if node.returns else ""
    if any(ast.unparse(each) == "property" for each in node.decorator_list):
        return name + returns.replace(" ->", ":", 1)
    given = node.args
    hidden = {"self", "cls"} | ({"engine"} if module.startswith("clew.engine") and node.name != "__init__" else set())
    required = [None] * (len(given.args) - len(given.defaults))
    positional = [*zip(given.args, [*required, *given.defaults], strict=True)]
    shown = [render_parameter(each, value, module) for each, value in positional if each.arg not in hidden]
    if given.vararg:
        shown.append(f"*{render_parameter(given.vararg, None, module)}")
    elif given.kwonlyargs:
        shown.append("*")
    keywords = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    shown += [render_parameter(each, value, module) for each, value in keywords]
    line = f"{name}({', '.join(shown)}){returns}"
    return line if len(line) <= MAX_LINE else f"{name}(\n    " + ",\n    ".join(shown) + f",\n){returns}"


def render_parameter(parameter: ast.arg, default: ast.expr | None, module: str) -> str:
    """A parameter with its type and default."""
    text = f"{parameter.arg}: {render_type(parameter.annotation, module)}" if parameter.annotation else parameter.arg
    return text if default is None else f"{text} = {segment(default, module)}"


def render_statement(node: ast.stmt, module: str) -> str:
    """A field or an alias with its comment, on one line."""
    assert isinstance(node, ast.AnnAssign | ast.Assign)
    text = assigned_name(node)
    if isinstance(node, ast.AnnAssign):
        text += f": {render_type(node.annotation, module)}"
    if node.value is not None:
        text += f" = {render_default(node.value, module)}"
    comment = read_comments(module).get(node.end_lineno or node.lineno)
    return f"{text}  {comment}" if comment else text


def render_default(value: ast.expr, module: str) -> str:
    """A default; that of a dataclass's `field(…)` is what it makes, a private one is not shown."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        given = {each.arg: each.value for each in value.keywords}
        if "default" in given:
            return segment(given["default"], module)
        factory = given["default_factory"]
        if isinstance(factory, ast.Lambda):
            return segment(factory.body, module)
        return {"dict": "{}", "list": "[]"}.get(ast.unparse(factory), f"{ast.unparse(factory)}()")
    return "…" if ast.unparse(value).startswith("_") else segment(value, module)


def render_type(node: ast.expr, module: str) -> str:
    """A type as it is written in the source; one that is quoted because it is not imported loses its quotes."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else segment(node, module)
    return text if "Literal[" in text else text.replace('"', "")


def render_client_method(member: tuple[str, Any]) -> str:
    """A method of the clients, made of a request: its parameters and their help."""
    name, method = member
    if not isinstance(method, Method):
        return ""
    given = inspect.signature(method.__get__(None, Client))
    shown, is_marked = [], False
    for each in given.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not is_marked:
            shown.append("*")
            is_marked = True
        star = "*" if each.kind is each.VAR_POSITIONAL else ""
        default = "EVERYTHING" if each.default == EVERYTHING else repr(each.default)
        text = f"{star}{each.name}: {describe_type(each.annotation)}"
        shown.append(text if each.default is each.empty else f"{text} = {default}")
    returns = f" -> {describe_type(given.return_annotation)}"
    line = f"{name}({', '.join(shown)}){returns}"
    line = line if len(line) <= MAX_LINE else f"{name}(\n    " + ",\n    ".join(shown) + f",\n){returns}"
    return f"\n{line}\n{indent(method.__doc__ or '', '    ')}".rstrip()


def describe_type(kind: Any) -> str:
    """A type as it is written in a signature."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " | ".join(map(describe_type, arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(json.dumps, arguments))}]"
    if kind is type(None):
        return "None"
    name = getattr(origin or kind, "__name__", str(kind))
    return f"{name}[{', '.join(map(describe_type, arguments))}]" if arguments else name


def segment(node: ast.expr, module: str) -> str:
    """The source of an expression, on one line and without comments."""
    lines = (ast.get_source_segment(read_module(module), node) or "").splitlines()
    comments = read_comments(module)
    text = " ".join(line.removesuffix(comments.get(at, "")).strip() for at, line in enumerate(lines, node.lineno))
    return re.sub(r",? (?=[)\]])", "", re.sub(r"(?<=[(\[]) ", "", text))


def assigned_name(node: ast.stmt) -> str:
    """The name that a statement assigns to; empty if it does not assign."""
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0])
    return ast.unparse(node.target) if isinstance(node, ast.AnnAssign) else ""


def docstring(node: ast.ClassDef | ast.FunctionDef | ast.Assign) -> str:
    """The docstring of a class or function."""
    return "" if isinstance(node, ast.Assign) else ast.get_docstring(node) or ""


def alias_docstring(item: Item) -> str:
    """The text below an assignment."""
    body = parse_module(item.module).body
    below = body[body.index(item.node) + 1 :][:1]
    if below and isinstance(below[0], ast.Expr) and isinstance(below[0].value, ast.Constant):
        return cleandoc(str(below[0].value.value))
    return ""


def fence(texts: "Iterator[str] | list[str]") -> str:
    """Texts as a code block that is shown and not run; nothing without texts."""
    body = "\n".join(texts).lstrip("\n")
    return f"```text\n{body}\n```\n" if body else ""


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
