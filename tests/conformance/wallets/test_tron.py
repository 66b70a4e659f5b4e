"""A family whose nodes cannot search for events: from stored tables, or from every block."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

import gapless
from gapless.chains.opening import open_sink
from gapless.chains.tron.address import base58_of
from gapless.chains.tron.tables import TRON_TRANSACTIONS
from gapless.core.errors import UsageError
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Parameters, simulated
from gapless.ledger.syncs import SyncState
from gapless.sinks import Access
from tests.conformance.wallets.stage import opened

HEAD = 80
LAST = HEAD - 19


@pytest.fixture
def chain() -> Chain:
    return simulated(Parameters(blocks=HEAD, txs=6, seed=3), family="tron")


@pytest.fixture
async def node(chain: Chain) -> AsyncIterator[DevNode]:
    async with DevNode(chain) as running:
        yield running


@pytest.fixture
def place(node: DevNode, target: str, ledger: str) -> dict[str, Any]:
    return {"rpc": node.url, "to": target, "ledger": ledger}


async def busiest(target: str, chain_id: int) -> str:
    """The address that most stored transactions are of."""
    async with await open_sink(target, Access.READ) as sink:
        rows = await sink.read(TRON_TRANSACTIONS, chain_id, Span(0, HEAD), ("owner_address",))
    owners = Counter(filter(None, rows["owner_address"].to_pylist()))
    return base58_of(owners.most_common(1)[0][0])


async def test_without_tables_it_is_refused_before_anything_is_planned(
    place: dict[str, Any], ledger: str
) -> None:
    with pytest.raises(UsageError, match="cannot search for events") as refused:
        await gapless.add_wallets(base58_of(bytes(20)), "tron-custom", **place)
    assert "scan" in str(refused.value.hint)
    with pytest.raises(gapless.GaplessError, match="no such wallets"):
        await gapless.sync_wallets(rpc=place["rpc"], ledger=ledger)


async def test_tables_and_every_block_tell_the_same(
    place: dict[str, Any], node: DevNode, chain: Chain, target: str
) -> None:
    await gapless.fetch("tron-custom", "0:40", **place)
    wallet = await busiest(target, chain.chain_id)
    before = node.calls.copy()
    (stored,) = await gapless.add_wallets(wallet, "tron-custom", group="stored", **place)
    assert (stored.heights, stored.state) == ((0, 40), SyncState.COMPLETE)
    asked = node.calls - before
    (scanned,) = await gapless.add_wallets(
        wallet, "tron-custom", group="scanned", scan=True, **place
    )
    assert (scanned.heights, scanned.state) == ((0, LAST), SyncState.COMPLETE)
    assert asked.total() < 10, asked
    async with opened(target) as store:
        some, all_ = [await store.entries(group) for group in ("stored", "scanned")]
    assert some
    assert some == [it for it in all_ if it.movement.block_number <= 40]
