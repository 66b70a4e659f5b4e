"""A process that dies between two parts loses nothing, and repeats nothing that it has stored."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gapless.devnode import Chain, DevNode
from gapless.ledger import open_ledger
from gapless.ledger.syncs import SyncState
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    ALICE,
    BOB,
    LAST,
    amounts,
    balances,
    history,
    opened,
    truth,
)

_DYING = """
import os, sys, gapless
from gapless.wallets.store import WalletStore

url, target, ledger, parts, method, *addresses = sys.argv[1:]
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
    addresses, "custom", rpc=url, to=target, ledger=ledger, scan=True, chunk_size=50, batch_size=10,
    max_concurrent=1,
))
"""


async def _die(method: str, parts: int, *arguments: str) -> None:
    """Adds wallets in a process that dies after it has called the store a few times."""
    url, target, ledger, *addresses = arguments
    dying = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _DYING, url, target, ledger, str(parts), method, *addresses)
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
