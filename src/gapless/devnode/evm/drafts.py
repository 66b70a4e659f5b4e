"""Drafts of simulated transactions: transfers, approvals, swaps, deployments, failures.

A draft is a transaction and its outcome before it is placed in a block. It is drawn from the
block's own random generator, so that a block depends only on the parameters and its height.
Addresses and token ids come from small pools, as on real chains, where a few tokens emit most logs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from gapless.chains.evm.codec.keccak import keccak


def event(signature: str) -> str:
    return f"0x{keccak(signature.encode()).hex()}"


TRANSFER = event("Transfer(address,address,uint256)")
APPROVAL = event("Approval(address,address,uint256)")
APPROVAL_FOR_ALL = event("ApprovalForAll(address,address,bool)")
TRANSFER_SINGLE = event("TransferSingle(address,address,address,uint256,uint256)")
TRANSFER_BATCH = event("TransferBatch(address,address,address,uint256[],uint256[])")
SYNC = event("Sync(uint112,uint112)")
SWAP = event("Swap(address,uint256,uint256,uint256,uint256,address)")

_WALLETS, _TOKENS, _COLLECTIONS, _POOLS, _IDS = 256, 24, 8, 8, 512
NOBODY = f"0x{0:064x}"
_INIT_CODE = "0x608060405234801561001057600080fd5b50"


class DraftLog(NamedTuple):
    address: str
    topics: tuple[str, ...]
    data: str


class InnerCall(NamedTuple):
    """A call of a contract that sends coins. Transactions and logs do not show it."""

    sender: str
    receiver: str
    value: int


class Draft(NamedTuple):
    """A transaction and its outcome; `to` is None if it creates a contract."""

    to: str | None
    value: int
    input: str
    gas_used: int
    logs: tuple[DraftLog, ...] = ()
    succeeds: bool = True
    calls: tuple[InnerCall, ...] = ()


class World:
    """The addresses of a chain, by its seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.wallets = addresses(seed, "wallet", _WALLETS)
        self.holders = [topic(wallet) for wallet in self.wallets]
        self.tokens = addresses(seed, "token", _TOKENS)
        self.collections = addresses(seed, "collection", _COLLECTIONS)
        self.bazaars = addresses(seed, "bazaar", _COLLECTIONS)
        self.pools = addresses(seed, "pool", _POOLS)
        self.ids = [word(1 + number) for number in range(_IDS)]
        # Only chains with an economy use the following.
        self.router, self.staking, self.spammer, self.treasury = addresses(seed, "agent", 4)
        self.rebasing, self.taxed, self.unindexed, self.forged = addresses(seed, "odd token", 4)


class Turn(NamedTuple):
    """A wallet's turn in a block."""

    rng: Random
    world: World
    sender: int


Act = Callable[[Turn], Draft]


def draft(turn: Turn) -> Draft:
    """Draws the wallet's next transaction."""
    return drawn(turn, _ACTS)


def drawn(turn: Turn, acts: Sequence[tuple[float, Act]]) -> Draft:
    """Draws one of some acts by their cumulative shares; the rest are payments."""
    lot = turn.rng.random()
    for share, act in acts:
        if lot < share:
            return act(turn)
    return payment(turn)


def payment(turn: Turn) -> Draft:
    rng = turn.rng
    return Draft(turn.world.wallets[rng.getrandbits(8)], rng.getrandbits(62), "0x", 21_000)


def failure(turn: Turn) -> Draft:
    rng, world, _ = turn
    amount = rng.getrandbits(70)
    call = f"0xa9059cbb{world.holders[rng.getrandbits(8)][2:]}{amount:064x}"
    token = world.tokens[rng.getrandbits(16) % _TOKENS]
    return Draft(token, 0, call, 24_000 + rng.getrandbits(10), succeeds=False)


def token_transfer(turn: Turn) -> Draft:
    rng, world, sender = turn
    dice = rng.getrandbits(32)
    token, target = world.tokens[(dice >> 8) % _TOKENS], world.holders[dice & 255]
    amount = f"{rng.getrandbits(70):064x}"
    minted = dice >> 28 == 0
    topics = (TRANSFER, NOBODY if minted else world.holders[sender], target)
    call = f"0x{'40c10f19' if minted else 'a9059cbb'}{target[2:]}{amount}"
    return Draft(token, 0, call, 46_000 + (dice >> 20), (DraftLog(token, topics, f"0x{amount}"),))


def approval(turn: Turn) -> Draft:
    rng, world, sender = turn
    dice = rng.getrandbits(32)
    spender = world.holders[dice & 255]
    if dice >> 30 == 0:
        where = world.collections[(dice >> 8) % _COLLECTIONS]
        yes = f"{1:064x}"
        log = DraftLog(where, (APPROVAL_FOR_ALL, world.holders[sender], spender), f"0x{yes}")
        return Draft(where, 0, f"0xa22cb465{spender[2:]}{yes}", 45_800, (log,))
    where = world.tokens[(dice >> 8) % _TOKENS]
    log = DraftLog(where, (APPROVAL, world.holders[sender], spender), f"0x{'f' * 64}")
    return Draft(where, 0, f"0x095ea7b3{spender[2:]}{'f' * 64}", 46_300, (log,))


