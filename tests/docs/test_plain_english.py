"""The prose is plain technical English: help is imperative, and no sentence is a riddle.

`PHRASES` are those that a native reader has to read twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gapless.cli.app import gapless
from scripts.cli_reference import commands
from tests.docs import pages

PHRASES = {
    r"so far below the head": "at least N below the head",
    r"so many processes": "number of processes",
    r"\bof what\.": "say of which thing",
    r"\bwhose columns\.": "column layout",
    r"whose words": "provider whose error messages to imitate",
    r"\ban id of your own": "your own id",
    r"asked for again, it is": "reusing it returns",
    r"what runs, finishes": "running chunks finish",
    r"by the node's word": "reported by the node",
    r"the node tells of": "the node reports",
    r"the last that is,": "the latest final block is",
    r"once more to leave": "press Ctrl-C again to stop now",
    r"key still hold": "is the API key still valid",
    r"\bgo(es)? on behind\b": "resumes after",
    r"is another wish": "repeats the effects",
    r"tells? the same\b": "exports the same value",
    r"could not be had": "missing",
    r"(can|cannot) be had": "is (not) available",
    r"nobody counted": "is unknown",
    r"lost or twice": "lost or duplicated",
    r"` is no (?!longer)[a-z]": "is not a",
    r"` is there already": "already exists",
    r"\bgo on with\b": "resume",
    r"where to go on": "next steps",
    r"stands on the (block|one) before": "links to the block before",
    r"whatever the ledger has": "the backfills of a ledger",
    r"to begin with, here": "in the current folder",
}
"""Phrases to avoid, as regular expressions, and what to write instead."""

TEXTS = ("*.py", "*.sql", "*.md", "*.toml")
FOLDERS = ("src", "docs", "examples")
VERBS = {
    *(
        "Add",
        "Backfill",
        "Cancel",
        "Check",
        "Continue",
        "Create",
        "Examine",
        "Export",
        "Fetch",
        "Follow",
        "List",
    ),
    *(
        "Name",
        "Pause",
        "Publish",
        "Remove",
        "Replace",
        "Resume",
        "Retry",
        "Run",
        "Set",
        "Show",
        "Start",
        "Wait",
    ),
}
COMMANDS = {" ".join(path): command for path, command in commands(gapless, ("gapless",))}


def files() -> Iterator[Path]:
    yield from (pages.ROOT / "README.md", pages.ROOT / "CHANGELOG.md")
    for folder in FOLDERS:
        for suffix in TEXTS:
            yield from (pages.ROOT / folder).rglob(suffix)


def found_in(text: str) -> set[str]:
    """The phrases in a text, even across lines."""
    joined = re.sub(r"\s+(?:#+ |-- )?", " ", text)
    return {phrase for phrase in PHRASES if re.search(phrase, joined, re.IGNORECASE)}


def test_no_phrase_that_has_to_be_read_twice() -> None:
    found = {}
    for file in files():
        name = file.relative_to(pages.ROOT).as_posix()
        if phrases := found_in(file.read_text()):
            found[name] = {phrase: PHRASES[phrase] for phrase in phrases}
    assert found == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_an_imperative(name: str) -> None:
    text = COMMANDS[name].help or ""
    assert text.split()[0].rstrip(",") in VERBS, text.splitlines()[0]
    assert not found_in(text)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_options_is_a_sentence_or_names_a_thing(name: str) -> None:
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option):
            text = re.sub(r"  \[default: .*\]$", "", option.help or "")
            assert text[:1].isupper() or text.startswith("`"), (option.name, text)
            assert text.endswith("."), (option.name, text)
            assert not found_in(text)
            assert not re.search(r"\bso (many|much|often)\b|\bthe same\.$|^Whose|^Of ", text)
