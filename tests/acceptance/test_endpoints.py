"""The command line names the endpoints that are to blame."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gapless.devnode import Chain, DevNode, Parameters, simulated
from gapless.devnode.wire import Reply
from tests.acceptance.commands import GAPLESS, Commands
from tests.unit.rpc.nodes import KEY, Outspoken


@pytest.fixture(scope="module")
def chain() -> Chain:
    return simulated(Parameters(blocks=200, txs=2, seed=5))


async def fetched(gapless: Commands, *urls: str, processes: int = 1) -> tuple[Any, str]:
    """What a fetch prints: its JSON, and everything else."""
    rpcs = [part for url in urls for part in ("--rpc", f"{url}/{KEY}")]
    process = await asyncio.create_subprocess_exec(
        GAPLESS,
        *("fetch", "custom", "0:99", "--to", "chain.db", "--chunk-size", "10", "--json"),
        *("--processes", str(processes), *rpcs),
        cwd=gapless.folder,
        env=gapless.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
    return json.loads(stdout), stderr.decode()


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_dead_endpoint(sqlite_gapless: Commands, chain: Chain, processes: int) -> None:
    async with Outspoken(chain, lambda _: Reply(b"no", 401)) as denying, DevNode(chain) as node:
        dead, good = (each.url.partition("://")[2] for each in (denying, node))
        done, said = await fetched(sqlite_gapless, denying.url, node.url, processes=processes)
    first, second = done["endpoints"]
    trouble = {"refused": 0, "trouble": "HTTP 401 no", "resting": True, "usable": False}
    assert {**first, "calls": 0} == {"name": dead, "calls": 0, **trouble}
    assert first["calls"] + second["calls"] == sum(done["calls"].values())
    assert (second["name"], second["trouble"], second["usable"]) == (good, None, True)
    first_line = json.loads(said.splitlines()[0])
    assert first_line["level"] == "warning"
    assert first_line["message"] == (
        f"endpoint `{dead}` cannot be used: HTTP 401 no. Is the API key still valid?"
    )
    assert f"\\nendpoint {dead}: HTTP 401 no" in said
    assert f"endpoint {good}" not in said


async def test_a_lying_endpoint(sqlite_gapless: Commands, chain: Chain) -> None:
    async with DevNode(chain, faults="truncated=1") as lying, DevNode(chain) as node:
        liar, good = (each.url.partition("://")[2] for each in (lying, node))
        done, said = await fetched(sqlite_gapless, lying.url, node.url)
    refused = {each["name"]: each["refused"] for each in done["endpoints"]}
    assert refused == {liar: done["refused"], good: 0}
    assert done["refused"] > 3
    lines = [json.loads(line) for line in said.splitlines()]
    (distrusted,) = (it for it in lines if it.get("action") == "endpoint_distrusted")
    assert (distrusted["level"], distrusted["endpoint"]) == ("warning", liar)
    assert f"\\nendpoint {liar}: {done['refused']} answers refused" in said


async def test_no_working_endpoint(sqlite_gapless: Commands, chain: Chain) -> None:
    async with Outspoken(chain, lambda _: Reply(b"no", 401)) as denying:
        name = denying.url.partition("://")[2]
        command = ("fetch", "custom", "0:9", "--to", "chain.db", "--rpc", f"{denying.url}/{KEY}")
        said = await asyncio.to_thread(sqlite_gapless.refused, *command)
    assert said == (
        f"error: endpoint `{name}` cannot be used: HTTP 401 no\n\n"
        "hint: Is the API key still valid?\n"
    )