def _nft_transfer(turn: Turn) -> Draft:
    rng, world, sender = turn
    dice = rng.getrandbits(32)
    where = world.collections[(dice >> 8) % _COLLECTIONS]
    owner, target, item = world.holders[sender], world.holders[dice & 255], world.ids[dice >> 23]
    log = DraftLog(where, (TRANSFER, owner, target, item), "0x")
    call = f"0x23b872dd{owner[2:]}{target[2:]}{item[2:]}"
    return Draft(where, 0, call, 62_000 + (dice >> 22), (log,))


def _multi_transfer(turn: Turn) -> Draft:
    """One ERC-1155 item, or several at once."""
    rng, world, sender = turn
    dice = rng.getrandbits(32)
    where = world.bazaars[(dice >> 8) % _COLLECTIONS]
    owner, target = world.holders[sender], world.holders[dice & 255]
    if dice >> 30:
        item, amount = world.ids[dice >> 23], f"{1 + (dice & 0xFFF):064x}"
        log = DraftLog(where, (TRANSFER_SINGLE, owner, owner, target), f"{item}{amount}")
        tail = f"{0xA0:064x}{0:064x}"
        call = f"0xf242432a{owner[2:]}{target[2:]}{item[2:]}{amount}{tail}"
        return Draft(where, 0, call, 58_000, (log,))
    count = 2 + (dice >> 20 & 3)
    items = "".join(world.ids[(dice + at) % _IDS][2:] for at in range(count))
    amounts = "".join(f"{1 + at:064x}" for at in range(count))
    lists = f"{count:064x}{items}{count:064x}{amounts}"
    log = DraftLog(
        where,
        (TRANSFER_BATCH, owner, owner, target),
        f"0x{0x40:064x}{0x60 + 32 * count:064x}{lists}",
    )
    heads = f"{0xA0:064x}{0xC0 + 32 * count:064x}{0xE0 + 64 * count:064x}"
    call = f"0x2eb2c2d6{owner[2:]}{target[2:]}{heads}{lists}{0:064x}"
    return Draft(where, 0, call, 70_000 + 9_000 * count, (log,))


def swap(turn: Turn) -> Draft:
    rng, world, sender = turn
    dice = rng.getrandbits(32)
    pool, first = world.pools[dice % _POOLS], (dice >> 4) % _TOKENS
    given, got = world.tokens[first], world.tokens[(first + 1) % _TOKENS]
    paid, taken, owner, market = dice + 1, dice // 3 + 1, world.holders[sender], topic(pool)
    logs = (
        DraftLog(given, (TRANSFER, owner, market), word(paid)),
        DraftLog(got, (TRANSFER, market, owner), word(taken)),
        DraftLog(pool, (SYNC,), f"0x{paid * 1000:064x}{taken * 1000:064x}"),
        DraftLog(pool, (SWAP, owner, owner), f"0x{paid:064x}{0:064x}{0:064x}{taken:064x}"),
    )
    call = f"0x38ed1739{paid:064x}{taken:064x}{0xA0:064x}{owner[2:]}{dice:064x}"
    return Draft(pool, 0, call, 110_000 + (dice >> 18), logs)


def deployment(turn: Turn) -> Draft:
    dice = turn.rng.getrandbits(32)
    code = f"{_INIT_CODE}{turn.rng.getrandbits(256):064x}"
    return Draft(None, dice & 1, code, 300_000 + (dice >> 14))


def oddity(turn: Turn) -> Draft:
    """Logs without topics, of odd sizes and duplicated, in a transaction that also sends ether."""
    rng, world, _ = turn
    dice = rng.getrandbits(16)
    pool = world.pools[dice % _POOLS]
    odd = DraftLog(pool, (), f"0x{dice & 0xFF:02x}")
    logs = (odd, odd, DraftLog(pool, (SYNC,), "0x"), DraftLog(pool, (), f"0x{dice:04x}00ff"))
    return Draft(pool, dice, f"0x{dice & 0x7F:02x}", 40_000 + dice, logs)


_ACTS: tuple[tuple[float, Act], ...] = (
    (0.05, failure),
    (0.42, token_transfer),
    (0.50, approval),
    (0.56, _nft_transfer),
    (0.62, _multi_transfer),
    (0.70, swap),
    (0.72, deployment),
    (0.74, oddity),
)


def addresses(seed: int, what: str, count: int) -> list[str]:
    names = (f"{seed}:{what}:{at}".encode() for at in range(count))
    return [f"0x{blake2b(name, digest_size=20).hexdigest()}" for name in names]


def topic(address: str) -> str:
    return f"0x{'0' * 24}{address[2:]}"


def word(number: int) -> str:
    return f"0x{number:064x}"
