"""The rules by which a movement gets its category and flags.

Movements come in the order of their blocks, in pages of any size; the order within a block does
not matter, because a block is sorted before it is classified. Each movement gives one entry for
each of its parties that is a wallet of the group. `docs/concepts/wallets.md` states the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from gapless.chains.movements import NOBODY, NOWHERE, Movement, MovementKind
from gapless.wallets.balances import Asset
from gapless.wallets.categories import Category, Flag, WalletEntry
from gapless.wallets.past import Past, Payee, face

_KINDS = {
    MovementKind.FEE: Category.FEE,
    MovementKind.WRAP: Category.WRAP,
    MovementKind.UNWRAP: Category.WRAP,
    MovementKind.WITHDRAWAL: Category.WITHDRAWAL,
    MovementKind.REWARD: Category.REWARD,
    MovementKind.MINT: Category.MINT,
}
"""Kinds that decide the category. The meaning of the others depends on their transaction."""
PAYMENTS = frozenset(MovementKind) - _KINDS.keys()
"""Kinds by which a wallet pays somebody."""
_WRAPS = frozenset({MovementKind.WRAP, MovementKind.UNWRAP})
EVENTS = frozenset({MovementKind.TOKEN, MovementKind.NFT, MovementKind.MULTI_TOKEN})
"""What contracts report. The protocol itself moves the rest, which cannot be spoofed."""
_NO_FLAGS: frozenset[Flag] = frozenset()
_REMEMBERED_FACES = 1 << 16
_transaction = attrgetter("transaction_index")
_place = attrgetter("transaction_index", "position", "batch_position", "kind")


class _Transaction(NamedTuple):
    """What the movements of one transaction say together; or those of a block that have none."""

    is_signed: bool  # by a wallet of the group
    is_swap: bool
    is_idle: bool  # nothing moved, except a fee
    wrappers: frozenset[bytes]  # the contracts that wrapped or unwrapped coins


class Classifier:
    """Classifies the movements of a group on one chain, and keeps its past up to date.

    The past grows as blocks are classified. Keep it, and a classifier that is created with it
    later continues after the last classified block.
    """

    def __init__(
        self, wallets: frozenset[bytes], past: Past, format_address: Callable[[bytes], str]
    ) -> None:
        self._wallets = wallets
        self._past = past
        self._face = lru_cache(_REMEMBERED_FACES)(lambda address: face(format_address(address)))
        self._own_faces = {self._face(wallet) for wallet in wallets}
        self._block: list[Movement] = []  # the latest, which may continue in the next page
        self._height = NOWHERE  # of that block
        self._lowest = 0  # height that may come next

    def add(self, page: Iterable[Movement]) -> list[WalletEntry]:
        """Return the entries of all blocks but the latest, in the order of the chain."""
        entries: list[WalletEntry] = []
        for movement in page:
            if movement.block_number != self._height:
                if movement.block_number < self._lowest:
                    raise ValueError("movements must come in the order of their blocks")
                self._classify_block(entries)
                self._height = self._lowest = movement.block_number
            self._block.append(movement)
        return entries

    def finish(self) -> list[WalletEntry]:
        """Return the entries of the latest block."""
        entries: list[WalletEntry] = []
        self._classify_block(entries)
        self._lowest = max(self._lowest, self._height + 1)
        self._height = NOWHERE
        return entries

    def _classify_block(self, entries: list[WalletEntry]) -> None:
        block, self._block = self._block, []
        block.sort(key=_place)
        for _, group in groupby(block, _transaction):
            movements = [*group]
            transaction = self._transaction(movements)
            for movement in movements:
                self._classify(movement, transaction, entries)

    def _transaction(self, movements: Sequence[Movement]) -> _Transaction:
        is_signed = movements[0].initiator in self._wallets
        moving = [it for it in movements if it.amount and it.kind is not MovementKind.FEE]
        wrappers = frozenset(
            [it.token for it in moving if it.kind in _WRAPS and it.token != NOBODY]
        )
        is_swap = is_signed and len(moving) > 1 and self._is_swap(moving, wrappers)
        return _Transaction(is_signed, is_swap, not moving, wrappers)

    def _is_swap(self, moving: Sequence[Movement], wrappers: frozenset[bytes]) -> bool:
        """Whether the group, as a whole, gave some token and got another."""
        net: defaultdict[tuple[bytes, int | None], int] = defaultdict(int)
        for it in moving:
            if it.kind not in _KINDS and not _is_wrapped_coin(it, wrappers):
                got = (it.receiver in self._wallets) - (it.sender in self._wallets)
                net[it.token, it.token_id] += got * it.amount
        return min(net.values(), default=0) < 0 < max(net.values(), default=0)

    def _classify(
        self, it: Movement, transaction: _Transaction, entries: list[WalletEntry]
    ) -> None:
        is_sent, is_received = it.sender in self._wallets, it.receiver in self._wallets
        category = self._category(it, transaction, is_sent, is_received)
        if is_sent:
            is_self = it.sender == it.receiver
            entries.append(self._entry(it, category, it.sender, it.receiver, 0 if is_self else -1))
            if transaction.is_signed and it.amount and it.kind in PAYMENTS and not is_received:
                self._remember_payee(it)
            if is_self:
                return
        if is_received:
            entries.append(self._entry(it, category, it.receiver, it.sender, 1))

    def _category(
        self, it: Movement, transaction: _Transaction, is_sent: bool, is_received: bool
    ) -> Category:
        if it.kind in _KINDS:
            is_approval = it.kind is MovementKind.FEE and it.is_approval and transaction.is_idle
            return Category.APPROVAL if is_approval else _KINDS[it.kind]
        if transaction.wrappers and _is_wrapped_coin(it, transaction.wrappers):
            return Category.WRAP
        if is_sent and not transaction.is_signed and self._is_spoof(it):
            return Category.SPOOF
        if is_sent and is_received:
            return Category.BETWEEN
        if transaction.is_swap and it.amount:
            return Category.SWAP
        # Of what moved within transactions, the other party may just not be known.
        with_nobody = NOBODY in (it.sender, it.receiver) and it.kind is not MovementKind.INTERNAL
        if is_sent:
            return Category.BURN if with_nobody else Category.OUT
        return Category.MINT if with_nobody else Category.IN

    def _is_spoof(self, it: Movement) -> bool:
        """Whether the sender cannot have sent this, given that it did not sign for it."""
        if it.kind not in EVENTS or not it.amount:
            return it.kind in EVENTS
        held = self._past.sums[Asset(it.sender, it.token, it.token_id)]
        return it.amount > held and it.sender not in self._past.incomplete

    def _entry(
        self, it: Movement, category: Category, wallet: bytes, other: bytes, direction: int
    ) -> WalletEntry:
        flags = _NO_FLAGS
        if not it.amount:
            flags |= {Flag.ZERO_VALUE}
        if not direction:
            flags |= {Flag.SELF}
        if self._is_lookalike(wallet, other):
            flags |= {Flag.LOOKALIKE}
        self._past.sums.change(Asset(wallet, it.token, it.token_id), direction * it.amount)
        return WalletEntry(
            wallet=wallet, movement=it.key, direction=direction, category=category, flags=flags
        )

    def _is_lookalike(self, wallet: bytes, other: bytes) -> bool:
        if other == NOBODY or other in self._wallets:
            return False
        shown = self._face(other)
        payees = self._past.payees.get(wallet)
        payee = payees.get(shown) if payees else None
        return shown in self._own_faces or (payee is not None and payee.address != other)

    def _remember_payee(self, it: Movement) -> None:
        if it.receiver != NOBODY:
            payee = Payee(it.receiver, it.block_number)
            self._past.pay(it.sender, self._face(it.receiver), payee)


def _is_wrapped_coin(it: Movement, wrappers: frozenset[bytes]) -> bool:
    """Whether coins went to a contract that wraps them, or came back from it."""
    return it.token == NOBODY and (it.sender in wrappers or it.receiver in wrappers)
