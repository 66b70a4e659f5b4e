"""Wallets with a short history, written to a ledger and a sink without any node."""

from __future__ import annotations

from pathlib import Path

from gapless.chains import find_network
from gapless.chains.movements import Movement, MovementKind, TokenFacts
from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from gapless.wallets.records import Scan
from gapless.wallets.request import rules_of
from gapless.wallets.store import Settled, WalletStore
from tests import wallets
from tests.support import Home, finish, open_at
from tests.unit.wallets.moves import (
    ANN,
    BOB,
    FAKE,
    GOLD,
    MALLORY,
    OWN,
    SHOP,
    classified,
    move,
    token,
)

NETWORK = find_network("ethereum")
RULES = rules_of(NETWORK)
FIRST, LAST = 100, 199
GROUP = "own"
EVIL = 'USD\x1b[31m\u202e=HYPERLINK("x")' + "y" * 99
HISTORY: list[Movement] = [
    move(MovementKind.NATIVE, SHOP, ANN, 5 * 10**18, block=110),
    move(MovementKind.FEE, ANN, b"", 21_000, block=120),
    move(MovementKind.NATIVE, ANN, BOB, 10**18 + 1, block=120),
    token(SHOP, ANN, 1_500_000, block=130, position=2, transaction_hash=b"\xcd" * 32),
    token(MALLORY, ANN, 7, FAKE, block=140, position=3),
    token(ANN, MALLORY, 0, block=150, position=4, initiator=MALLORY),
    move(MovementKind.NFT, SHOP, ANN, 1, block=160, position=5, token=FAKE, token_id=2**200),
]


def text(address: bytes) -> str:
    return RULES.format_address(address)


async def fill(folder: Path, home: Home, sink: str = "wallets.db") -> None:
    """Adds Ann, whose history is complete, and Bob, whose history nobody has begun."""
    ledger = await open_at(home)
    try:
        targets = [wallets.Target(group=GROUP, sink=sink, heights=(FIRST, LAST))]
        await wallets.add(ledger, text(ANN), targets=targets, label="Ann's")
        await finish(ledger)
        await wallets.add(ledger, text(BOB), targets=targets)
    finally:
        await ledger.close()
    async with await open_sink(str(folder / sink)) as opened:
        store = WalletStore.of(opened)
        span = Span(FIRST, LAST)
        scan = Scan(chain_id=1, address_set="both", span=span, source="test", fence=1)
        await store.write(scan, OWN, HISTORY)
        await store.add_members(GROUP, NETWORK, RULES, OWN, LAST)
        entries = classified(HISTORY)
        assert await store.replace_entries(GROUP, 1, span, HISTORY, entries, 1)
        await store.settle(GROUP, 1, {ANN: Settled(True, LAST), BOB: Settled(False, LAST)}, 1)
        await store.put_tokens(
            1,
            {GOLD: TokenFacts("ERC-20", "GLD", "Gold", 6), FAKE: TokenFacts("ERC-20", EVIL, EVIL)},
        )
