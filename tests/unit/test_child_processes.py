"""A command and its child processes tell each other which providers must not be asked."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from gapless.blocks.child_protocol import ChildReport, News, WorkTask
from gapless.blocks.processes import ChildProcesses
from gapless.config import Config
from gapless.providers import EndpointSpec, Profile, Providers, Share
from gapless.providers.registry import Rested, fingerprint
from tests.waiting import eventually

SPEC = EndpointSpec("one", "http://node.example/key")
# The first child reports a rest; all children keep what they are told.
CHILD = """#!/bin/sh
mkdir "{folder}/first" 2> /dev/null && echo '{report}'
cat > "{folder}/told.$$"
"""


def told(folder: Path) -> list[bytes]:
    """The latest message to each child; the first one is its task."""
    return [
        each.read_bytes().splitlines()[-1] for each in folder.glob("told.*") if each.read_bytes()
    ]


async def nothing() -> None: ...


async def test_a_rest_that_one_child_reports_is_known_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Providers() as providers:
        endpoint = providers.endpoint(SPEC, Profile())
        until = providers.system.clock() + 60
        rests = {fingerprint(SPEC.url, SPEC.headers): Rested(until, "too many requests")}
        report = msgspec.json.encode(ChildReport(rests=rests)).decode()
        child = tmp_path / "child"
        child.write_text(CHILD.format(folder=tmp_path, report=report))
        child.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(child))
        tasks = [
            WorkTask("ledger.db", {}, Config(), 1.0, 1.0, False, False, share)
            for share in Share(0, 3).others()
        ]
        async with ChildProcesses(tasks, print, print, nothing, providers):
            news = msgspec.json.encode(News(rests))
            await eventually(lambda: told(tmp_path) == [news, news])
        assert (endpoint.ready_at(), endpoint.trouble) == (until, "too many requests")
