"""A family whose nodes cannot search for events: from stored tables, or from every block."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

import gapless
from gapless.chains import find_network
from gapless.chains.opening import open_sink
from gapless.chains.tron.address import base58_of
from gapless.chains.tron.family import TRON
from gapless.chains.tron.tables import TRON_TRANSACTIONS
from gapless.core.errors import UsageError
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Parameters, simulated
from gapless.devnode.tron.accounts import ENDOWMENT
from gapless.devnode.tron.drafts import TronWorld
from gapless.ledger.syncs import SyncState
from gapless.providers import Call, EndpointSpec, Pool
from gapless.sinks import Access
from gapless.wallets.reconcile import reconcile
from gapless.wallets.request import rules_of
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


async def test_coins_and_assets_are_those_of_the_node(
    place: dict[str, Any], node: DevNode, chain: Chain, target: str
) -> None:
    """Also of those who stake, and of witnesses, whose rewards are not theirs yet."""
    wallets = [bytes.fromhex(each[2:]) for each in TronWorld(3).wallets[:100]]
    await gapless.add_wallets(
        [base58_of(each) for each in wallets], "tron-custom", scan=True, confirmations=0, **place
    )
    network = replace(find_network("tron-custom"), chain_id=chain.chain_id)
    staked = earned = assets = 0
    async with (
        Pool([EndpointSpec("node", node.url)], TRON.queries) as pool,
        opened(target) as store,
    ):
        asked = rules_of(network).node(pool, network)
        for wallet in wallets:
            answers = await pool.ask(
                [Call("/wallet/getaccount", ({"address": f"41{wallet.hex()}"},))]
            )
            said = msgspec.json.decode(answers.results[0]) or {}
            coin, *others = await reconcile(store, asked, "default", wallet, chain.chain_id, HEAD)
            frozen = sum(each.get("amount", 0) for each in said.get("frozenV2", ()))
            assert coin.balance.on_chain == said.get("balance", 0) + frozen
            assert coin.balance.unexplained == (ENDOWMENT if said else 0)
            trc10 = [it.balance for it in others if len(it.token) != len(wallet)]
            assert {it.unexplained for it in trc10} <= {ENDOWMENT}
            staked, earned = staked + frozen, earned + said.get("allowance", 0)
            assets += len(trc10)
    assert min(staked, earned, assets) > 0, "the chain shows all that is compared"
