"""Only the CLI names flags and commands: the code below it serves other interfaces as well."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from gapless.cli.app import gapless as cli
from tests.docs import pages

SOURCES = pages.ROOT / "src/gapless"
COMMANDS = "|".join(cli._lazy)
NAMED = re.compile(rf"(?<![\w-])--[a-z]|`gapless (?:{COMMANDS})\b")
QUOTED = {"devnode/limits.py"}  # it imitates the messages of nodes


def texts(tree: ast.Module) -> Iterator[str]:
    """All strings except docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield from [node.value] if isinstance(node.value, str) else []


def below_the_cli() -> Iterator[Path]:
    for file in SOURCES.rglob("*.py"):
        name = file.relative_to(SOURCES).as_posix()
        if not name.startswith("cli/") and name not in QUOTED:
            yield file


def test_no_text_below_the_cli_names_a_flag_or_a_command() -> None:
    found = [
        f"{file.relative_to(SOURCES)}: {text}"
        for file in below_the_cli()
        for text in texts(ast.parse(file.read_text()))
        if NAMED.search(text)
    ]
    assert found == []
