"""Find out where a provider's history begins, after it has reported a block missing.

One such refusal proves nothing: a node behind a load balancer may be damaged or still be syncing.
So the same method is called twice for the block, for blocks below it and for blocks above it. Only
if all blocks at and below it are refused again, and one above it is answered, does the history
begin above it. Refused blocks above it narrow down where exactly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gapless.providers.calls import Call, is_null
from gapless.providers.endpoint import Endpoint
from gapless.providers.exchange import Exchange
from gapless.providers.provider_errors import Reaction
from gapless.providers.queries import NodeQueries

_ROUNDS = 2
_BETWEEN = 0.1  # seconds
_STEPS_ABOVE = 6


async def find_beginning(
    exchange: Exchange, endpoint: Endpoint, queries: NodeQueries, refused: Call, head: int
) -> int | None:
    """Return the first block for which the method may be answered; None if uncertain."""
    assert refused.height is not None
    below, above = _below(refused.height), _above(refused.height, head)
    if not above or queries.about(refused, 0) is None:
        return None
    answered, gone = set[int](), set[int]()
    for _ in range(_ROUNDS):
        if gone:
            await asyncio.sleep(_BETWEEN)
        found = await _probe(exchange, endpoint, queries, refused, (*below, *above))
        answered |= {height for height, is_there in found.items() if is_there}
        gone |= found.keys() - answered
    gone -= answered
    if not answered or min(answered) <= refused.height or not set(below) <= gone:
        return None
    return max(height for height in gone if height < min(answered)) + 1


def _below(height: int) -> list[int]:
    """Return the block itself and some below it."""
    return sorted({height, max(0, height - 1), height * 3 // 4, height // 2})


def _above(height: int, head: int) -> list[int]:
    """Return blocks ever closer to the block, and ever closer to the head, which nodes have."""
    steps = [(head - height) >> step for step in range(1, _STEPS_ABOVE)]
    found = {head - 1, *(height + step for step in steps), *(head - step for step in steps)}
    return sorted(each for each in found if height < each < head)


async def _probe(
    exchange: Exchange,
    endpoint: Endpoint,
    queries: NodeQueries,
    call: Call,
    heights: Iterable[int],
) -> dict[int, bool]:
    """Return whether the endpoint has each height; heights without a clear answer are left out."""
    calls = {at: moved for at in heights if (moved := queries.about(call, at)) is not None}
    found: dict[int, bool] = {}
    for batch in exchange.batches(endpoint, calls):
        reply = await exchange.send(endpoint, batch, set(), fresh=True)
        found |= {at: True for at, result in reply.results.items() if not is_null(result)}
        for each in reply.errors:
            if each.call is not None and each.refusal.reaction is Reaction.ELSEWHERE:
                found[each.call] = False
    return found
