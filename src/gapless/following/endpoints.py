"""The one endpoint that a follower believes about the head, and when it takes another.

Endpoints of one network are rarely at the same block. Comparing one endpoint's answers with those
of another would look like reorganisations all the time, so a follower stays with one. It moves on
when that endpoint does not answer, or stands still while another one is ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gapless.chains.family import BlockHeader, Source
from gapless.chains.network import Network
from gapless.core.errors import Unavailable
from gapless.following.sighting import ChainHead

_PATIENCE = 5.0  # seconds


class StickyEndpoint:
    """The headers of a chain, from one endpoint at a time."""

    def __init__(self, source: Source, names: Sequence[str], network: Network) -> None:
        self._source, self._network = source, network
        self._names = sorted(names)
        self.name = self._names[0]

    async def tip(self) -> ChainHead:
        """Return the head of the current endpoint, or of the first one that answers."""
        for name in (self.name, *(each for each in self._names if each != self.name)):
            found = await self._tip_of(name)
            if found is not None:
                self.name = name
                return found
        raise Unavailable(f"no endpoint reports the head: asked {', '.join(self._names)}")

    async def headers(self, heights: Sequence[int]) -> Mapping[int, BlockHeader]:
        return await self._source.headers(self.name, heights, _PATIENCE)

    async def is_agreed(self, height: int) -> bool:
        """Whether another endpoint has the same block, or none has an opinion."""
        own = (await self.headers([height])).get(height)
        opinions = []
        for name in self._names:
            if name != self.name:
                tip = await self._tip_of(name)
                if tip is not None:
                    theirs = await self._source.headers(name, [height], _PATIENCE)
                    opinions.append(own is not None and theirs.get(height) == own)
        return any(opinions) or not opinions

    def move_on(self) -> None:
        """Take the next endpoint."""
        at = self._names.index(self.name)
        self.name = self._names[(at + 1) % len(self._names)]

    async def move_ahead(self, height: int) -> str | None:
        """Take an endpoint whose head is above this height, and return the former one's name.

        None if there is none: then it is the chain that stands still.
        """
        for name in self._names:
            found = None if name == self.name else await self._tip_of(name)
            if found is not None and found.head.height > height:
                before, self.name = self.name, name
                return before
        return None

    async def _tip_of(self, name: str) -> ChainHead | None:
        found = await self._source.latest(name, _PATIENCE)
        if found is None:
            return None
        head, final = found
        if final is None:
            return ChainHead(head, head.height - self._network.finality.depth)
        if final.height > head.height:  # the endpoint repeats an old head
            head = final
        return ChainHead(head, final.height, final.hash)
