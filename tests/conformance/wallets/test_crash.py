"""A process that dies between two parts loses nothing, and repeats nothing that it has stored."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import gapless
from gapless.devnode import Chain, DevNode, simulated
from gapless.devnode.evm.dialect import accounts_of
from gapless.ledger import open_ledger
from gapless.ledger.syncs import SyncState
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    ALICE,
    BOB,
    LAST,
    PARAMETERS,
    WALLETS,
    amounts,
    balances,
    history,
    octets,
    opened,
    truth,
)

_DYING = """
import os, sys, gapless
from gapless.wallets.store import WalletStore

url, target, ledger, parts, method, network, way, *addresses = sys.argv[1:]
done, real = 0, getattr(WalletStore, method)

async def dying(*arguments, **named):
    global done
    result = await real(*arguments, **named)
    done += 1
    if done == int(parts):
        os._exit(9)
    return result

setattr(WalletStore, method, dying)
import asyncio
asyncio.run(gapless.add_wallets(
    addresses, network, rpc=url, to=target, ledger=ledger, scan=way == "scan", chunk_size=50,
    batch_size=10, max_concurrent=1,
))
"""


async def _die(
    method: str, parts: int, *arguments: str, network: str = "custom", way: str = "scan"
) -> None:
    """Adds wallets in a process that dies after it has called the store a few times."""
    url, target, ledger, *addresses = arguments
    how = (str(parts), method, network, way)
    dying = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _DYING, url, target, ledger, *how, *addresses)
    )
    assert await dying.wait() == 9


async def test_a_search_continues_after_the_last_stored_part(
    add: Add, node: DevNode, chain: Chain, ledger: str, target: str
) -> None:
    await _die("write", 3, node.url, target, ledger, ALICE, BOB)
    async with opened(target) as store:
        assert await store.balances("default") == []
    before = node.calls["eth_getBlockReceipts"]
    syncs = await add(ALICE, BOB, scan=True)
    assert {each.state for each in syncs} == {SyncState.COMPLETE}
    assert node.calls["eth_getBlockReceipts"] - before == LAST + 1 - 30
    assert amounts(await balances(target)) == truth(chain, LAST, [ALICE, BOB])
    book = await open_ledger(ledger)
    assert await book.check() == []
    await book.close()


async def test_a_classification_is_repeated(
    add: Add, node: DevNode, chain: Chain, ledger: str, target: str, tmp_path: Path
) -> None:
    await _die("replace_entries", 1, node.url, target, ledger, ALICE, BOB)
    seen = await history(target)
    assert seen
    found = await balances(target)
    assert {it.is_complete for it in found} == {False}
    await add(ALICE, BOB, scan=True)
    assert await history(target) == seen
    found = await balances(target)
    assert {it.is_complete for it in found} == {True}
    assert amounts(found) == truth(chain, LAST, [ALICE, BOB])


async def test_a_bisected_segment_is_not_bisected_again(
    cache: Path, ledger: str, target: str
) -> None:
    chain = simulated(replace(PARAMETERS, chain_id=84_531), cache)
    state = accounts_of(chain).at(chain, LAST)
    wallets = [it for it in WALLETS if state.nonce(it) and not state.code(it)][:2]
    async with DevNode(chain) as node:
        place = (node.url, target, ledger)
        await _die("write", 1, *place, *wallets, network="base-goerli", way="events")
        before = node.calls["eth_getCode"]
        await gapless.add_wallets(wallets, "base-goerli", rpc=node.url, to=target, ledger=ledger)
        assert node.calls["eth_getCode"] - before == 2 * len(wallets)  # of the segments left
    found = [it for it in await balances(target, chain_id=84_531) if not it.token]
    assert {it.wallet: (it.amount, it.is_complete) for it in found} == {
        octets(it): (state.balance(it), True) for it in wallets
    }
