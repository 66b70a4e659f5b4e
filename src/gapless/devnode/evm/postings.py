"""What the contents of a block did to balances, and what caused it.

Contracts keep books: most of them post what their events say, some post something else. This is
the truth of a simulated chain, with which a history that was found by other means is compared.
Therefore it uses nothing of `chains`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from gapless.devnode.evm.contents import Contents
from gapless.devnode.evm.drafts import (
    NOBODY,
    TRANSFER,
    TRANSFER_BATCH,
    TRANSFER_SINGLE,
    DraftLog,
    World,
)
from gapless.devnode.evm.economy import COIN, DEPOSIT, WITHDRAWAL, WRAPPED, allocations
from gapless.devnode.evm.envelopes import BLOB_GAS_PRICE, GAS_PER_BLOB, Envelope
from gapless.devnode.evm.outcomes import created

BLOCK_REWARD = 2 * 10**18
"""What the miner of each block gets beside the tips."""
_GWEI = 10**9
_TAX = 50  # one in this many
_WORD = 64  # hex digits


class Cause(StrEnum):
    """What changed a balance."""

    VALUE = "value"  # of a transaction
    FEE = "fee"
    WITHDRAWAL = "withdrawal"  # from a validator
    EVENT = "event"  # of a token
    WRAPPING = "wrapping"  # of coins, in tokens and in the coins of a call that the event proves
    ALLOCATION = "allocation"  # at the start
    CALL = "call"  # within a transaction
    REWARD = "reward"  # of a miner
    REBASE = "rebase"  # a token changed all balances
    TAX = "tax"  # a token gave the receiver less than its event says
    UNINDEXED = "unindexed"  # an event that a search by address does not find
    FORGERY = "forgery"  # the opposite of an event that pretends


VISIBLE = frozenset({Cause.VALUE, Cause.FEE, Cause.WITHDRAWAL, Cause.EVENT, Cause.WRAPPING})
"""What blocks and receipts show, if the wrapping contract is known."""


class PostedAsset(NamedTuple):
    """What an account can have: coins, a token, or the item of a token with this id."""

    token: str
    item: int | None = None


COINS = PostedAsset(COIN)


class Posting(NamedTuple):
    """A change of a balance."""

    account: str
    asset: PostedAsset
    amount: int
    cause: Cause


def postings(contents: Contents, world: World) -> Iterator[Posting]:
    """All changes of balances in a block, in order, except rebases."""
    if contents.height == 0:
        for account, token, amount in allocations(world):
            yield Posting(account, PostedAsset(token), amount, Cause.ALLOCATION)
    for envelope in contents.envelopes:
        yield from _transaction(envelope, contents, world)
    for each in contents.withdrawals:
        yield Posting(each.address, COINS, int(each.amount, 16) * _GWEI, Cause.WITHDRAWAL)
    yield Posting(contents.miner, COINS, BLOCK_REWARD, Cause.REWARD)


def _transaction(it: Envelope, contents: Contents, world: World) -> Iterator[Posting]:
    gas, price = it.draft.gas_used, int(it.price, 16)
    fee = gas * price + it.blobs * GAS_PER_BLOB * int(BLOB_GAS_PRICE, 16)
    yield Posting(it.sender, COINS, -fee, Cause.FEE)
    tip = gas * (price - contents.fees.base_fee)
    yield Posting(contents.miner, COINS, tip, Cause.REWARD)
    if not it.draft.succeeds:
        return
    receiver = it.draft.to or created(it)
    assert receiver is not None
    yield from _moved(COINS, (it.sender, receiver), it.draft.value, Cause.VALUE)
    for call in it.draft.calls:
        # Events prove the calls from and to the wrapping contract.
        cause = Cause.WRAPPING if WRAPPED in (call.sender, call.receiver) else Cause.CALL
        yield from _moved(COINS, (call.sender, call.receiver), call.value, cause)
    for log in it.draft.logs:
        yield from _event(log, world)


def _event(log: DraftLog, world: World) -> Iterator[Posting]:
    """What a contract posts when it emits an event."""
    match log.topics:
        case (topic, holder) if log.address == WRAPPED and topic in (DEPOSIT, WITHDRAWAL):
            change = int(log.data, 16) if topic == DEPOSIT else -int(log.data, 16)
            yield Posting(_account(holder), PostedAsset(WRAPPED), change, Cause.WRAPPING)
        case (topic, owner, target) if topic == TRANSFER:
            yield from _transfer(log.address, (owner, target), int(log.data, 16), world)
        case (topic,) if topic == TRANSFER:
            owner, target, sent = _words(log.data)
            asset, parties = PostedAsset(log.address), (_account(owner), _account(target))
            yield from _moved(asset, parties, int(sent, 16), Cause.UNINDEXED)
        case (topic, owner, target, number) if topic == TRANSFER:
            asset = PostedAsset(log.address, int(number, 16))
            yield from _moved(asset, (_account(owner), _account(target)), 1, Cause.EVENT)
        case (topic, _, owner, target) if topic in (TRANSFER_SINGLE, TRANSFER_BATCH):
            numbers = [int(each, 16) for each in _words(log.data)]
            if topic == TRANSFER_BATCH:
                numbers = [*numbers[3 : 3 + numbers[2]], *numbers[4 + numbers[2] :]]
            half, parties = len(numbers) // 2, (_account(owner), _account(target))
            for item, amount in zip(numbers[:half], numbers[half:], strict=True):
                yield from _moved(PostedAsset(log.address, item), parties, amount, Cause.EVENT)


def _transfer(token: str, topics: tuple[str, str], amount: int, world: World) -> Iterator[Posting]:
    asset, (owner, target) = PostedAsset(token), map(_account, topics)
    yield from _moved(asset, (owner, target), amount, Cause.EVENT)
    if token == world.forged:
        yield from _moved(asset, (owner, target), -amount, Cause.FORGERY)
    if token == world.taxed:
        yield from _moved(asset, (target, world.treasury), amount // _TAX, Cause.TAX)


def _moved(
    asset: PostedAsset, parties: tuple[str, str], amount: int, cause: Cause
) -> Iterator[Posting]:
    """Nobody has what was destroyed, or was not created yet."""
    for account, change in zip(parties, (-amount, amount), strict=True):
        if account != _NOBODY:
            yield Posting(account, asset, change, cause)


def _account(topic: str) -> str:
    return f"0x{topic[-40:]}"


_NOBODY = _account(NOBODY)


def _words(data: str) -> list[str]:
    return [data[at : at + _WORD] for at in range(2, len(data), _WORD)]
