"""The architecture page stays true: its files, the length of its walk, and its layers."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

from gapless.chains import families
from gapless.chains.family import Family
from tests.docs import pages

PAGE = pages.ROOT / "docs/architecture.md"
SOURCES = pages.ROOT / "src/gapless"
MOST_MODULES = 40
NOT_A_FAMILY = {"redaction.py: evm"}  # a part of many URLs that is not a secret


def part(heading: str) -> str:
    _, found, text = PAGE.read_text().partition(f"\n## {heading}\n")
    assert found, heading
    return text.partition("\n## ")[0]


def named(text: str) -> list[str]:
    """The files that a text names, relative to the sources."""
    return re.findall(r"`([\w/]+\.(?:py|sql))`", text)


def test_every_file_that_the_page_names_exists() -> None:
    files = named(PAGE.read_text())
    assert files
    assert [file for file in files if not (SOURCES / file).is_file()] == []


def test_a_block_passes_few_modules_and_each_once() -> None:
    steps = re.findall(r"^(\d+)\. `([\w/]+\.py)`", part("A block"), re.MULTILINE)
    modules = [module for _, module in steps]
    assert [int(number) for number, _ in steps] == [*range(1, len(steps) + 1)]
    assert named(part("A block")) == modules
    assert len({*modules}) == len(modules) <= MOST_MODULES
    assert modules[0] == "cli/fetch.py"


def test_no_module_outside_the_families_names_one() -> None:
    """Nothing branches on a family, a network of it or a table: only `chains` and `devnode` know.

    Help texts and examples may mention them, so only a text that is exactly such a name counts.
    """
    names = {name for family in families() for name in _names_of(family)}
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        if path.relative_to(SOURCES).parts[0] in ("chains", "devnode"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Constant) or node.value not in names:
                continue
            if f"{path.name}: {node.value}" not in NOT_A_FAMILY:
                found.append(f"{path.name}:{node.lineno}: {node.value}")
    assert found == []


def _names_of(family: Family) -> Iterator[str]:
    """The names that cannot be anything else."""
    others = (*(table.name for table in family.tables), *(it.name for it in family.networks))
    yield from (family.name, *(name for name in others if name.startswith(family.name)))


def test_the_layers_are_those_that_are_enforced() -> None:
    settings = tomllib.loads((pages.ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["type"] == "layers")
    diagram = pages.blocks(PAGE)[0].text.splitlines()
    shown = [re.split(r" {2,}", line)[0] for line in diagram]
    assert shown == [layer.replace("gapless.", "") for layer in layers]
