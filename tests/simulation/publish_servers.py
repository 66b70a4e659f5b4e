"""The servers of a simulated publisher: the model in memory, and a real one."""

from __future__ import annotations

from typing import Any

import redis.asyncio as client

from gapless.core.errors import StreamUnreachable
from gapless.publishers.publisher import Publisher
from gapless.publishers.redis.keys import StreamKeys
from gapless.publishers.redis.publisher import RedisPublisher
from gapless.publishers.redis.url import StreamUrl
from tests.conformance.publisher.consumer import Seen
from tests.conformance.publisher.model import ModelPublisher, ModelServer
from tests.conformance.publisher.stage import STREAM, seen
from tests.redis_server import RedisServer
from tests.support import Clock


class SimulatedServer:
    """A model of the contract; a crash breaks connections and loses nothing."""

    def __init__(self) -> None:
        self.model = ModelServer(Clock())
        self._crashes = 0

    async def connect(self, owner: str) -> Publisher:
        return BreakableModel(self, owner)

    async def entries(self) -> list[Seen]:
        return self.model.entries

    async def flush(self) -> None:
        self.model.flush()

    async def expire_lease(self) -> None:
        self.model.until = 0.0

    async def crash(self) -> None:
        self._crashes += 1

    async def close(self) -> None: ...

    @property
    def crashes(self) -> int:
        return self._crashes


class BreakableModel(ModelPublisher):
    """A connection that ends when its server crashes."""

    def __init__(self, server: SimulatedServer, owner: str) -> None:
        super().__init__(server.model, owner)
        self._home, self._born = server, server.crashes

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_") and name != "close" and self._born != self._home.crashes:
            raise StreamUnreachable("the server has crashed")
        return super().__getattribute__(name)


class RealServer:
    """A server of Redis that writes every command to its file before it replies."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._redis: Any = None
        self._opened: list[RedisPublisher] = []
        self._keys = StreamKeys(STREAM)

    async def connect(self, owner: str) -> Publisher:
        found = await RedisPublisher.open(StreamUrl.parse(self._server.url), STREAM, owner)
        self._opened.append(found)
        return found

    async def entries(self) -> list[Seen]:
        found = await (await self._client()).xrange(STREAM)
        return [seen(fields) for _, fields in found]

    async def flush(self) -> None:
        await (await self._client()).flushall()

    async def expire_lease(self) -> None:
        redis = await self._client()
        if await redis.exists(self._keys.all[1]):
            await redis.hset(self._keys.all[1], "until", "0")

    async def crash(self) -> None:
        await self._forget_client()
        self._server.restart()

    async def close(self) -> None:
        for each in self._opened:
            await each.close()
        await self._forget_client()

    async def _forget_client(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()
            self._redis = None

    async def _client(self) -> Any:
        if self._redis is None:
            self._redis = client.Redis.from_url(self._server.url)
        return self._redis
