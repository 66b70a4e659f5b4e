"""Streams for tests, and how a test looks at them."""

from __future__ import annotations

from typing import Any, Protocol

import redis.asyncio as client

from gapless.publishers.publisher import Link, OutgoingBlock, Publisher
from gapless.publishers.redis.publisher import RedisPublisher
from gapless.publishers.redis.url import StreamUrl
from tests.conformance.publisher.consumer import Seen
from tests.conformance.publisher.model import ModelServer
from tests.support import Clock

STREAM = "test:events"


class Stage(Protocol):
    """A server of streams."""

    async def connect(self, owner: str = "one") -> Publisher: ...
    async def entries(self) -> list[Seen]: ...
    async def flush(self) -> None: ...

    async def save(self) -> None:
        """Take a copy, as a replica has it."""

    async def restore(self) -> None:
        """Continue with the copy, as a replica does that takes over."""


class ModelStage:
    def __init__(self) -> None:
        self.clock = Clock()
        self.server = ModelServer(self.clock)

    async def connect(self, owner: str = "one") -> Publisher:
        return self.server.connect(owner)

    async def entries(self) -> list[Seen]:
        return self.server.entries

    async def flush(self) -> None:
        self.server.flush()

    async def save(self) -> None:
        self._copy = self.server.copy()

    async def restore(self) -> None:
        self.server.restore(self._copy)


class RedisStage:
    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: list[RedisPublisher] = []
        self.redis: Any = client.Redis.from_url(url)

    async def connect(self, owner: str = "one") -> RedisPublisher:
        found = await RedisPublisher.open(StreamUrl.parse(self.url), STREAM, owner)
        self._opened.append(found)
        return found

    async def entries(self, stream: str = STREAM) -> list[Seen]:
        return [seen(fields) for _, fields in await self.redis.xrange(stream)]

    async def flush(self) -> None:
        await self.redis.flushall()

    async def save(self) -> None:
        self._copy = [(key, await self.redis.dump(key)) for key in await self.redis.keys()]

    async def restore(self) -> None:
        await self.redis.flushall()
        for key, value in self._copy:
            await self.redis.restore(key, 0, value)

    async def close(self) -> None:
        for each in self._opened:
            await each.close()
        await self.redis.aclose()


def seen(fields: dict[bytes, bytes]) -> Seen:
    """An entry, as a client of Redis returns it."""
    assert fields[b"v"] == b"1"
    hash_ = bytes.fromhex(fields[b"hash"].decode()[2:])
    return Seen(fields[b"kind"].decode(), int(fields[b"height"]), hash_, fields[b"data"])


def block(
    height: int, branch: str = "a", parent: str | None = None, entries: int = 1
) -> OutgoingBlock:
    """A block of a branch; its parent may be of another one."""
    link = Link(_hash(height, branch), _hash(height - 1, parent or branch))
    data = tuple(f'{{"of":"{branch}","at":{at}}}'.encode() for at in range(entries))
    return OutgoingBlock(height, link, data, f'{{"entries":{entries}}}'.encode())


def blocks(first: int, last: int, branch: str = "a") -> list[OutgoingBlock]:
    return [block(height, branch) for height in range(first, last + 1)]


def _hash(height: int, branch: str) -> bytes:
    return f"{branch}{height:08d}".encode().ljust(32, b".")
