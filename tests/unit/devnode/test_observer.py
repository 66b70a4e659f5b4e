"""Nodes that share a chain and see it differently, on a clock that the test moves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapless.core.errors import UsageError
from gapless.devnode import Chain, DevNode, Limits, Visibility, parse_visibility
from gapless.devnode.wire import HttpRequest
from tests.unit.devnode.asking import call


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Notices:
    """A subscriber in the same process."""

    def __init__(self) -> None:
        self.heads: list[tuple[int, str]] = []
        self.dropped = False

    def send(self, text: bytes) -> None:
        header = json.loads(text)["params"]["result"]
        self.heads.append((int(header["number"], 16), header["hash"]))

    def drop(self) -> None:
        self.dropped = True


def asked(node: DevNode, method: str, *params: Any) -> Any:
    body = json.dumps(call(method, *params)).encode()
    return json.loads(node.respond(HttpRequest("POST", "/", {}, body)).body)["result"]


def head(node: DevNode) -> int:
    return int(asked(node, "eth_blockNumber"), 16)


def block_hash(node: DevNode, which: str | int) -> str | None:
    tag = hex(which) if isinstance(which, int) else which
    block = asked(node, "eth_getBlockByNumber", tag, False)
    return None if block is None else block["hash"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def observing(chain: Chain, clock: Clock, text: str) -> DevNode:
    return DevNode(chain, visibility=parse_visibility(text), clock=clock)


def test_visibility_as_text() -> None:
    assert parse_visibility("") == Visibility()
    assert parse_visibility("lag=3, null=2s,cache=1m,flap=0.5") == Visibility(
        lag=3, null=2, cache=60, flap=0.5
    )


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("lagg=3", "a view has no `lagg`", "did you mean `lag`?"),
        ("lag=3s", "`lag=3s` is not a number of blocks", "write `lag=3`"),
        ("lag", "`lag` is not a number of blocks", "write `lag=3`"),
        ("null=soon", "`soon` is not a duration", "write `90`"),
    ],
)
def test_a_wrong_visibility_is_explained(text: str, error: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_visibility(text)
    assert str(raised.value) == error
    assert hint in (raised.value.hint or "")


def test_a_node_that_lags(chain: Chain, clock: Clock) -> None:
    node, other = observing(chain, clock, "lag=3"), observing(chain, clock, "")
    assert (head(node), head(other)) == (117, 120)
    assert block_hash(node, 118) is None
    assert block_hash(node, "latest") == chain.hash(117)
    assert block_hash(node, "finalized") == chain.hash(117 - 64)
    notices = Notices()
    node.subscriptions.add(notices)
    chain.grow(2)
    assert notices.heads == [(118, chain.hash(118)), (119, chain.hash(119))]
    chain.reorg(121, extra=0)
    assert len(notices.heads) == 2, "it has not seen the replaced blocks"
    chain.reorg(117, extra=1)
    assert notices.heads[2:] == [(at, chain.hash(at)) for at in range(117, 121)]
    assert head(node) == 120


def test_a_node_that_lags_behind_the_genesis(chain: Chain, clock: Clock) -> None:
    node = observing(chain, clock, "lag=500")
    assert head(node) == 0
    assert block_hash(node, "finalized") == chain.hash(0)


def test_a_node_that_caches_its_tip(chain: Chain, clock: Clock) -> None:
    node = observing(chain, clock, "cache=5s")
    old = block_hash(node, "latest")
    assert head(node) == 120
    chain.reorg(119)
    clock.now += 4.9
    assert (head(node), block_hash(node, "latest")) == (120, old)
    assert block_hash(node, 120) == chain.hash(120) != old, "only the tip is cached"
    clock.now += 0.2
    assert (head(node), block_hash(node, "latest")) == (121, chain.hash(121))


def test_a_node_that_flaps_between_two_branches(chain: Chain, clock: Clock) -> None:
    node = observing(chain, clock, "flap=30s")
    assert {head(node) for _ in range(4)} == {120}
    old = [chain.hash(at) for at in range(121)]
    gone = json.loads(chain.block(119))["transactions"][0]["hash"]
    chain.reorg(119, extra=2)
    clock.now += 29
    assert {head(node) for _ in range(4)} == {120, 122}
    assert {block_hash(node, 119) for _ in range(4)} == {old[119], chain.hash(119)}
    assert {block_hash(node, 118) for _ in range(4)} == {old[118]}
    assert {block_hash(node, 122) for _ in range(4)} == {None, chain.hash(122)}
    for known in (old[119], chain.hash(119)):
        found = [asked(node, "eth_getBlockByHash", known, False) for _ in range(4)]
        assert [each and each["hash"] for each in found].count(known) == 2
        assert found.count(None) == 2
    receipts = [asked(node, "eth_getTransactionReceipt", gone) for _ in range(4)]
    assert receipts.count(None) == 2
    logs = [asked(node, "eth_getBlockReceipts", hex(119)) for _ in range(2)]
    assert logs[0] != logs[1]
    clock.now += 1
    assert {head(node) for _ in range(4)} == {122}


def test_a_node_that_announces_blocks_before_it_serves_them(chain: Chain, clock: Clock) -> None:
    node = observing(chain, clock, "null=2s")
    notices = Notices()
    node.subscriptions.add(notices)
    chain.grow()
    assert head(node) == 121
    assert notices.heads == [(121, chain.hash(121))]
    assert block_hash(node, 120) == chain.hash(120)
    for which in (121, "latest"):
        assert block_hash(node, which) is None
    assert asked(node, "eth_getBlockReceipts", hex(121)) is None
    assert asked(node, "eth_getBlockByHash", chain.hash(121), False) is None
    clock.now += 1
    chain.grow()
    clock.now += 1
    assert block_hash(node, 121) == chain.hash(121)
    assert block_hash(node, 122) is None
    clock.now += 1
    assert block_hash(node, 122) == chain.hash(122)
    chain.reorg(120)
    assert [block_hash(node, at) for at in range(119, 123)] == [chain.hash(119), None, None, None]


def test_settable_finality_depths(chain: Chain) -> None:
    node = DevNode(chain, limits=Limits(finality_depth=7, safe_depth=2))
    assert block_hash(node, "finalized") == chain.hash(113)
    assert block_hash(node, "safe") == chain.hash(118)
    node.reorg(6, length=1)
    assert chain.head == 115
    assert block_hash(node, "finalized") == chain.hash(113)
    assert block_hash(node, "safe") is None, "the tag stays, although its block is gone"


def test_notices_by_fault(chain: Chain) -> None:
    node = DevNode(chain, faults="ws-drop@122,ws-silent@121")
    notices, others = Notices(), Notices()
    node.subscriptions.add(notices)
    node.subscriptions.add(others)
    node.advance(3)
    assert (notices.heads, notices.dropped) == ([], False)
    assert ([height for height, _ in others.heads], others.dropped) == ([121], True)
    assert node.injected == {"ws-silent": 1, "ws-drop": 1}
    assert DevNode(chain, faults="ws-drop=0.1,null=0.95").injector.active
    with pytest.raises(UsageError, match="faults of notices add up"):
        DevNode(chain, faults="ws-drop=0.6,ws-silent=0.6")
