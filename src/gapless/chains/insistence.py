"""Insist on blocks that nodes do not return although they are below the head.

A null below the head means that the node lags or is wrong, so the block is requested again, from
another endpoint if there is one, and finally reported as an error. A load balancer with one bad
node sometimes answers null: an endpoint that has a lower block is not pruned, and is asked more
often.

Invariant: every requested block is returned, and none is null.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import count
from typing import Protocol, TypeVar

from msgspec import Raw

from gapless.chains.family import RawBlock
from gapless.chains.network import Network
from gapless.core.errors import MissingHistory, SourceError, Unavailable
from gapless.providers import Answers, Call, Pool, Refused
from gapless.providers.calls import is_null
from gapless.providers.limits import delay
from gapless.providers.provider_errors import Reaction, Refusal

_TIMES = 4  # attempts for a null
_ROUNDS_BELOW = 2
_MORE_TIMES = 12  # attempts for a null if blocks below are answered
_SOON, _FIRST_WAIT = 0.05, 0.25  # seconds before the first retry of a null, and the next ones
_LONGEST_WAIT = 0.25  # if the next attempt may reach another node
_NO_ENDPOINTS = frozenset[str]()


class FetchedBlock(RawBlock, Protocol):
    """The answers about a block, some of which may be null."""

    @property
    def is_whole(self) -> bool: ...


T = TypeVar("T", bound=FetchedBlock)
Way = Callable[[Sequence[int], Collection[str]], Awaitable[Sequence[T]]]
"""Requests blocks, if possible not from some endpoints."""


class Insistence:
    """Requests the blocks of a network until it has them, or knows why not."""

    def __init__(
        self, pool: Pool, network: Network, ask_head: Callable[[], Awaitable[int]], parts: str
    ) -> None:
        """`parts` is what nodes return beside a block."""
        self._pool, self._network, self._ask_head, self._parts = pool, network, ask_head, parts
        self.head = -1  # the highest that any endpoint has reported

    async def fetch(
        self, way: Way[T], heights: Sequence[int], avoid: Collection[str] = ()
    ) -> list[T]:
        """Fetch blocks in one way, and retry those that are null, preferably elsewhere."""
        whole: dict[int, T] = {}
        empty_handed: dict[str, int] = {}  # endpoints that had none of several blocks
        wanted, avoided, deniers = heights, frozenset(avoid), frozenset[str]()
        attempts, spotty = max(_TIMES, 2 * len(self._pool.names)), False
        for times in count(1):
            blocks = await way(wanted, avoided)
            missing = [each for each in blocks if not each.is_whole]
            lacking = {each.height for each in missing}
            whole |= {each.height: each for each in blocks if each.height not in lacking}
            if not missing:
                self._conclude(whole, empty_handed)
                return [whole[height] for height in heights]
            if len(missing) == len(blocks) > 1:
                empty_handed[missing[0].endpoint] = missing[-1].height
            wanted = [each.height for each in missing]
            latest = {each.endpoint for each in missing}
            deniers |= latest
            if not self._pool.ready - deniers:  # none is left that may be ahead of these
                await self._check_below_head(wanted[-1])
            avoided = self._first_avoidable(deniers.union(avoid), deniers, latest)
            spotty |= any(
                each.height < wanted[-1] and each.endpoint in latest
                for each in blocks
                if each.is_whole
            )
            if times == attempts and (spotty or await self._has_some_below(way, wanted[0])):
                attempts, spotty = max(attempts, _MORE_TIMES), True
            if times >= attempts:
                break
            wait = _SOON if times == 1 else delay(times, self._pool.system.chance(), _FIRST_WAIT)
            await asyncio.sleep(min(wait, _LONGEST_WAIT) if spotty else wait)
        raise self._missing(wanted[0], spotty=spotty)

    async def ask(self, calls: Sequence[Call], avoid: Collection[str]) -> Answers:
        """Ask one endpoint, and repeat the calls that were null while that helps."""
        answers = await self._pool.ask(calls, avoid=avoid)
        results = list(answers.results)
        nulls = [at for at, result in enumerate(results) if is_null(result)]
        others = self._pool.names - {answers.endpoint}
        while 0 < len(nulls) < len(results):
            again = await self._pool.ask([calls[at] for at in nulls], avoid=others)
            if again.endpoint != answers.endpoint or all(map(is_null, again.results)):
                break
            for at, result in zip(nulls, again.results, strict=True):
                results[at] = result
            nulls = [at for at in nulls if is_null(results[at])]
        return Answers(tuple(results), answers.endpoint)

    async def from_one(
        self, endpoint: str, calls: Sequence[Call], patience: float
    ) -> Sequence[Raw]:
        """Ask one endpoint only; nothing is returned if it does not answer."""
        avoid = self._pool.names - {endpoint}
        try:
            answers = await self._pool.ask(calls, avoid=avoid, patience=patience)
        except SourceError:
            return ()
        return answers.results if answers.endpoint == endpoint else ()

    def saw(self, head: int) -> int:
        """Record a head that an endpoint reported; return the highest so far."""
        self.head = max(self.head, head)
        return self.head

    async def _has_some_below(self, way: Way[T], height: int) -> bool:
        """Whether a lower block exists, so that this one cannot have been pruned."""
        below = sorted(
            {height // 2, height * 3 // 4, *range(max(0, height - 4), height)} - {height}
        )
        for _ in range(_ROUNDS_BELOW if below else 0):
            if any(each.is_whole for each in await way(below, _NO_ENDPOINTS)):
                return True
        return False

    def _first_avoidable(self, *avoided: Collection[str]) -> frozenset[str]:
        """Return the first set of endpoints to avoid that leaves at least one to ask now."""
        usable = (frozenset(each) for each in avoided if self._pool.ready - set(each))
        return next(usable, _NO_ENDPOINTS)

    def _conclude(self, whole: dict[int, T], empty_handed: dict[str, int]) -> None:
        """Record endpoints that lacked blocks far below the head which another one had."""
        self.saw(max(whole))
        for name, height in empty_handed.items():
            settled = height < self.head - self._network.reorg_depth
            if settled and whole[height].endpoint != name:
                self._pool.doubt_below(name, height + 1)

    async def _check_below_head(self, height: int) -> None:
        """Raise if the block is above the head: it is not missing, it does not exist yet."""
        if height > self.head and height > await self._ask_head():
            refusal = Refusal(Reaction.LATER)
            raise Refused(f"block {height:,} is above the head, {self.head:,}", refusal)

    def _missing(self, height: int, *, spotty: bool) -> SourceError:
        names = ", ".join(f"`{name}`" for name in sorted(self._pool.names))
        if height >= self.head - self._network.reorg_depth:
            return Unavailable(f"block {height:,} is below the head, but null at {names}")
        message = f"block {height:,} or its {self._parts} are null at {names}"
        if spotty:
            return MissingHistory(
                f"{message}, although lower blocks are answered",
                height=height,
                hint="retry later, or add an endpoint that answers reliably",
            )
        return MissingHistory(
            message, height=height, hint="if they were pruned there, use an archive endpoint"
        )
