"""Prove that a block is the one its chain committed to, by the header's hash and the roots in it.

Each function takes a block and returns whether the proof was possible. If it raises `NoEncoding`,
the proof was not possible either: an encoding is unknown, or the node does not return all of its
fields, which does not mean that the block is wrong. If the proof fails, it raises `BadBlock`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks import consistency
from gapless.chains.evm.checks.block_under_check import BlockUnderCheck
from gapless.chains.evm.codec import encoding
from gapless.chains.evm.codec.header import NOTHING_MORE, header_hash
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.trie import ordered_root
from gapless.chains.evm.decode.structs import Header, Transaction, is_given

_members = msgspec.json.Decoder(dict[str, Raw]).decode


def header(it: BlockUnderCheck) -> bool:
    actual = header_hash(it.block, it.network.header, _more(it.block))
    if not _is(it.block.hash, actual):
        it.refuse(Check.HEADER_HASH, f"its header hashes to 0x{actual.hex()}")
    return True


def receipts(it: BlockUnderCheck) -> bool:
    rooted = it.rooted_receipts
    if rooted is None:
        return False
    if it.height < it.network.byzantium and any(each.root is None for each in rooted):
        return False
    root = ordered_root([encoding.receipt(each) for each in rooted])
    if not _is(it.block.receipts_root, root):
        _explain(it)
        it.refuse(Check.RECEIPTS_ROOT, f"its {len(rooted)} receipts have the root 0x{root.hex()}")
    return True


def transactions(it: BlockUnderCheck) -> bool:
    """Prove the transactions root and the hash of every transaction."""
    rooted = it.rooted_transactions
    if rooted is None:
        return False
    _types(it, rooted)
    encoded = [encoding.transaction(each) for each in rooted]
    root = ordered_root(encoded)
    if not _is(it.block.transactions_root, root):
        finding = f"its {len(rooted)} transactions have the root 0x{root.hex()}"
        it.refuse(Check.TRANSACTIONS_ROOT, finding)
    for position, (raw, transaction) in enumerate(zip(encoded, rooted, strict=True)):
        if not _is(transaction.hash, keccak(raw)):
            finding = f"transaction {position} hashes to 0x{keccak(raw).hex()}"
            it.refuse(Check.TRANSACTIONS_ROOT, finding)
    return True


def _types(it: BlockUnderCheck, rooted: Sequence[Transaction]) -> None:
    """Check that each transaction has the type of its receipt.

    The receipts root covers the types of receipts. So a node cannot avoid the proof of a
    transaction by giving it an unknown type.
    """
    for position, (transaction, receipt) in enumerate(
        zip(rooted, it.rooted_receipts or (), strict=False)
    ):
        if None not in (receipt.type, transaction.type) and receipt.type != transaction.type:
            finding = f"transaction {position} has type {transaction.type}, but its receipt has"
            it.refuse(Check.TRANSACTIONS_ROOT, f"{finding} type {receipt.type}")


def withdrawals(it: BlockUnderCheck) -> bool:
    root, listed = it.block.withdrawals_root, it.block.withdrawals
    if (root is None) is not (listed is None):
        it.refuse(Check.WITHDRAWALS_ROOT, "it has withdrawals or their root, but not both")
    if root is None or listed is None:
        return True
    actual = ordered_root([encoding.withdrawal(each) for each in listed])
    if not _is(root, actual):
        finding = f"its {len(listed)} withdrawals have the root 0x{actual.hex()}"
        it.refuse(Check.WITHDRAWALS_ROOT, finding)
    return True


def _explain(it: BlockUnderCheck) -> None:
    """Refuse the block by a cheaper check if one fails too: it is more specific than a root."""
    consistency.gas(it)
    consistency.receipt_blooms(it)
    consistency.bloom(it)


def _is(claimed: str, actual: bytes) -> bool:
    return claimed[2:].lower() == actual.hex()


def _more(block: Header) -> Mapping[str, Any]:
    """Return the keys that the decoder does not declare, if it kept them.

    A value that is neither text nor null remains raw: no header has one, and it can be anything.
    """
    if not is_given(block.extra):
        return NOTHING_MORE
    return {key: _text(value) for key, value in _members(block.extra).items()}


def _text(raw: Raw) -> Any:
    if bytes(memoryview(raw)[:1]) in (b'"', b"n"):
        return msgspec.json.decode(raw)
    return raw
