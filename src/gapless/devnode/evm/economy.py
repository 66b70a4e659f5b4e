"""Drafts of a chain with an economy: coins and tokens move, also where nothing shows it.

Beside what every simulated chain has, there are calls within transactions that send coins, coins
that are wrapped and unwrapped, failed payments, payments to oneself, tokens whose balances change
without an event or differ from what events say, and events that pretend.

Accounts must be consistent: no balance is ever negative, and the nonces of an account are 0, 1, 2
and so on. But a block is drafted without a state, on any branch. Therefore:

- `Slots` numbers the turns of accounts through the whole chain. How many transactions a block has
  depends on its height, not on its branch, so the nonces of all branches continue each other.
- The accounts that sign start with more than they can ever spend (`allocations`). The others start
  with nothing: some are contracts, which pass on what they receive.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapless.devnode.building import Parameters
from gapless.devnode.evm.drafts import (
    NOBODY,
    TRANSFER,
    Act,
    Draft,
    DraftLog,
    InnerCall,
    Turn,
    World,
    approval,
    deployment,
    drawn,
    event,
    failure,
    oddity,
    swap,
    token_transfer,
    topic,
    word,
)
from gapless.devnode.evm.items import crafted

ECONOMY_VERSION = 1
"""Raise it when such chains change: the accounts of a chain must fit its blocks in the cache."""
DEPOSIT = event("Deposit(address,uint256)")
WITHDRAWAL = event("Withdrawal(address,uint256)")
WRAPPED = "0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2"
"""The contract that wraps coins; its address is that of WETH9 on Ethereum, whatever the seed."""
SIGNERS = 224
"""Of all wallets, the first are the accounts that sign transactions."""
CONTRACTS = 8
"""Of all wallets, the last are contracts."""
COIN = ""
"""In place of the address of a token."""
_COINS, _TOKENS = 10**28, 10**30
_NO_BRANCH = -1


class Slots:
    """The turns of each block, numbered through the whole chain."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._ends = [0]

    def of(self, height: int) -> range:
        for at in range(len(self._ends) - 1, height + 1):
            rng = self._parameters.chance(_NO_BRANCH, at)
            self._ends.append(self._ends[-1] + self._parameters.transactions(rng, at))
        return range(self._ends[height], self._ends[height + 1])


def allocations(world: World) -> Iterator[tuple[str, str, int]]:
    """What accounts have at the start: account, token or `COIN`, and amount."""
    fungible = (*world.tokens, world.rebasing, world.taxed, world.unindexed, WRAPPED)
    for account in world.wallets[:SIGNERS]:
        yield account, COIN, _COINS
        yield from ((account, token, _TOKENS) for token in fungible)
    for pool in world.pools:
        yield from ((pool, token, _TOKENS) for token in (*world.tokens, WRAPPED))
    yield world.staking, COIN, _COINS
    yield WRAPPED, COIN, _TOKENS * (SIGNERS + len(world.pools))  # all its tokens can be unwrapped


def contracts(world: World) -> frozenset[str]:
    """The accounts that have code from the start."""
    odd = (world.rebasing, world.taxed, world.unindexed, world.forged, WRAPPED)
    others = (world.router, world.staking, world.spammer, world.treasury)
    tokens = (*world.tokens, *world.collections, *world.bazaars, *world.pools)
    return frozenset((*tokens, *odd, *others, *world.wallets[-CONTRACTS:]))


def economic_draft(turn: Turn, slot: int) -> Draft:
    """The transaction of a turn: what is to be done with an item, or one that is drawn."""
    return crafted(turn.world, slot, SIGNERS) or drawn(turn, _ACTS)


def _failed_payment(turn: Turn) -> Draft:
    """Its value stays with the sender, who pays only the fee."""
    rng, world, _ = turn
    to = rng.choice([world.router, world.wallets[-1]])
    return Draft(to, rng.getrandbits(62), "0xd0e30db0", 30_000, succeeds=False)


def _payment_to_oneself(turn: Turn) -> Draft:
    rng, world, sender = turn
    if rng.getrandbits(1):
        return Draft(world.wallets[sender], rng.getrandbits(62), "0x", 21_000)
    own, token = world.holders[sender], rng.choice([*world.tokens, world.rebasing, world.taxed])
    return _sent(token, own, own, rng.getrandbits(70))


def _dispersal(turn: Turn) -> Draft:
    """Coins for several accounts, one of them perhaps the sender."""
    rng, world, _ = turn
    calls = tuple(
        InnerCall(world.router, rng.choice(world.wallets), rng.getrandbits(60))
        for _ in range(rng.randint(1, 4))
    )
    total = sum(each.value for each in calls)
    return Draft(world.router, total, "0xe63d38ed", 40_000 + 9_000 * len(calls), calls=calls)


def _forwarding(turn: Turn) -> Draft:
    """A wallet that is a contract passes on what it gets: neither balance nor nonce changes."""
    rng, world, _ = turn
    contract, value = rng.choice(world.wallets[-CONTRACTS:]), rng.getrandbits(62)
    calls = (InnerCall(contract, rng.choice(world.wallets), value),)
    return Draft(contract, value, "0x", 32_000, calls=calls)


