"""The network between simulated processes and their providers.

It replaces the HTTP transport: requests and answers are the same bytes as on a real wire, and
between them is an in-process devnode, with its faults and limits on the virtual clock. The seed
decides the latency, and whether a provider can be reached at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import NoReturn, Self
from urllib.parse import urlsplit

from gapless.devnode import Chain, DevNode, Faults, Limits, Visibility, parse_faults
from gapless.devnode.injector import Injector
from gapless.devnode.observer import Observer
from gapless.devnode.wire import Ending, HttpRequest
from gapless.providers.http import Http
from gapless.providers.transport import Response, Timeouts, TransportFailure

_CALLS_PER_READ = 100  # as in the real transport


@dataclass(frozen=True)
class Provider:
    """The behaviour of a provider until the faults end."""

    name: str
    fastest: float  # seconds of latency each way
    slowest: float
    faults: str = ""
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    visibility: Visibility = Visibility()  # noqa: RUF009 - frozen

    @property
    def url(self) -> str:
        return f"http://{self.name}.example/"


class Node:
    """A running provider. `up` says whether it can be reached."""

    def __init__(
        self, provider: Provider, chain: Chain, chance: Random, clock: Callable[[], float]
    ) -> None:
        self._provider = provider
        self._chance = chance
        faults = parse_faults(provider.faults, seed=chance.getrandbits(32))
        self._node = DevNode(
            chain,
            faults=faults,
            limits=provider.limits,
            visibility=provider.visibility,
            clock=clock,
        )
        self._honest = Observer(chain, provider.limits, Visibility(), clock)
        self._slowest = provider.slowest
        self.up = True

    def heal(self) -> None:
        """From now on, it answers quickly and honestly, and sees the whole chain."""
        self.up = True
        self._node._observer = self._honest
        self._node.injector = Injector(Faults())
        self._slowest = min(self._slowest, 0.2)

    def way(self) -> float:
        """The latency of a request or an answer."""
        low = min(self._provider.fastest, self._slowest)
        return low * float((self._slowest / low) ** self._chance.random())

    async def answer(self, path: str, body: bytes) -> Response:
        await asyncio.sleep(self.way())
        if not self.up:
            raise TransportFailure("no connection (connection refused)", sent=False)
        reply = self._node.respond(HttpRequest("POST", path, {}, body))
        await asyncio.sleep(self.way())
        if reply.ending is Ending.HANGING:
            await _nothing()
        if reply.ending is Ending.CUT or not self.up:
            raise TransportFailure(
                "the answer broke off" if reply.share else "the connection was lost"
            )
        retry_after = dict(reply.headers).get("Retry-After")
        return Response(
            reply.status, reply.body, "", None if retry_after is None else float(retry_after)
        )


class Network:
    """All providers, by host."""

    def __init__(self, nodes: dict[str, Node], said: Callable[[str], None]) -> None:
        self._nodes = {urlsplit(url).netloc: node for url, node in nodes.items()}
        self._said = said

    def connect(self, timeouts: Timeouts) -> Http:
        """The transport of one process."""
        return VirtualHttp(timeouts, self)

    async def carry(self, url: str, body: bytes, seconds: float) -> Response:
        """Carries a request to its provider, and the answer back."""
        parts = urlsplit(url)
        try:
            async with asyncio.timeout(seconds):
                response = await self._nodes[parts.netloc].answer(parts.path, body)
        except TimeoutError as error:
            self._said(f"{url} {len(body)} no answer in time")
            raise TransportFailure("no answer in time", slow=True) from error
        except TransportFailure as failure:
            self._said(f"{url} {len(body)} {failure}")
            raise
        self._said(f"{url} {len(body)} {response.status} {len(response.body)}")
        return response


class VirtualHttp(Http):
    """The interface of the transport, without a socket."""

    def __init__(self, timeouts: Timeouts, network: Network) -> None:
        self._timeouts = timeouts
        self._network = network

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    async def post(
        self, url: str, body: bytes, *, headers: Mapping[str, str], calls: int, fresh: bool
    ) -> Response:
        times = self._timeouts
        seconds = times.connect + times.read * (1 + calls / _CALLS_PER_READ)
        return await self._network.carry(url, body, seconds)

    async def speaks_tls(self, url: str) -> bool:
        return False


async def _nothing() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody sets this future")
