"""A follow in this process, of a node that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import gapless
from gapless.config import Config, EndpointSettings
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Limits
from gapless.following.status import FollowStatus
from gapless.runtime.worker import WorkerOptions
from tests.conformance.fetch.stage import Contents, contents, truth
from tests.waiting import eventually

NETWORK, CHAIN_ID = "arbitrum-nova", 42_170
"""A network that is looked at once a second, and whose genesis is not known."""
HEAD, DEPTH = 120, 20
FINAL = HEAD - DEPTH
LIMITS = Limits(finality_depth=DEPTH)


class Stage:
    """A ledger and a sink for follows."""

    def __init__(self, ledger: str, target: str) -> None:
        self.ledger, self.target = ledger, target
        self.options = WorkerOptions()
        self.network, self.chain_id = NETWORK, CHAIN_ID

    @asynccontextmanager
    async def follow(
        self, *nodes: DevNode, names: str = "abc", ws: bool = False, **options: Any
    ) -> AsyncIterator[gapless.FollowHandle]:
        """A running follow, on an engine of its own; its nodes have a letter each as a name."""
        endpoints = {
            name: EndpointSettings(node.url, ws=f"{node.ws_url}/SECRET" if ws else None)
            for name, node in zip(names, nodes, strict=False)
        }
        engine = gapless.Engine(
            self.ledger,
            slots=gapless.FOLLOW_SLOTS,
            options=self.options,
            config=Config(endpoints=endpoints),
        )
        wanted = {"to": self.target, "chunk_size": 30, "batch_size": 10, **options}
        async with (
            engine,
            gapless.follow(engine, self.network, rpc=[*endpoints], **wanted) as handle,
        ):
            yield handle

    async def contents(self) -> Contents:
        return await contents(self.target, self.chain_id)

    async def assert_same(self, chain: Chain, first: int, last: int) -> None:
        """The sink holds these blocks of the chain, and none besides."""
        assert await self.contents() == truth(chain, Span(first, last))
        report = await gapless.verify(self.target, deep=True, ledger=self.ledger)
        assert report.complete


async def until(
    follow: gapless.FollowHandle, condition: Callable[[FollowStatus], bool], seconds: float = 20
) -> FollowStatus:
    """How the follow stands, once the condition holds."""
    seen: list[FollowStatus] = []

    async def holds() -> bool:
        seen[:] = [await follow.status()]
        return condition(seen[0])

    try:
        await eventually(holds, seconds=seconds)
    except TimeoutError:
        raise AssertionError(f"never so: {seen}") from None
    return seen[0]


async def live_at(follow: gapless.FollowHandle, height: int) -> FollowStatus:
    """How the follow stands, once everything up to a height is stored."""

    def is_live(status: FollowStatus) -> bool:
        there = status.stored == status.head == height
        return there and status.phase == "live" and not (status.unstored or status.gaps)

    return await until(follow, is_live)
