"""One name, one thing: no two public classes of Gapless share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import gapless

SOURCES = Path(gapless.__file__).parent


def public_classes() -> dict[str, list[str]]:
    """The modules that define each public class, by its name."""
    found = defaultdict[str, list[str]](list)
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SOURCES)))
    return found


def test_a_class_name_means_one_thing() -> None:
    found = public_classes()
    assert "Engine" in found
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}
