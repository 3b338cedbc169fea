"""The verbs are the same words on every surface, and the table of them is true."""

import types
from inspect import signature

import clew
import clew.evaluation
from clew import Engine
from clew.surface.cli.app import Program
from tests.surface.verb_table import VERBS


def test_the_table_has_every_method_of_the_engine_and_every_function_over_one() -> None:
    named = [name for name in vars(Engine) if name[0] != "_"]
    methods = {name for name in named if isinstance(getattr(Engine, name), types.FunctionType)}
    values = {name: getattr(package, name) for package in (clew, clew.evaluation) for name in dir(package)}
    functions = {name: value for name, value in values.items() if isinstance(value, types.FunctionType)}
    verbs = {name for name, value in functions.items() if next(iter(signature(value).parameters)) == "engine"}
    assert (methods - {"close"}) | verbs == {verb for verb, surfaces in VERBS.items() if "python" in surfaces}


def test_the_table_has_every_command() -> None:
    commands = {*Program.homes}
    expected = {verb.replace("_", "-") for verb, surfaces in VERBS.items() if "cli" in surfaces}
    assert commands == expected
