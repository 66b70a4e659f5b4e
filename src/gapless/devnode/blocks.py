"""One block of the simulated chain: generated, encoded, hashed and rendered as a node does.

A block depends only on the parameters, its branch, its height and its parent's hash. So the chain
can be extended from any block: this is how its head grows and how a reorganisation gets another
valid tail.

Signatures are random: every hash and root is correct, but no signature recovers to `from`.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from gapless.chains.evm.codec.hexrlp import listed, number, packed
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.trie import ordered_root
from gapless.devnode.drafts import Turn, World, draft
from gapless.devnode.envelopes import GAS_PER_BLOB, Envelope, Fees, sealed
from gapless.devnode.headers import Head, encoded_header, header_json
from gapless.devnode.outcomes import receipts_of

GENESIS_TIME = 1_700_000_000
BLOCK_TIME = 12
NO_PARENT = f"0x{0:064x}"

_MOST_BLOBS = 9
_WITHDRAWALS = 4  # in every third block
_WITHDRAWALS_EVERY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a simulated chain is made from; equal parameters make equal chains."""

    blocks: int = 1000  # the height of the head; block 0 is the genesis
    txs: int = 5  # transactions per block, at most
    fewest: int | None = None  # and at least; None: always `txs`
    empty_every: int = 16  # one block in this many has no transactions; 0: never
    seed: int = 0
    chain_id: int = 1337


class Built(NamedTuple):
    """A block and its receipts as the node answers them, in JSON."""

    hash: str
    block: bytes
    receipts: bytes


class Builder:
    """Builds the blocks of a chain."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._world = World(parameters.seed)

    def build(self, height: int, parent: str, branch: int = 0) -> Built:
        """The block at a height of a branch, above the parent with this hash."""
        rng = Random(_key(self.parameters.seed, branch, height))
        fees = Fees(self.parameters.chain_id, 8_000_000_000 + rng.getrandbits(33))
        envelopes = self._envelopes(rng, height, fees)
        receipts, withdrawals = receipts_of(envelopes), self._withdrawals(height)
        head = Head(
            parent=parent,
            height=hex(height),
            time=hex(GENESIS_TIME + BLOCK_TIME * height),
            miner=f"{rng.getrandbits(160):040x}",
            noise=tuple(f"{rng.getrandbits(256):064x}" for _ in range(3)),
            roots=(
                ordered_root([each.encoded for each in envelopes]).hex(),
                ordered_root(receipts.encoded).hex(),
                ordered_root([_encoded(each) for each in withdrawals]).hex(),
            ),
            bloom=f"{receipts.bits:0512x}",
            gas_used=hex(receipts.gas_used),
            base_fee=hex(fees.base_fee),
            blob_gas=hex(GAS_PER_BLOB * sum(each.blobs for each in envelopes)),
        )
        header = encoded_header(head)
        own = f"0x{keccak(header).hex()}"
        size = len(header) + sum(len(each.encoded) + 3 for each in envelopes)
        block = (
            f'{{{header_json(head)},"hash":"{own}","size":"{size:#x}",'
            f'"transactions":[{_transactions(head, own, envelopes)}],"uncles":[],'
            f'"withdrawals":[{",".join([_WITHDRAWAL % each for each in withdrawals])}]}}'
        )
        receipts_json = receipts.rendered(own, head.height, head.time)
        return Built(own, block.encode(), receipts_json.encode())

    def _envelopes(self, rng: Random, height: int, fees: Fees) -> list[Envelope]:
        world, most = self._world, self.parameters.txs
        wallets, envelopes, blobs = len(world.wallets), [], _MOST_BLOBS
        for at in range(self._count(rng, height)):
            # Wallets take turns, so no state has to be carried from block to block.
            nonce, sender = divmod(height * most + at, wallets)
            did = draft(Turn(rng, world, sender))
            envelope = sealed(did, rng, (world.wallets[sender], nonce), fees, blobs)
            blobs -= envelope.blobs
            envelopes.append(envelope)
        return envelopes

    def _count(self, rng: Random, height: int) -> int:
        it = self.parameters
        if height == 0 or (it.empty_every and height % it.empty_every == 0):
            return 0
        return it.txs if it.fewest is None else rng.randint(it.fewest, it.txs)

    def _withdrawals(self, height: int) -> list[tuple[str, str, str, str]]:
        if height == 0 or height % _WITHDRAWALS_EVERY:
            return []
        first = height // _WITHDRAWALS_EVERY * _WITHDRAWALS
        wallets = self._world.wallets
        return [
            (hex(at), hex(at % 900_000), wallets[at * 7 % len(wallets)], hex(10_000_000 + at * 13))
            for at in range(first, first + _WITHDRAWALS)
        ]


_WITHDRAWAL = '{"index":"%s","validatorIndex":"%s","address":"%s","amount":"%s"}'


def _encoded(withdrawal: tuple[str, str, str, str]) -> bytes:
    index, validator, account, amount = withdrawal
    return packed(listed(f"{number(index)}{number(validator)}94{account[2:]}{number(amount)}"))


def _transactions(head: Head, own: str, envelopes: list[Envelope]) -> str:
    place = f'"blockHash":"{own}","blockNumber":"{head.height}","blockTimestamp":"{head.time}"'
    return ",".join(
        [
            f'{{"type":"{each.type}","hash":"{each.hash}",{place},'
            f'"transactionIndex":"{at:#x}",{each.fields}}}'
            for at, each in enumerate(envelopes)
        ]
    )


def _key(seed: int, branch: int, height: int) -> int:
    name = f"{seed}:{branch}:{height}".encode()
    return int.from_bytes(blake2b(name, digest_size=16).digest(), "big")
