"""Items of an economy: tokens with an id, of ERC-721 and ERC-1155 contracts.

Only the owner of an item can pass it on, but blocks are drafted without a state. So an item has a
life of two turns: an account creates it at one turn, and passes it on at its next. Both follow
from the number of the turn alone: a block whose branch replaced that of the creation still finds
the item with its owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from gapless.devnode.evm.drafts import (
    NOBODY,
    TRANSFER,
    TRANSFER_BATCH,
    TRANSFER_SINGLE,
    Draft,
    DraftLog,
    World,
    word,
)

_CREATED_ONCE_IN = 6  # of the turns at which an account may create an item
_BURNED_ONCE_IN = 6  # of the items that are passed on
_MINT, _MINT_MULTI, _MINT_BATCH = "40c10f19", "731133e9", "1f7fdffa"
_SEND, _SEND_MULTI, _SEND_BATCH = "23b872dd", "f242432a", "2eb2c2d6"


def crafted(world: World, slot: int, signers: int) -> Draft | None:
    """What the account of a turn does with an item, if it does anything.

    Accounts create items at their first, third, fifth … turn, and pass them on at the next.
    """
    turn, sender = divmod(slot, signers)
    created = slot if turn % 2 == 0 else slot - signers
    name = f"{world.seed}:item:{created}".encode()
    lot = int.from_bytes(blake2b(name, digest_size=8).digest(), "big")
    if lot % _CREATED_ONCE_IN:
        return None
    own, other = world.holders[sender], world.holders[lot >> 8 & 255]
    if created == slot:
        return _moved(world, lot, slot, (own, NOBODY, own))
    burned = (lot >> 16) % _BURNED_ONCE_IN == 0
    return _moved(world, lot, created, (own, own, NOBODY if burned else other))


def _moved(world: World, lot: int, created: int, parties: tuple[str, str, str]) -> Draft:
    """An item, or several, go from one account to another; who asked for it comes first."""
    _, owner, target = parties
    is_new = owner == NOBODY
    bits = lot >> 24
    if bits & 1:
        where = world.collections[(bits >> 8) % len(world.collections)]
        item = word(created + 1)
        log = DraftLog(where, (TRANSFER, owner, target, item), "0x")
        call = f"{_MINT if is_new else _SEND}{owner[2:]}{target[2:]}{item[2:]}"
        return Draft(where, 0, f"0x{call}", 62_000, (log,))
    where = world.bazaars[(bits >> 8) % len(world.bazaars)]
    first, amount = (bits >> 16) % len(world.ids), 2 + (bits >> 26) % 1000
    if bits & 2:
        amount = amount if is_new else amount // 2  # the owner keeps the rest
        item = world.ids[first]
        log = DraftLog(where, (TRANSFER_SINGLE, *parties), f"{item}{amount:064x}")
        call = f"{_MINT_MULTI if is_new else _SEND_MULTI}{owner[2:]}{target[2:]}{item[2:]}"
        return Draft(where, 0, f"0x{call}{amount:064x}{0xA0:064x}{0:064x}", 58_000, (log,))
    # An id may be repeated in a batch.
    items = [world.ids[(first + at) % len(world.ids)] for at in (0, 1, 1)]
    lists = f"{_listed(items)}{_listed([word(amount + at) for at in range(3)])}"
    log = DraftLog(where, (TRANSFER_BATCH, *parties), f"0x{0x40:064x}{0xC0:064x}{lists}")
    call = f"{_MINT_BATCH if is_new else _SEND_BATCH}{owner[2:]}{target[2:]}"
    heads = f"{0xA0:064x}{0x120:064x}{0x1A0:064x}"
    return Draft(where, 0, f"0x{call}{heads}{lists}{0:064x}", 97_000, (log,))


def _listed(words: Sequence[str]) -> str:
    return f"{len(words):064x}{''.join(each[2:] for each in words)}"
