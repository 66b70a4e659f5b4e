"""A command has one budget per endpoint, however many sinks and processes share it."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any, Self

import msgspec
import pytest

from gapless.devnode import Chain, DevNode, Limits, Pace, Parameters, simulated
from gapless.devnode.wire import HttpRequest, Reply
from tests.acceptance.beside import running
from tests.acceptance.commands import GAPLESS, Commands
from tests.acceptance.follows import is_live, until_shown
from tests.unit.rpc.nodes import error

RPS = 40
CONFIG = """
[endpoints.one]
url = "{url}"
network = "custom"
{rps}

[sinks.first]
url = "first.db"

[sinks.second]
url = "second.db"

[fetch]
workers = 4
batch_size = 5
chunk_size = 10
"""


class Recorder(DevNode):
    """Records the time, calls and simultaneous connections of its requests."""

    def __init__(self, chain: Chain, **options: Any) -> None:
        super().__init__(chain, **options)
        self.arrivals: list[tuple[float, int]] = []
        self.connections = 0

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def respond(self, request: HttpRequest) -> Reply:
        asked = msgspec.json.decode(request.body)
        calls = len(asked) if isinstance(asked, list) else 1
        self.arrivals.append((asyncio.get_running_loop().time(), calls))
        self.connections = max(self.connections, len(self._connections))
        return super().respond(request)

    def forget(self) -> None:
        self.arrivals.clear()
        self.connections = 0

    @property
    def calls_asked(self) -> int:
        return sum(calls for _, calls in self.arrivals)

    @property
    def rate(self) -> float:
        """Calls per second from the first request to the last, after which nobody waits."""
        (began, _), *_, (ended, last) = self.arrivals
        return (self.calls_asked - last) / (ended - began)


@pytest.fixture(scope="module")
def chain() -> Chain:
    return simulated(Parameters(blocks=200, txs=1, seed=5))


def configure(gapless: Commands, node: DevNode, rps: str = f"rps = {RPS}") -> None:
    (gapless.folder / "gapless.toml").write_text(CONFIG.format(url=node.url, rps=rps))


async def run(gapless: Commands, *arguments: str) -> str:
    """Runs a command to its end, with a node on this event loop."""
    process = await asyncio.create_subprocess_exec(
        GAPLESS,
        *arguments,
        cwd=gapless.folder,
        env=gapless.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
    return stdout.decode()


async def left_to_workers(gapless: Commands, node: Recorder) -> None:
    """Two backfills of the same blocks, into two sinks."""
    for sink in ("first", "second"):
        await run(gapless, "fetch", "custom", "0:59", "--to", sink, "--detach")
    node.forget()


@pytest.mark.parametrize("processes", [1, 2])
async def test_two_sinks_share_the_rate(
    sqlite_gapless: Commands, chain: Chain, processes: int
) -> None:
    async with Recorder(chain) as node:
        configure(sqlite_gapless, node)
        await left_to_workers(sqlite_gapless, node)
        options = ("--until-idle", "--poll", "50ms", "--processes", str(processes))
        await run(sqlite_gapless, "worker", *options)
    assert node.calls_asked > 5 * RPS
    assert node.rate < 1.15 * RPS


async def test_the_processes_of_a_fetch_share_the_rate(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    async with Recorder(chain) as node:
        configure(sqlite_gapless, node)
        await run(sqlite_gapless, "fetch", "custom", "0:119", "--to", "first", "--processes", "2")
    assert node.calls_asked > 5 * RPS
    assert node.rate < 1.15 * RPS


@pytest.mark.parametrize("processes", [1, 2])
async def test_two_sinks_share_the_requests_in_flight(
    sqlite_gapless: Commands, chain: Chain, processes: int
) -> None:
    pace, limits = Pace(latency=0.1), Limits(max_batch=2)  # so that there is enough to do for both
    async with Recorder(chain, pace=pace, limits=limits) as node:
        configure(sqlite_gapless, node, rps="")
        await left_to_workers(sqlite_gapless, node)
        options = ("--until-idle", "--poll", "50ms", "--processes", str(processes))
        await run(sqlite_gapless, "worker", *options)
    assert 2 < node.connections <= 4


async def test_the_processes_of_a_fetch_share_the_requests_in_flight(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    pace, limits = Pace(latency=0.1), Limits(max_batch=2)  # so that there is enough to do for both
    async with Recorder(chain, pace=pace, limits=limits) as node:
        configure(sqlite_gapless, node, rps="")
        command = ("fetch", "custom", "0:135", "--to", "first", "--processes", "2")
        await run(sqlite_gapless, *command, "--workers", "3", "--json")
    assert 2 < node.connections <= 3


async def test_a_follow_has_as_many_requests_in_flight_as_it_is_told(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    async with Recorder(chain, pace=Pace(latency=0.1), limits=Limits(max_batch=2)) as node:
        start = ("follow", "custom", "--rpc", node.url, "--to", "chain.db", "--from", "0")
        async with running(
            sqlite_gapless, *start, "--workers", "2", "--chunk-size", "5"
        ) as process:
            await until_shown(sqlite_gapless, "custom-chain", is_live)
            process.signal(signal.SIGTERM)
            await process.ended(0)
    assert node.connections == 2


async def test_a_rest_learned_by_one_process_applies_to_all(
    sqlite_gapless: Commands, chain: Chain
) -> None:
    """Once the provider has named a time to wait, both processes are quiet until it is over."""
    seconds = 6

    class Refusing(Recorder):
        """Refuses a single request: its sender must tell the other process."""

        refused_at: float | None = None

        def respond(self, request: HttpRequest) -> Reply:
            reply = super().respond(request)
            if self.refused_at is None and self.calls_asked > 100:
                self.refused_at = self.arrivals[-1][0]
                return error("too many requests", 0, 429, Retry_After=str(seconds))
            return reply

    async with Refusing(chain) as node:
        configure(sqlite_gapless, node, rps="rps = 100")
        command = ("fetch", "custom", "0:135", "--to", "first", "--processes", "2", "--json")
        done = json.loads(await run(sqlite_gapless, *command))
    assert (done["state"], done["fetched"]) == ("SUCCEEDED", 136)
    assert node.refused_at is not None
    shared, over = node.refused_at + 2.5, node.refused_at + seconds - 0.1
    late = [at - node.refused_at for at, _ in node.arrivals if shared < at < over]
    assert late == []
