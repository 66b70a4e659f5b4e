"""A known hash is compared with each block, not only with an endpoint's first answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gapless.core.backfill import State
from gapless.devnode import Chain, Parameters, simulated
from gapless.devnode.wire import Reply
from tests.unit.rpc.nodes import Outspoken

Fetch = Callable[..., Any]
HEIGHT = 50


def two_faced(honest: Chain, parameters: Parameters) -> Outspoken:
    """A node of another chain that returns the honest header when asked for a single one."""
    other = simulated(parameters)
    other.reorg(HEIGHT)

    def answering(asked: Any) -> Reply | None:
        if isinstance(asked, list) or asked["params"] != [hex(HEIGHT), False]:
            return None
        header = json.loads(honest.block(HEIGHT))
        return Reply(json.dumps({"id": asked["id"], "result": header}).encode())

    return Outspoken(other, answering)


async def test_a_block_that_contradicts_an_anchor_is_refused(
    chain: Chain, parameters: Parameters, fetch: Fetch, stored: Fetch
) -> None:
    """The node passed the comparison at first contact."""
    known = f"{HEIGHT}:{chain.hash(HEIGHT)}"
    async with two_faced(chain, parameters) as liar:
        heights = f"{HEIGHT}:{HEIGHT + 9}"
        result = await fetch(liar, heights=heights, anchors=[known], retry="halt")
    assert (result.state, HEIGHT in result.gaps) == (State.FAILED, True)
    assert "`anchor`" in str(result.error)
    assert HEIGHT not in (await stored())["blocks"]["block_number"].to_pylist()
