"""A block under check, with everything that the checks need to know about it.

This is more than the block because of Polygon: in some blocks, its client Bor appends a transaction
that transfers state from Ethereum, with a receipt. Neither is included in the roots, the bloom or
the gas. The transaction is recognized by its hash, which is derived from the block's. The checks of
roots use the lists without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.decode.structs import Block, Header, LightBlock, Receipt, Transaction
from gapless.chains.evm.networks import EvmNetwork
from gapless.core.errors import BadBlock
from gapless.core.remedies import LowerLevel

_MEANINGS: dict[Check, str] = {
    Check.HEIGHT: "the node returned a different block than the one requested",
    Check.LINK: "one of the two blocks belongs to another branch of the chain",
    Check.COUNTS: "receipts are missing, or belong to another block",
    Check.PLACES: "transactions or receipts belong to another block, or are out of order",
    Check.EMPTY: "the node returned an empty list for one that is not empty, or the reverse",
    Check.GAS: "receipts are missing, or belong to another block",
    Check.RECEIPT_BLOOMS: "logs are missing, added or altered",
    Check.BLOOM: "logs are missing, added or altered",
    Check.HEADER_HASH: "a field of the header is missing or altered",
    Check.RECEIPTS_ROOT: "receipts or logs are missing, added or altered",
    Check.TRANSACTIONS_ROOT: "transactions are missing, added or altered",
    Check.WITHDRAWALS_ROOT: "withdrawals are missing, added or altered",
    Check.DERIVED: "a field contradicts the proven fields that determine it",
    Check.PRICES: "a price does not follow from the fees and the base fee",
    Check.LOG_INDEX: "logs are missing or out of order",
    Check.SENDERS: "a sender was altered",
    Check.ANCHOR: "the node is on another chain, or on an abandoned branch of it",
    Check.AGREED: "one of them omits, adds or alters logs",
}


class BlockUnderCheck(NamedTuple):
    """A block and its receipts (None: not requested), and both lists as the roots cover them."""

    network: EvmNetwork
    height: int
    supported: frozenset[str]
    block: Block | LightBlock
    hashes: Sequence[str]  # of all transactions
    receipts: Sequence[Receipt] | None
    rooted_count: int
    rooted_transactions: Sequence[Transaction] | None  # None: only their hashes are known
    rooted_receipts: Sequence[Receipt] | None

    def refuse(self, check: Check, finding: str) -> NoReturn:
        refuse(self.network, self.height, check, finding)

    @property
    def has_unrooted(self) -> bool:
        """Whether the roots do not cover one of the transactions."""
        return self.rooted_count < len(self.hashes)


def refuse(network: EvmNetwork, height: int, check: Check, finding: str) -> NoReturn:
    raise refusal(network, height, check, finding)


def refusal(network: EvmNetwork, height: int, check: Check, finding: str) -> BadBlock:
    """Return the error with the height, the failed check, the finding, and what it means."""
    return BadBlock(
        f"block {height:,} of `{network.name}` fails the check `{check}`: {finding}; "
        f"{_MEANINGS[check]}",
        height=height,
        check=check,
        remedy=LowerLevel(),
    )


def block_under_check(
    block: Block | LightBlock, receipts: Sequence[Receipt] | None, network: EvmNetwork, height: int
) -> BlockUnderCheck:
    transactions: Sequence[Transaction] | None = None
    if isinstance(block, Block):
        transactions = block.transactions
        hashes: Sequence[str] = [each.hash for each in transactions]
    else:
        hashes = block.transactions
    rooted, rooted_receipts, count = transactions, receipts, len(hashes)
    if network.sprint and hashes and hashes[-1] == _sync_hash(block, height):
        count -= 1
        rooted = rooted and rooted[:-1]
        rooted_receipts = receipts and [it for it in receipts if it.transaction_hash != hashes[-1]]
    return BlockUnderCheck(
        network=network,
        height=height,
        supported=network.checks_at(height),
        block=block,
        hashes=hashes,
        receipts=receipts,
        rooted_count=count,
        rooted_transactions=rooted,
        rooted_receipts=rooted_receipts,
    )


def _sync_hash(block: Header, height: int) -> str:
    """Return the hash that Bor gives to the block's state-sync transaction."""
    try:
        key = b"matic-bor-receipt-" + height.to_bytes(8, "big") + bytes.fromhex(block.hash[2:])
    except ValueError:
        return ""
    return f"0x{keccak(key).hex()}"
