"""No error, representation or profile contains an endpoint's URL, whatever the node says."""

from __future__ import annotations

import traceback
from typing import Any

import msgspec
import pytest

from gapless.core.errors import GaplessError
from gapless.devnode import Chain, DevNode
from gapless.devnode.wire import Reply
from gapless.providers import Call, EndpointSpec, Timeouts
from tests.unit.rpc.nodes import KEY, Outspoken, block_calls, error, first, pool_of

ECHO = f"project {KEY} at https://user:{KEY}@node.example/v2/{KEY}?k={KEY}"


def shown(problem: GaplessError) -> str:
    """All that a log could contain of an error."""
    lines = traceback.format_exception(problem)
    return f"{problem!r} {problem} {problem.hint} {vars(problem)} {''.join(lines)}"


@pytest.mark.parametrize(
    "reply",
    [
        error(f"invalid request: {ECHO}", -32600),
        error(f"internal error: {ECHO}"),
        error(f"monthly capacity of {ECHO}", 0, 403),
        error(f"too many requests: {ECHO}", 0, 429),
        error(f"max range: 5, {ECHO}"),
        error(f"the method x does not exist {ECHO}", -32601),
        error(f"pruned {ECHO}"),
        error(f"beyond current head {ECHO}"),
        Reply(ECHO.encode(), 401),
        Reply(ECHO.encode(), 301, (("Location", f"https://{KEY}/"),)),
        Reply(ECHO.encode()),
    ],
)
@pytest.mark.parametrize("introduced", [True, False])
async def test_a_node_that_repeats_our_key(chain: Chain, reply: Reply, introduced: bool) -> None:
    answering: Any = first(99, reply) if introduced else lambda _: reply
    async with Outspoken(chain, answering) as node, pool_of(node, patience=0.2) as pool:
        with pytest.raises(GaplessError) as problem:
            await pool.ask(block_calls([5, 6]))
        assert KEY not in shown(problem.value)
        assert KEY not in repr(msgspec.json.encode(pool.profiles()))


async def test_a_host_that_does_not_exist(chain: Chain) -> None:
    async with DevNode(chain) as node:
        gone = pool_of(node, patience=0.1)
    with pytest.raises(GaplessError) as problem:
        async with gone as pool:
            await pool.ask([Call("eth_blockNumber")])
    assert KEY not in shown(problem.value)


async def test_a_node_that_hangs(chain: Chain) -> None:
    hanging, timeouts = DevNode(chain, faults="timeout=1"), Timeouts(connect=0.05, read=0.05)
    async with hanging as node, pool_of(node, patience=0.1, timeouts=timeouts) as pool:
        with pytest.raises(GaplessError) as problem:
            await pool.ask([Call("eth_blockNumber")])
        assert "no answer in time" in str(problem.value)
        assert KEY not in shown(problem.value)


def test_a_spec_shows_only_its_name() -> None:
    spec = EndpointSpec("mine", f"https://{KEY}@host/{KEY}")
    assert repr(spec) == "EndpointSpec(name='mine', rps=None)"
    assert spec.redacted(f"no project {KEY}") == "no project …"
