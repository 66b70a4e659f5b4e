"""The reference matches the code: no key, variable, action, check or field is missing."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import msgspec

from gapless import config
from gapless.blocks.request import FetchOptions
from gapless.blocks.result import FetchResult
from gapless.chains import Level
from gapless.chains.evm.check_names import Check
from gapless.config.environment import VARIABLES
from gapless.providers.provider_errors import Reaction
from gapless.sinks.sqlite import ranges
from gapless.telemetry.actions import ACTIONS
from gapless.telemetry.metrics import METRICS, MetricKind
from scripts import data_reference
from tests.conformance.fetch.test_fault_matrix import MATRIX
from tests.docs import pages
from tests.evm import checks_of

SECTIONS: dict[str, type[msgspec.Struct]] = {
    "fetch": config.Fetch,
    "retry": config.Retry,
    "worker": config.WorkerSettings,
}
REFERENCE = pages.ROOT / "docs/reference"
SOURCES = pages.ROOT / "src/gapless"


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of all tables below a heading, without the header rows."""
    _, found, section = page.read_text().partition(f"# {heading}\n")
    assert found, heading
    lines = re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    return [
        row for row, after in zip(cells, [*cells[1:], [""]], strict=True) if not _rule(row, after)
    ]


def _rule(row: list[str], after: list[str]) -> bool:
    return set(row[0]) == {"-"} or set(after[0]) == {"-"}


def names(page: Path, heading: str, column: int = 0) -> list[str]:
    return [name for row in rows(page, heading) for name in re.findall(r"`([^`]+)`", row[column])]


def keys_of(struct: type[msgspec.Struct], prefix: str = "") -> dict[str, Any]:
    """The keys of the configuration file, with their defaults."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        name = f"{prefix}{field.encode_name}"
        if field.name == "endpoints":
            found |= keys_of(config.EndpointSettings, f"{name}.<name>.")
        elif field.name == "sinks":
            found |= keys_of(config.SinkTarget, f"{name}.<name>.")
        elif field.name == "follow":
            found |= keys_of(config.FollowSettings, f"{name}.<name>.")
        elif field.name == "publish":
            found |= keys_of(config.PublishSettings, f"{name}.<name>.")
        elif name in SECTIONS:
            found |= keys_of(SECTIONS[field.name], f"{name}.")
        else:
            found[name] = field.default
    return found


def test_every_configuration_key_and_its_default() -> None:
    page, keys = REFERENCE / "configuration.md", keys_of(config.Config)
    assert names(page, "Keys of gapless.toml") == [*keys]
    for row, (key, default) in zip(rows(page, "Keys of gapless.toml"), keys.items(), strict=True):
        if key.startswith("fetch."):
            shown = row[1].strip("`")
            assert shown == ("none" if default is None else str(default)), key


def test_every_environment_variable() -> None:
    shown = names(REFERENCE / "configuration.md", "Environment variables", 0)
    assert {*shown} == {"GAPLESS_CONFIG", *VARIABLES}


def test_the_pages_of_tables_and_networks_are_current() -> None:
    """`make docs` rewrites them."""
    assert (REFERENCE / "tables.md").read_text() == data_reference.tables_page()
    assert (REFERENCE / "networks.md").read_text() == data_reference.networks_page()


def test_every_log_action() -> None:
    logged = {
        found for file in SOURCES.rglob("*.py") for found in actions(ast.parse(file.read_text()))
    }
    assert {*ACTIONS} == logged
    assert names(REFERENCE / "telemetry.md", "Actions") == [*ACTIONS]


def test_every_metric_its_type_and_its_labels() -> None:
    shown = [
        (row[0].strip("`"), row[1], tuple(re.findall(r"`(\w+)`", row[2])))
        for row in rows(REFERENCE / "telemetry.md", "Metrics")
    ]
    assert shown == [(metric.name, metric.kind, metric.labels) for metric in METRICS]


def test_every_counted_reaction() -> None:
    counted = [each.replace(" ", "_") for each in Reaction if each is not Reaction.ABSENT]
    assert {*names(REFERENCE / "telemetry.md", "Reactions")} == {*counted}


def test_every_metric_that_a_page_queries_exists() -> None:
    samples = {metric.name for metric in METRICS} | {
        f"{metric.name}{part}"
        for metric in METRICS
        if metric.kind is MetricKind.HISTOGRAM
        for part in ("_bucket", "_count", "_sum")
    }
    page = pages.ROOT / "docs/how-to/monitor.md"
    asked = {
        name
        for block in pages.blocks(page)
        if block.language == "yaml"
        for name in re.findall(r"\b(?:gapless|backfill|blocks)_\w+", block.text)
    }
    assert asked
    assert asked <= samples
    logged = re.findall(r'action=~?"([^"]+)"', page.read_text())
    assert {each for one in logged for each in one.split("|")} <= {*ACTIONS}


def actions(tree: ast.Module) -> set[str]:
    """The actions that are passed to `log`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    logged = [it.args[1] for it in calls if isinstance(it.func, ast.Name) and it.func.id == "log"]
    return {str(it.value) for it in logged if isinstance(it, ast.Constant)}


def test_every_check_and_its_level() -> None:
    levels = {
        check: next((level for level in Level if check in checks_of(level)), "") for check in Check
    }
    shown = {
        row[0].strip("`"): row[1]
        for row in rows(pages.ROOT / "docs/concepts/proof.md", "The checks")
    }
    assert shown == {str(check): str(level) for check, level in levels.items()}


def test_every_check_that_a_verification_may_report() -> None:
    text = (REFERENCE / "json.md").read_text().partition("## Verify")[2].partition("## Gaps")[0]
    found = re.findall(
        r'Finding\(\s*"(\w+)"', "".join(f.read_text() for f in SOURCES.glob("verification/*.py"))
    )
    assert [check for check in sorted({*found}) if f"| `{check}` |" not in text] == []


def test_every_column_of_the_engines_tables_in_a_sink() -> None:
    created = "".join((ranges.CREATE, *ranges.CREATE_OWN))
    columns = re.findall(r"^  (\w+) (?:INTEGER|TEXT|BLOB)", created, re.MULTILINE)
    described = (
        row for part in ("SQLite", "Changes") for row in rows(REFERENCE / "sinks.md", part)
    )
    shown = re.findall(r"`(\w+)`", "".join(row[0] for row in described))
    assert {*shown} == {*columns}


def test_every_option_of_the_python_fetch() -> None:
    text = (REFERENCE / "python.md").read_text()
    assert [name for name in FetchOptions.__annotations__ if f"`{name}`" not in text] == []
    members = FetchResult.__dataclass_fields__
    assert [name for name in members if f"`{name}`" not in text] == []


def test_every_cell_of_the_fault_matrix() -> None:
    page = pages.ROOT / "docs/fault-matrix.md"
    assert {*names(page, "Faults of a node", 1)} == {*MATRIX, "all"}
    for test, file in re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", page.read_text()):
        assert f"def {test}(" in (page.parent / file).read_text(), test
    alone = re.findall(r"(?<!\[)`(test_\w+)`", page.read_text())
    matrix = (pages.ROOT / "tests/conformance/fetch/test_fault_matrix.py").read_text()
    assert [test for test in alone if f"def {test}(" not in matrix] == []
