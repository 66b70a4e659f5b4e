"""One block of a simulated EVM chain: generated, encoded, hashed and rendered as a node does.

Signatures are random: every hash and root is correct, but no signature recovers to `from`.
"""

from __future__ import annotations

from random import Random

import msgspec
from msgspec import Struct

from gapless.chains.evm.codec.hexrlp import listed, number, packed
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.trie import ordered_root
from gapless.devnode.building import BlockNames, Built, Parameters
from gapless.devnode.evm.dialect import EVM_DIALECT
from gapless.devnode.evm.drafts import Turn, World, draft
from gapless.devnode.evm.envelopes import GAS_PER_BLOB, Envelope, Fees, sealed
from gapless.devnode.evm.headers import Head, encoded_header, header_json
from gapless.devnode.evm.outcomes import receipts_of

GENESIS_TIME = 1_700_000_000
BLOCK_TIME = 12

_MOST_BLOBS = 9
_WITHDRAWALS = 4  # in every third block
_WITHDRAWALS_EVERY = 3


class _Named(Struct, gc=False):
    hash: str


class _Names(Struct, gc=False):
    hash: str
    transactions: list[_Named]


_names = msgspec.json.Decoder(_Names).decode


class EvmBuilder:
    """Builds the blocks of a chain."""

    dialect = EVM_DIALECT
    version = 1
    folder = "devnode"
    no_parent = f"0x{0:064x}"
    derives_chain_id = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._world = World(parameters.seed)

    def build(self, height: int, parent: str, branch: int = 0) -> Built:
        """The block at a height of a branch, above the parent with this hash."""
        rng = self.parameters.chance(branch, height)
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

    def chain_id(self, genesis: str) -> int:
        return self.parameters.chain_id

    def names(self, block: bytes) -> BlockNames:
        found = _names(block)
        return BlockNames(found.hash, [each.hash for each in found.transactions])

    def _envelopes(self, rng: Random, height: int, fees: Fees) -> list[Envelope]:
        world, most = self._world, self.parameters.txs
        wallets, envelopes, blobs = len(world.wallets), [], _MOST_BLOBS
        for at in range(self.parameters.transactions(rng, height)):
            # Wallets take turns, so no state has to be carried from block to block.
            nonce, sender = divmod(height * most + at, wallets)
            did = draft(Turn(rng, world, sender))
            envelope = sealed(did, rng, (world.wallets[sender], nonce), fees, blobs)
            blobs -= envelope.blobs
            envelopes.append(envelope)
        return envelopes

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


def builder_above(chain_id: int) -> EvmBuilder:
    """Builds on a chain that was not simulated."""
    return EvmBuilder(Parameters(chain_id=chain_id))
