"""One block of a simulated EVM chain: generated, encoded, hashed and rendered as a node does.

Signatures are random: every hash and root is correct, but no signature recovers to `from`.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from gapless.chains.evm.codec.hexrlp import listed, number, packed
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.trie import ordered_root
from gapless.devnode.building import BlockNames, Built, Parameters
from gapless.devnode.evm.accounts import Accounts
from gapless.devnode.evm.contents import Author, PaidWithdrawal
from gapless.devnode.evm.dialect import EvmDialect
from gapless.devnode.evm.economy import ECONOMY_VERSION
from gapless.devnode.evm.envelopes import GAS_PER_BLOB, Envelope
from gapless.devnode.evm.headers import Head, encoded_header, header_json
from gapless.devnode.evm.outcomes import receipts_of

GENESIS_TIME = 1_700_000_000
BLOCK_TIME = 12


class _Named(Struct, gc=False):
    hash: str


class _Names(Struct, gc=False):
    hash: str
    transactions: list[_Named]


_names = msgspec.json.Decoder(_Names).decode


class EvmBuilder:
    """Builds the blocks of a chain."""

    version = 1
    folder = "devnode"
    no_parent = f"0x{0:064x}"
    derives_chain_id = False

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        if parameters.economy:
            self.version = ECONOMY_VERSION
        self._author = Author(parameters)
        self.dialect = EvmDialect(Accounts(self._author) if parameters.economy else None)

    def build(self, height: int, parent: str, branch: int = 0) -> Built:
        """The block at a height of a branch, above the parent with this hash."""
        rng = self.parameters.chance(branch, height)
        _, fees, envelopes, withdrawals, miner = self._author.contents(rng, height)
        receipts = receipts_of(envelopes)
        head = Head(
            parent=parent,
            height=hex(height),
            time=hex(GENESIS_TIME + BLOCK_TIME * height),
            miner=miner[2:],
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
        return Built(own, block.encode(), receipts_json.encode(), branch)

    def chain_id(self, genesis: str) -> int:
        return self.parameters.chain_id

    def names(self, block: bytes) -> BlockNames:
        found = _names(block)
        return BlockNames(found.hash, [each.hash for each in found.transactions])


_WITHDRAWAL = '{"index":"%s","validatorIndex":"%s","address":"%s","amount":"%s"}'


def _encoded(it: PaidWithdrawal) -> bytes:
    text = f"{number(it.number)}{number(it.validator)}94{it.address[2:]}{number(it.amount)}"
    return packed(listed(text))


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
