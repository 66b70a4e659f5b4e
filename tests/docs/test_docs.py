"""The documentation is true: its commands work, and its links lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import gapless
from gapless.cli.app import gapless as command_line
from scripts import cli_reference
from tests.docs import pages

RUNNABLE = [
    page
    for page in pages.PAGES
    if page not in pages.POSTGRES_PAGES and any(block.runs for block in pages.blocks(page))
]
REFERENCE = pages.ROOT / "docs/reference"


@pytest.fixture(scope="module")
def node_port() -> Iterator[str]:
    """One honest node for all pages."""
    with pages.honest_node() as port:
        yield port


@pytest.mark.parametrize("page", RUNNABLE, ids=pages.name)
def test_commands_of_the_page_run(page: Path, tmp_path: Path, node_port: str) -> None:
    with pages.Runner(tmp_path, node_port) as runner:
        assert_true(page, runner)


@pytest.mark.parametrize("page", pages.POSTGRES_PAGES, ids=pages.name)
def test_commands_of_the_postgresql_pages_run(
    page: Path, postgres_url: str, tmp_path: Path, node_port: str
) -> None:
    with pages.Runner(tmp_path, node_port, GAPLESS_LEDGER=postgres_url) as runner:
        assert_true(page, runner)


def assert_true(page: Path, runner: pages.Runner) -> None:
    """Every block runs and prints what the page says; if not, `make docs` updates the page."""
    for block, printed in runner.results(page):
        assert pages.normal(printed) == pages.normal(block.text), f"line {block.line}"


@pytest.mark.parametrize("page", [*RUNNABLE, *pages.POSTGRES_PAGES], ids=pages.name)
def test_a_page_shows_how_to_start_the_node_that_it_runs_against(page: Path) -> None:
    blocks = pages.blocks(page)
    nodes = [at for at, block in enumerate(blocks) if "node" in block.words]
    users = [at for at, it in enumerate(blocks) if "ETH_RPC" in it.text and it.words]
    assert [blocks[at].text.strip() for at in nodes] == [pages.NODE] * bool(users)
    assert nodes[:1] <= users[:1]


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_a_page_says_what_to_save_where_and_what_needs_a_terminal(page: Path) -> None:
    """A reader of a rendered page does not see the words after a block's language."""
    for block in pages.blocks(page):
        if file := block.word("file"):
            assert f"`{file}`" in block.before, f"line {block.line}"
        if {"background", "node"} & {*block.words}:
            assert "terminal" in block.before, f"line {block.line}"


def test_the_pages_that_must_run_do() -> None:
    folders = (pages.ROOT / "docs/how-to", pages.ROOT / "docs/tutorial")
    wanted = {pages.name(page) for folder in folders for page in folder.glob("*.md")}
    wanted.add("README.md")
    assert wanted <= {pages.name(page) for page in (*RUNNABLE, *pages.POSTGRES_PAGES)}


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in pages.links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in pages.anchors(target), link


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_python_is_valid(page: Path) -> None:
    for block in pages.blocks(page):
        if block.language == "python":
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            compile(block.text, f"{page}:{block.line}", "exec", flags=flags)


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in pages.PAGES
        for link in pages.links(page)
        if not link.startswith("https://")
    }
    assert [pages.name(page) for page in pages.PAGES if page not in linked] == []


def test_the_command_line_reference_is_current() -> None:
    """`make docs` rewrites it."""
    assert (REFERENCE / "cli.md").read_text() == cli_reference.page()


def test_every_command_and_option_is_in_the_reference() -> None:
    text = (REFERENCE / "cli.md").read_text()
    for path, command in cli_reference.commands(command_line, ("gapless",)):
        _, heading, section = text.partition(f"# `{' '.join(path)}`\n")
        section = section.partition("\n#")[0]
        assert heading, path
        options = [each for each in command.params if isinstance(each, click.Option)]
        spellings = [spelling for option in options for spelling in option.opts]
        assert [spelling for spelling in spellings if spelling not in section] == [], path


def test_every_public_name_is_in_the_reference() -> None:
    text = (REFERENCE / "python.md").read_text()
    assert [name for name in gapless.__all__ if not re.search(rf"`@?{name}\b", text)] == []


def test_every_rule_names_an_existing_test() -> None:
    page = REFERENCE / "rules.md"
    named = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", page.read_text())
    assert len(named) > 50
    for test, file in named:
        assert f"def {test}(" in (page.parent / file).read_text(), test


def test_the_demo_does_what_it_says() -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, pages.ROOT / "examples/demo.py"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - started < 60
    *_, asked, promised, reconciled, last = done.stdout.splitlines()
    assert asked == "5,000 blocks requested, 5,000 stored, 0 duplicates;"
    assert re.fullmatch(r"([\d,]+) logs expected by their blocks, \1 stored\.", promised)
    assert re.fullmatch(r"\d+ balances equal to .+: ETH, TAX, USD\u0421, RBS\.", reconciled)
    assert last == "Gapless."


def test_the_consumer_of_the_tutorial_is_the_example() -> None:
    """A reader can copy it from either."""
    page = pages.ROOT / "docs/tutorial/events.md"
    (shown,) = [block.text for block in pages.blocks(page) if block.word("file") == "consumer.py"]
    assert shown == (pages.ROOT / "examples/consumer.py").read_text()
