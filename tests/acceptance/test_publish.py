"""Publishers as a person runs them: `gapless follow` to a stream, workers, kills and outages."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis.asyncio as client

from gapless.chains.evm.tables import TABLES
from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from gapless.publishers.entries import EntryTables
from gapless.publishers.feeder import Feeder, FeederOptions
from gapless.publishers.redis.publisher import RedisPublisher
from gapless.publishers.redis.url import StreamUrl
from gapless.publishers.rows import StoredBlocks
from gapless.sinks import Access
from tests.acceptance.beside import run, run_json, running
from tests.acceptance.commands import Commands
from tests.acceptance.follows import CHAIN_ID, NETWORK, live_node
from tests.acceptance.test_devnode import ask
from tests.conformance.publisher.consumer import expected, replayed
from tests.conformance.publisher.stage import RedisStage
from tests.redis_server import RedisServer
from tests.waiting import eventually

STREAM = "chain:events"
PASSWORD = "pa55s3cret"
CONFIG = """
[endpoints.node]
url = "{node}"
network = "{network}"

[sinks.store]
url = "store.db"

[follow.head]
network = "{network}"
from = 20

[publish.events]
url = "env:STREAM_SERVER"
network = "{network}"
stream = "chain:events"
"""


@pytest.fixture
def gapless(sqlite_gapless: Commands) -> Commands:
    return sqlite_gapless


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer(durable=True) as running_server:
        yield running_server


@pytest.fixture
async def stage(server: RedisServer) -> AsyncIterator[RedisStage]:
    found = RedisStage(server.url)
    yield found
    await found.close()


async def reaches(server: RedisServer, height: int, password: str | None = None) -> None:
    """Waits until everything up to a height is published."""

    async def there() -> bool:
        async with client.Redis.from_url(server.url, password=password) as redis:
            return int(await redis.get("chain:last_synced_block") or 0) >= height

    await eventually(there, seconds=40)


async def require_same(stage: RedisStage, path: Path, first: int) -> None:
    """A consumer has what the sink has, each block once.

    The last writes of the sink may have come after the publisher was stopped; they are published
    first.
    """
    async with await open_sink(str(path), Access.WRITE) as sink:
        blocks = StoredBlocks(sink, CHAIN_ID, EntryTables.of(TABLES))
        stream = await RedisPublisher.open(StreamUrl.parse(stage.url), STREAM, "test")
        options = FeederOptions("test", "test", first, 7200)
        try:
            feeder = Feeder(blocks, stream, options)
            while await feeder.turn():
                pass
        finally:
            await stream.close()
        consumed = replayed(await stage.entries(STREAM))
        stored = await blocks.read(Span(first, max(consumed)))
    assert stored is not None
    assert consumed == expected(stored)


def head_of(node: str) -> int:
    return int(ask(node, "eth_blockNumber")["result"], 16)


async def test_a_chain_is_followed_to_a_stream_through_kills(
    gapless: Commands, server: RedisServer, stage: RedisStage, tmp_path: Path
) -> None:
    """Both the process and Redis are killed again and again, while the chain is reorganised."""
    chance = random.Random(11)
    to = f"{server.url}?stream={STREAM}"
    with live_node(tmp_path / "cache", "--reorg-every", "6:4") as node:
        start = ("follow", NETWORK, "--rpc", node, "--to", to, "--from", "5")
        for _ in range(4):
            async with running(gapless, *start) as process:
                await process.says("following")
                for _ in range(2):
                    await asyncio.sleep(chance.uniform(0.2, 0.8))
                    server.restart()
                await asyncio.sleep(chance.uniform(0.1, 0.5))
                process.signal(signal.SIGKILL)
                await process.process.wait()
        async with running(gapless, *start, "--json") as process:
            await reaches(server, head_of(node))
            await eventually(lambda: _has_retracted(stage), seconds=40)
            process.signal(signal.SIGTERM)
            await process.ended(0)
    await require_same(stage, tmp_path / f"spool-127-0-0-1-{server.port}-0-chain-events.db", 5)


async def _has_retracted(stage: RedisStage) -> bool:
    return any(each.kind == "retract" for each in await stage.entries(STREAM))


async def test_workers_publish_what_the_configuration_names(
    gapless: Commands, stage: RedisStage, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_SERVER", server.url)
    with live_node(gapless.folder / "cache") as node:
        _configure(gapless, node)
        await run(gapless, "follow", "--detach")
        async with running(gapless, "worker", "--slots", "priority=1,backlog=4") as process:
            await reaches(server, head_of(node) + 3)
            (listed,) = await run_json(gapless, "publish", "ls")
            assert listed["phase"] in ("live", "publishing")
            assert (listed["stream"], listed["sink"], listed["start"]) == (STREAM, "store", 20)
            assert listed["leader"]
            before = len(await stage.entries(STREAM))
            await run(gapless, "publish", "replay", "events", "25:29")
            await eventually(lambda: _republished(stage, before), seconds=20)
            process.signal(signal.SIGTERM)
            await process.ended(0)
        shown = await run(gapless, "publish", "show", "events")
        assert shown.stdout.startswith("events  stopped\n")
        assert "hint: nobody publishes" in shown.stderr
        await run(gapless, "publish", "rm", "events")
    await require_same(stage, gapless.folder / "store.db", 20)
    gone = [each.height for each in await stage.entries(STREAM) if each.kind == "retract"]
    assert gone == [29, 28, 27, 26, 25]


async def _republished(stage: RedisStage, before: int) -> bool:
    later = (await stage.entries(STREAM))[before:]
    return {25, 26, 27, 28, 29} <= {each.height for each in later if each.kind == "block"}


async def test_redis_may_be_down_and_its_password_stays_secret(
    gapless: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = RedisServer(settings=("--requirepass", PASSWORD))
    url = server.url.replace("redis://", f"redis://:{PASSWORD}@")
    monkeypatch.setenv("STREAM_SERVER", url)
    try:
        with live_node(gapless.folder / "cache") as node:
            _configure(gapless, node)
            async with running(gapless, "follow", "--json") as process:
                said = await process.says("publisher_troubled")
                assert "does not answer" in said
                server.start()
                await reaches(server, head_of(node) + 2, PASSWORD)
                (listed,) = (await run(gapless, "publish", "ls", "--json")).json
                server.kill()
                unreachable = await run(gapless, "publish", "show", "events")
                process.signal(signal.SIGTERM)
                ended = await process.ended(0)
    finally:
        server.close()
    assert listed["server"] == server.url
    assert "events  unreachable" in unreachable.stdout
    told = said + ended.stdout + ended.stderr + json.dumps(listed) + unreachable.stdout
    assert PASSWORD not in told + unreachable.stderr
    for path in gapless.folder.glob("*.db*"):
        assert PASSWORD.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (f"redis://:{PASSWORD}@127.0.0.1/none", "the URL of the stream is invalid"),
        (f"redis://127.0.0.1/0?password={PASSWORD}", "unknown options"),
        ("redis://127.0.0.1/0?stream=a%20b", "`a b` cannot be the name of a stream"),
    ],
)
def test_a_bad_url_is_refused(gapless: Commands, target: str, message: str) -> None:
    error = gapless.refused("follow", NETWORK, "--rpc", "http://127.0.0.1:1", "--to", target)
    assert message in error
    assert PASSWORD not in error


def test_what_cannot_be_published_is_refused(gapless: Commands) -> None:
    start = ("follow", NETWORK, "--rpc", "http://127.0.0.1:1", "--to", "redis://127.0.0.1/0")
    assert "needs the tables" in gapless.refused(*start, "--datasets", "blocks")
    assert "`--detach` needs" in gapless.refused(*start, "--detach")
    assert "is a stream" in gapless.refused("verify", "redis://127.0.0.1/0")
    assert "no publisher `x`" in gapless.refused("publish", "show", "x")


def _configure(gapless: Commands, node: str) -> None:
    text = CONFIG.format(node=node, network=NETWORK)
    (gapless.folder / "gapless.toml").write_text(text)
