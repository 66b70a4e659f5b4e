"""Coins that contracts sent are found in traces, with the one who sent them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

import gapless
from gapless.chains.movements import NOBODY, MovementKind
from gapless.core.errors import UsageError
from gapless.devnode import Chain, DevNode, Limits, simulated
from gapless.devnode.evm.dialect import accounts_of
from gapless.devnode.evm.economy import CONTRACTS, SIGNERS
from gapless.devnode.evm.postings import COINS, Cause
from gapless.ledger import open_ledger
from gapless.ledger.syncs import SyncState
from gapless.wallets.ways import Evidence
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    ALICE,
    BOB,
    LAST,
    PARAMETERS,
    SEEN,
    WALLETS,
    amounts,
    balances,
    history,
    octets,
    opened,
)

TRACED = SEEN | {Cause.CALL, Cause.WRAPPING}
ALL = [ALICE, BOB, *WALLETS[-3:]]  # the last ones are contracts
LISTED, CHAIN = "base-goerli", 84_531
METHODS = {"trace_block": "debug_traceBlockByNumber", "debug_traceBlockByNumber": "trace_block"}


@pytest.fixture
async def node(chain: Chain) -> AsyncIterator[DevNode]:
    async with DevNode(chain, limits=Limits(traces=True)) as running:
        yield running


def coins(chain: Chain, wallet: str) -> int:
    """The coins of a wallet that blocks and traces explain."""
    found = accounts_of(chain).at(chain, LAST).explained(wallet, visible=TRACED)
    return found[COINS].visible


@pytest.mark.parametrize("method", METHODS)
async def test_calls_within_transactions_are_found(
    add: Add, chain: Chain, target: str, method: str
) -> None:
    limits = Limits(traces=True, missing=frozenset({METHODS[method]}))
    async with DevNode(chain, limits=limits) as node:
        await add(*ALL, traces=True, rpc=node.url, chunk_size=50, batch_size=9)
    assert node.calls[method] > LAST
    found = await balances(target)
    assert {wallet: its[COINS] for wallet, its in amounts(found).items()} == {
        wallet: coins(chain, wallet) for wallet in ALL
    }
    assert {it.is_complete for it in found} == {True}
    calls = [it.movement for it in await history(target) if it.movement.kind == "internal"]
    assert calls
    assert all(it.sender and it.receiver and it.initiator for it in calls)


async def test_stored_blocks_are_only_traced(
    add: Add, fetch: Add, node: DevNode, chain: Chain, target: str
) -> None:
    await fetch(f"0:{LAST}")
    before = node.calls["eth_getBlockReceipts"]
    await add(*ALL, traces=True)
    assert node.calls["eth_getBlockReceipts"] == before
    found = amounts(await balances(target))
    assert {wallet: its[COINS] for wallet, its in found.items()} == {
        wallet: coins(chain, wallet) for wallet in ALL
    }
    async with opened(target) as store:
        scans = await store.scans_of(1337, octets(ALICE))
    assert {it.source for it in scans} == {Evidence.TRACES}
    assert all("agreed" in it.unproven for it in scans)


async def test_traces_can_be_asked_for_later(add: Add, chain: Chain, target: str) -> None:
    await add(ALICE)
    await add(ALICE, scan=True)
    (sync,) = await add(ALICE, traces=True)
    assert (sync.state, len(sync.passes)) == (SyncState.COMPLETE, 3)
    assert amounts(await balances(target))[ALICE][COINS] == coins(chain, ALICE)


async def test_a_node_that_does_not_trace_is_refused(add: Add, chain: Chain, ledger: str) -> None:
    async with DevNode(chain) as node:
        with pytest.raises(UsageError, match="traces"):
            await add(ALICE, traces=True, rpc=node.url)
    book = await open_ledger(ledger)
    assert await book.wallets() == []
    await book.close()


@pytest.mark.parametrize("order", [*permutations(("bisected", "traced", "scanned"))])
async def test_the_order_of_ways_does_not_matter(
    order: tuple[str, ...], cache: Path, target: str, ledger: str
) -> None:
    """What traces show is subtracted from what balances left unexplained."""
    chain = simulated(replace(PARAMETERS, chain_id=CHAIN), cache)
    state = accounts_of(chain).at(chain, LAST)
    one, two = [it for it in WALLETS[:SIGNERS] if state.nonce(it)][:2]
    sets = {"bisected": [one], "traced": [one, two], "scanned": [one, WALLETS[-CONTRACTS]]}
    async with DevNode(chain, limits=Limits(traces=True)) as node:
        for way in order:
            await gapless.add_wallets(
                sets[way],
                LISTED,
                rpc=node.url,
                to=target,
                ledger=ledger,
                group=way,
                traces=way == "traced",
                scan=way == "scanned",
            )
    async with opened(target) as store:
        pages = [page async for page in store.stream(CHAIN, [octets(one)])]
    moved = [it for page in pages for it in page if it.token == NOBODY]
    own = octets(one)
    assert sum(it.amount * ((it.receiver == own) - (it.sender == own)) for it in moved) == (
        state.balance(one)
    )
    (held,) = [it for it in await balances(target, "bisected", CHAIN) if it.token == NOBODY]
    assert (held.amount, held.is_complete) == (state.balance(one), True)
    nameless = [it for it in moved if it.kind is MovementKind.INTERNAL and not it.sender]
    hidden = state.explained(one, visible=TRACED)[COINS].hidden
    assert sum(it.amount for it in nameless) == hidden
