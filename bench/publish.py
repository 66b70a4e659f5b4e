"""Publishing to Redis: how fast stored blocks are published, and how late a consumer sees new ones.

The rate is that of a publisher which reads blocks from a SQLite sink, makes entries and publishes
them. It is compared with the same entries as plain XADD commands, prepared in advance and sent 16
at a time, which is what `redis-benchmark -P 16` does: no rows are read, and nothing is recorded.
The server keeps everything in memory.

The lag of a new block is the time from the moment when the node shows it until a consumer, which
waits with XREAD, has its entry. `gapless follow --to redis://…` runs in its own process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import redis.asyncio as client

from bench.rendered import LARGE, SMALL, Workload
from bench.report import Row, median, median_ratio, per_second
from bench.runs import NETWORK, room
from bench.writing import batches_of
from gapless.chains import find_network
from gapless.chains.opening import open_sink
from gapless.devnode import DevNode, Pace, Parameters, simulated
from gapless.devnode.chain import Move
from gapless.publishers.publication import Publication
from gapless.publishers.redis.url import StreamUrl
from tests.redis_server import RedisServer

ROUNDS = 3
BATCH = 100  # blocks in a write of the sink
IN_FLIGHT = 16
STREAM = "bench:events"
BLOCK_TIME, NEW_BLOCKS, WARM_UP = 2.0, 20, 3


async def measure() -> AsyncIterator[Row]:
    for workload in (SMALL, LARGE):
        yield await _rate(workload)
    lags = sorted(await _lags())
    yield Row("publish, lag from node to consumer: median", f"{1000 * median(lags):.0f} ms")
    yield Row("publish, lag from node to consumer: highest", f"{1000 * lags[-1]:.0f} ms")


async def _rate(workload: Workload) -> Row:
    taken: dict[str, list[float]] = {"publisher": [], "raw": []}
    with room() as place, RedisServer() as server:
        target = str(place.path(".db"))
        async with await open_sink(target) as sink:
            for batch in batches_of(workload, BATCH):
                await sink.write(batch, 1)
        await _published(server, target)
        commands = await _commands(server)
        for turn in range(ROUNDS):
            for way in sorted(taken, reverse=bool(turn % 2)):
                server.empty()
                if way == "raw":
                    seconds = await asyncio.to_thread(_sent, server.port, commands)
                else:
                    seconds = await _published(server, target)
                taken[way].append(seconds)
    rate, limit = (len(commands) / median(taken[way]) for way in ("publisher", "raw"))
    blocks = workload.blocks / median(taken["publisher"])
    figure = f"{per_second(rate)} of {per_second(limit)}, {per_second(blocks)} blocks"
    ratio = median_ratio(taken["raw"], taken["publisher"])
    return Row(f"publish, {workload.name}, entries of pipelined XADD", figure, ratio)


async def _published(server: RedisServer, target: str) -> float:
    """Seconds to publish everything that a sink holds."""
    url = StreamUrl.parse(server.url)
    wanted = Publication("bench", "bench", target, find_network(NETWORK), url, STREAM)
    async with wanted.opened_sink() as blocks, wanted.connected("bench") as stream:
        feeder = wanted.feeder(blocks, stream)
        began = time.perf_counter()
        while await feeder.turn():
            pass
        return time.perf_counter() - began


async def _commands(server: RedisServer) -> list[bytes]:
    """The entries of the stream, each as a command that adds it."""
    redis: Any = client.Redis.from_url(server.url, socket_timeout=60)
    async with redis:
        found = await redis.xrange(STREAM)
    return [
        _command(b"XADD", STREAM.encode(), b"*", *(it for pair in fields.items() for it in pair))
        for _, fields in found
    ]


def _command(*words: bytes) -> bytes:
    parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(it), it) for it in words)]
    return b"".join(parts)


def _sent(port: int, commands: Sequence[bytes]) -> float:
    """Seconds to send commands, 16 at a time, and to read their replies."""
    left = iter(commands)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        while group := [*islice(left, IN_FLIGHT)]:
            connection.sendall(b"".join(group))
            lines = 0
            while lines < 2 * len(group):  # a reply is two lines: its length and the id
                lines += connection.recv(65536).count(b"\n")
        return time.perf_counter() - began


async def _lags() -> list[float]:
    """How late a consumer sees each new block, in seconds."""
    chain = simulated(Parameters(blocks=200, txs=20))
    shown: dict[int, float] = {}

    def note(move: Move) -> None:
        shown[move.last] = time.monotonic()

    chain.listeners.append(note)
    node = DevNode(chain, pace=Pace(head_every=BLOCK_TIME, latency=0.02))
    with room() as place, RedisServer() as server:
        async with node:
            process = await _follow(node.url, f"{server.url}?stream={STREAM}", place.folder)
            try:
                seen = await asyncio.wait_for(
                    _consumed(server, WARM_UP + NEW_BLOCKS), 10 * NEW_BLOCKS * BLOCK_TIME
                )
            finally:
                process.send_signal(signal.SIGINT)
                await process.wait()
    return [at - shown[height] for height, at in [*seen.items()][WARM_UP:] if height in shown]


async def _consumed(server: RedisServer, count: int) -> dict[int, float]:
    """When a consumer has each block; only blocks that the node has just shown."""
    seen: dict[int, float] = {}
    redis: Any = client.Redis.from_url(server.url, protocol=2)
    async with redis:
        after: bytes | str = "0"
        while len(seen) < count:
            for _, entries in await redis.xread({STREAM: after}, block=1000):
                after = entries[-1][0]
                for _, fields in entries:
                    if fields[b"kind"] == b"block":
                        seen[int(fields[b"height"])] = time.monotonic()
    return seen


async def _follow(url: str, to: str, folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gapless", "follow", NETWORK, "--rpc", url, "--to", to, "--quiet"),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stderr=asyncio.subprocess.DEVNULL,
    )