def _stake(turn: Turn) -> Draft:
    """Deposits coins, or gets interest. The event is that of the wrapping contract, but no token
    moves."""
    rng, world, sender = turn
    value = rng.getrandbits(60)
    if rng.getrandbits(1):
        log = DraftLog(world.staking, (DEPOSIT, world.holders[sender]), word(value))
        return Draft(world.staking, value, "0x3a4b66f1", 70_000, (log,))
    calls = (InnerCall(world.staking, world.wallets[sender], value),)
    return Draft(world.staking, 0, "0x372500ab", 55_000, calls=calls)


def _wrapping(turn: Turn) -> Draft:
    rng, world, sender = turn
    value = rng.getrandbits(61)
    log = DraftLog(WRAPPED, (DEPOSIT, world.holders[sender]), word(value))
    return Draft(WRAPPED, value, "0xd0e30db0", 45_000, (log,))


def _unwrapping(turn: Turn) -> Draft:
    rng, world, sender = turn
    value = rng.getrandbits(61)
    log = DraftLog(WRAPPED, (WITHDRAWAL, world.holders[sender]), word(value))
    calls = (InnerCall(WRAPPED, world.wallets[sender], value),)
    return Draft(WRAPPED, 0, f"0x2e1a7d4d{value:064x}", 36_000, (log,), calls=calls)


def _purchase(turn: Turn) -> Draft:
    """Coins for tokens: the router wraps the coins and gives them to a pool."""
    rng, world, sender = turn
    pool, token = rng.choice(world.pools), rng.choice(world.tokens)
    paid, got = rng.getrandbits(60), rng.getrandbits(60)
    logs = (
        DraftLog(WRAPPED, (DEPOSIT, topic(world.router)), word(paid)),
        DraftLog(WRAPPED, (TRANSFER, topic(world.router), topic(pool)), word(paid)),
        DraftLog(token, (TRANSFER, topic(pool), world.holders[sender]), word(got)),
    )
    calls = (InnerCall(world.router, WRAPPED, paid),)
    return Draft(world.router, paid, "0x7ff36ab5", 130_000, logs, calls=calls)


def _sale(turn: Turn) -> Draft:
    """Tokens for coins: the router unwraps what a pool gives, and only a call pays the seller."""
    rng, world, sender = turn
    pool, token, router = rng.choice(world.pools), rng.choice(world.tokens), topic(world.router)
    paid, got = rng.getrandbits(60), rng.getrandbits(60)
    logs = (
        DraftLog(token, (TRANSFER, world.holders[sender], topic(pool)), word(paid)),
        DraftLog(WRAPPED, (TRANSFER, topic(pool), router), word(got)),
        DraftLog(WRAPPED, (WITHDRAWAL, router), word(got)),
    )
    calls = (
        InnerCall(WRAPPED, world.router, got),
        InnerCall(world.router, world.wallets[sender], got),
    )
    return Draft(world.router, 0, "0x18cbafe5", 140_000, logs, calls=calls)


def _odd_token_transfer(turn: Turn) -> Draft:
    """Of wrapped coins, or of a token whose balances do not follow from the events."""
    rng, world, sender = turn
    token = rng.choice([WRAPPED, world.rebasing, world.taxed])
    return _sent(token, world.holders[sender], rng.choice(world.holders), rng.getrandbits(62))


def _unindexed_transfer(turn: Turn) -> Draft:
    """The parties are in the data of the event, so that a search by address does not find it."""
    rng, world, sender = turn
    own, other, amount = world.holders[sender], rng.choice(world.holders), rng.getrandbits(62)
    log = DraftLog(world.unindexed, (TRANSFER,), f"{own}{other[2:]}{amount:064x}")
    call = f"0xa9059cbb{other[2:]}{amount:064x}"
    return Draft(world.unindexed, 0, call, 50_000, (log,))


def _spoof(turn: Turn) -> Draft:
    """Transfers of others' tokens, to addresses that resemble known ones: of nothing, which any
    token allows, or of a token that only pretends."""
    rng, world, _ = turn
    token, amount = rng.choice([(rng.choice(world.tokens), 0), (world.forged, 10**24)])
    logs = []
    for _ in range(rng.randint(1, 5)):
        victim, known = rng.choice(world.holders), rng.choice(world.wallets)
        alike = f"{known[:8]}{rng.getrandbits(112):028x}{known[-6:]}"
        logs.append(DraftLog(token, (TRANSFER, victim, topic(alike)), word(amount)))
    return Draft(world.spammer, 0, "0x9c96eec5", 40_000 * len(logs), tuple(logs))


def _burn(turn: Turn) -> Draft:
    rng, world, sender = turn
    return _sent(rng.choice(world.tokens), world.holders[sender], NOBODY, rng.getrandbits(62))


def _sent(token: str, owner: str, target: str, amount: int) -> Draft:
    log = DraftLog(token, (TRANSFER, owner, target), word(amount))
    return Draft(token, 0, f"0xa9059cbb{target[2:]}{amount:064x}", 51_000, (log,))


# Cumulative shares; the rest are payments.
_ACTS: tuple[tuple[float, Act], ...] = (
    (0.03, failure),
    (0.06, _failed_payment),
    (0.22, token_transfer),
    (0.26, approval),
    (0.32, swap),
    (0.34, deployment),
    (0.36, oddity),
    (0.40, _payment_to_oneself),
    (0.46, _dispersal),
    (0.49, _forwarding),
    (0.52, _stake),
    (0.56, _wrapping),
    (0.60, _unwrapping),
    (0.64, _purchase),
    (0.68, _sale),
    (0.76, _odd_token_transfer),
    (0.78, _unindexed_transfer),
    (0.83, _spoof),
    (0.85, _burn),
)
