"""What a simulated EVM block contains, before it is encoded: transactions, withdrawals, a miner."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from gapless.devnode.building import Parameters
from gapless.devnode.evm.drafts import Draft, Turn, World, draft
from gapless.devnode.evm.economy import SIGNERS, Slots, economic_draft
from gapless.devnode.evm.envelopes import Envelope, Fees, sealed

_MOST_BLOBS = 9
_WITHDRAWALS = 4  # in every third block
_WITHDRAWALS_EVERY = 3
_MINED_BY_WALLETS = 4  # with an economy, one block in this many


class PaidWithdrawal(NamedTuple):
    """What a validator withdraws; all numbers are in hex."""

    number: str
    validator: str
    address: str
    amount: str  # in Gwei


class Contents(NamedTuple):
    """What a block contains."""

    height: int
    fees: Fees
    envelopes: list[Envelope]
    withdrawals: list[PaidWithdrawal]
    miner: str


class Author:
    """Draws the contents of a chain's blocks."""

    def __init__(self, parameters: Parameters) -> None:
        self.world = World(parameters.seed)
        self._parameters = parameters
        self.chance = parameters.chance
        self._slots = Slots(parameters) if parameters.economy else None

    def contents(self, rng: Random, height: int) -> Contents:
        """The contents of the block at a height, drawn from the block's own generator."""
        fees = Fees(self._parameters.chain_id, 8_000_000_000 + rng.getrandbits(33))
        envelopes = self._envelopes(rng, height, fees)
        return Contents(height, fees, envelopes, self._withdrawals(height), self._miner(rng))

    def _envelopes(self, rng: Random, height: int, fees: Fees) -> list[Envelope]:
        envelopes, blobs = list[Envelope](), _MOST_BLOBS
        for did, sender, nonce in self._drafts(rng, height):
            account = (self.world.wallets[sender], nonce)
            envelope = sealed(did, rng, account, fees, blobs)
            blobs -= envelope.blobs
            envelopes.append(envelope)
        return envelopes

    def _drafts(self, rng: Random, height: int) -> Iterator[tuple[Draft, int, int]]:
        """Drafts with the number of their sender and its nonce.

        Wallets take turns, so no state has to be carried from block to block.
        """
        world, most = self.world, self._parameters.txs
        if self._slots is not None:
            for slot in self._slots.of(height):
                nonce, sender = divmod(slot, SIGNERS)
                yield economic_draft(Turn(rng, world, sender), slot), sender, nonce
            return
        for at in range(self._parameters.transactions(rng, height)):
            nonce, sender = divmod(height * most + at, len(world.wallets))
            yield draft(Turn(rng, world, sender)), sender, nonce

    def _withdrawals(self, height: int) -> list[PaidWithdrawal]:
        if height == 0 or height % _WITHDRAWALS_EVERY:
            return []
        first = height // _WITHDRAWALS_EVERY * _WITHDRAWALS
        wallets = self.world.wallets
        return [
            PaidWithdrawal(
                hex(at),
                hex(at % 900_000),
                wallets[at * 7 % len(wallets)],
                hex(10_000_000 + at * 13),
            )
            for at in range(first, first + _WITHDRAWALS)
        ]

    def _miner(self, rng: Random) -> str:
        bits = rng.getrandbits(160)
        if self._slots is not None and bits % _MINED_BY_WALLETS == 0:
            return self.world.wallets[(bits >> 8) % len(self.world.wallets)]
        return f"0x{bits:040x}"
