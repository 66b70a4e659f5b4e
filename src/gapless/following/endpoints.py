"""The one endpoint that a follower believes about the head, and when it takes another.

Endpoints of one network are rarely at the same block. Comparing one endpoint's answers with those
of another would look like reorganisations all the time, so a follower stays with one. It takes
another one if this one does not answer; or if another one is ahead, while this one contradicts
itself, lacks blocks, or has no new block although one is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from gapless.chains.family import BlockHeader, Source
from gapless.chains.network import Network
from gapless.core.errors import GaplessError, TransientError, Unavailable
from gapless.following.sighting import ChainHead, Headers, Sighting
from gapless.providers.gather import gather_all
from gapless.providers.standing import Served

_PATIENCE = 5.0  # seconds

T = TypeVar("T")
Look = Callable[[Headers], Awaitable[Sighting]]


class EndpointHeaders:
    """The headers of a chain, all from one endpoint."""

    def __init__(self, source: Source, name: str, network: Network) -> None:
        self._source, self._network = source, network
        self.name = name

    async def tip(self) -> ChainHead:
        found = await self._source.latest(self.name, _PATIENCE)
        if found is None:
            raise Unavailable(f"endpoint `{self.name}` does not report its head")
        head, final = found
        if final is None:
            return ChainHead(head, head.height - self._network.finality.depth)
        if final.height > head.height:  # the endpoint repeats an old head
            head = final
        return ChainHead(head, final.height, final.hash)

    async def headers(self, heights: Sequence[int]) -> Mapping[int, BlockHeader]:
        return await self._source.headers(self.name, heights, _PATIENCE)


class StickyEndpoint:
    """The endpoints of a chain, of which one is believed at a time."""

    def __init__(
        self,
        source: Source,
        names: Sequence[str],
        network: Network,
        served: Callable[[], Mapping[str, Served]],
    ) -> None:
        """`served` returns the state of each endpoint."""
        self._names, self._served = sorted(names), served
        self._endpoints = {name: EndpointHeaders(source, name, network) for name in self._names}
        self.name = self._names[0]

    async def sight(self, look: Look, *, known: int, late: bool) -> Sighting:
        """Return what the endpoint shows, or another one that is taken from now on.

        `known` is the highest block seen so far; `late` says that the next one is due. An endpoint
        that keeps silent is given more time for as long as no other one answers: its requests may
        have to wait for their turn.
        """
        own = asyncio.ensure_future(look(self._endpoints[self.name]))
        try:
            while True:
                await asyncio.wait([own], timeout=_PATIENCE)
                error = own.exception() if own.done() else None
                seen = own.result() if own.done() and error is None else None
                reached = known if seen is None else max(known, seen.tip.head.height)
                if seen is not None and (reached > known or not late):
                    return seen
                answers = seen is not None or isinstance(error, TransientError)
                if other := await self._other(look, above=reached if answers else None):
                    self.name, found = other
                    return found
                if own.done():
                    if isinstance(error, Unavailable):
                        raise self.silence()
                    return own.result()
        finally:
            own.cancel()
            await asyncio.gather(own, return_exceptions=True)

    async def is_agreed(self, height: int) -> bool:
        """Whether another endpoint has the same block, or none has an opinion."""
        own = (await self._endpoints[self.name].headers([height])).get(height)

        async def agrees(other: EndpointHeaders) -> bool:
            await other.tip()
            theirs = (await other.headers([height])).get(height)
            return own is not None and theirs == own

        opinions = (await self._ask_others(agrees)).values()
        return any(opinions) or not opinions

    def move_on(self) -> None:
        """Take the next endpoint."""
        at = self._names.index(self.name)
        self.name = self._names[(at + 1) % len(self._names)]

    async def _other(self, look: Look, above: int | None) -> tuple[str, Sighting] | None:
        """Return the other endpoint with the highest head, if it is above this height."""
        found = await self._ask_others(look)
        if not found:
            return None
        name = max(found, key=lambda name: found[name].tip.head.height)
        if above is not None and found[name].tip.head.height <= above:
            return None
        return name, found[name]

    async def _ask_others(
        self, question: Callable[[EndpointHeaders], Awaitable[T]]
    ) -> dict[str, T]:
        """Return the answers of all other endpoints, by name, without those that fail."""
        found: dict[str, T] = {}

        async def ask(name: str) -> None:
            try:
                async with asyncio.timeout(_PATIENCE):
                    found[name] = await question(self._endpoints[name])
            except (GaplessError, TimeoutError):
                pass  # it has no opinion

        others = [name for name in self._names if name != self.name]
        await gather_all([ask(name) for name in others])
        return {name: found[name] for name in others if name in found}

    def silence(self) -> Unavailable:
        """The error that says why no endpoint answers, as far as that is known."""
        served = self._served()
        why = {name: served[name].trouble or "no answer" for name in self._names}
        reasons = ", ".join(f"`{name}` ({each})" for name, each in why.items())
        return Unavailable(f"no endpoint answers: {reasons}")
