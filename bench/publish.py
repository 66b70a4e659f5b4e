"""Publishing to Redis: how fast stored blocks are published, and how late a consumer sees new ones.

A publisher must keep up with a backfill. So its rate is compared with that of a fetch which stores
the same blocks in SQLite, from a node that answers at once.

The publisher reads blocks from a SQLite sink, makes entries and publishes them. It is also
compared with the same entries as plain XADD commands, prepared in advance and sent 16 at a time,
which is what `redis-benchmark -P 16` does: no rows are read, and nothing is recorded. The server
keeps everything in memory.

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

from bench.node_process import node
from bench.rendered import LARGE, SMALL, Workload
from bench.report import Row, at_least, at_most, median, median_ratio, per_second
from bench.runs import NETWORK, room
from gapless.chains import find_network
from gapless.devnode import DevNode, Pace, Parameters, simulated
from gapless.devnode.chain import Move
from gapless.publishers.publication import Publication
from gapless.publishers.redis.url import StreamUrl
from tests.redis_server import RedisServer

ROUNDS = 3
IN_FLIGHT = 16
STREAM = "bench:events"
KEEPS_UP = at_least(1)
MEDIAN, HIGHEST = at_most(1), at_most(3)
BLOCK_TIME, NEW_BLOCKS, WARM_UP = 2.0, 20, 3


async def measure() -> AsyncIterator[Row]:
    for workload in (SMALL, LARGE):
        async for row in _rates(workload):
            yield row
    lags = sorted(await _lags())
    for name, lag, bound in (("median", median(lags), MEDIAN), ("highest", lags[-1], HIGHEST)):
        what = f"publish, lag from node to consumer, of a block time: {name}"
        yield Row(what, f"{1000 * lag:.0f} ms", lag / BLOCK_TIME, bound)


async def _rates(workload: Workload) -> AsyncIterator[Row]:
    taken: dict[str, list[float]] = {"fetch": [], "publisher": [], "raw": []}
    with room() as place, RedisServer() as server:
        async with node(workload) as running:
            target = str(place.path(".db"))
            await place.fetch(running.url, workload.blocks, target)
            await _published(server, target)
            commands = await _commands(server)
            for turn in range(ROUNDS):
                for way in sorted(taken, reverse=bool(turn % 2)):
                    server.empty()
                    if way == "raw":
                        seconds = await asyncio.to_thread(_sent, server.port, commands)
                    elif way == "fetch":
                        to = str(place.path(".db"))
                        seconds = (await place.fetch(running.url, workload.blocks, to)).seconds
                    else:
                        seconds = await _published(server, target)
                    taken[way].append(seconds)
    rates = {way: per_second(len(commands) / median(found)) for way, found in taken.items()}
    yield Row(
        f"publish, {workload.name}, entries of what a fetch stores",
        f"{rates['publisher']} of {rates['fetch']}",
        median_ratio(taken["fetch"], taken["publisher"]),
        KEEPS_UP,
    )
    yield Row(
        f"publish, {workload.name}, entries of pipelined XADD",
        f"{rates['publisher']} of {rates['raw']}",
        median_ratio(taken["raw"], taken["publisher"]),
    )


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
