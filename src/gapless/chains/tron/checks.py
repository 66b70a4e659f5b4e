"""Check a TRON block for consistency, and against what its chain committed to.

A block's id proves its header, and a transaction's id proves the transaction. That the block has
exactly these transactions is proven by the root in the header, where the root can be recomputed: a
node's JSON leaves out fields that the node does not know, so honest answers can have another root.
Such a block is stored, and the root is recorded as unproven. Nothing on the chain covers infos and
their logs. That two endpoints return the same proves nothing either, but no better check exists.

A check that fails raises `BadBlock`, and the block must not be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from msgspec.structs import replace

from gapless.chains.network import Network
from gapless.chains.tron.address import without_version
from gapless.chains.tron.answers import InfoAnswer
from gapless.chains.tron.check_names import TronCheck
from gapless.chains.tron.hashing import NO_TRANSACTIONS, block_id, merkle_root, transaction_id
from gapless.chains.tron.parsed import ParsedTronBlock
from gapless.core.errors import BadBlock
from gapless.core.proof import Proof
from gapless.core.remedies import LowerLevel

_MEANINGS = {
    TronCheck.HEIGHT: "the node returned a different block than the one requested",
    TronCheck.WITNESS: "a field of the header is missing or altered",
    TronCheck.EMPTY: "the node returned an empty list for one that is not empty, or the reverse",
    TronCheck.COUNTS: "infos are missing, or belong to another block",
    TronCheck.PLACES: "infos belong to another block, or are out of order",
    TronCheck.HEADER_HASH: "a field of the header is missing or altered",
    TronCheck.TRANSACTION_IDS: "a transaction was altered",
    TronCheck.AGREED: "one of them omits, adds or alters something",
    TronCheck.ANCHOR: "the node is on another chain, or on an abandoned branch of it",
}
_GENESIS = 0  # no witness produced it, and nodes have no infos of its transactions


class TronBlockUnderCheck(NamedTuple):
    """A block, and the ids of the transactions that have an info (None: not requested)."""

    network: Network
    height: int
    block: ParsedTronBlock
    info_ids: list[bytes] | None

    def refuse(self, check: TronCheck, finding: str) -> NoReturn:
        """Raise `BadBlock` with the height, the failed check, the finding, and what it means."""
        raise BadBlock(
            f"block {self.height:,} of `{self.network.name}` fails the check `{check}`: "
            f"{finding}; {_MEANINGS[check]}",
            height=self.height,
            check=check,
            remedy=LowerLevel(),
        )


def under_check(block: ParsedTronBlock, network: Network, height: int) -> TronBlockUnderCheck:
    ids = None if block.infos is None else [each.id for each in block.infos]
    return TronBlockUnderCheck(network, height, block, ids)


def check_anchor(it: TronBlockUnderCheck, known: bytes | None) -> None:
    """Refuse a block whose id differs from the known one at its height, if there is one."""
    if known is not None and it.block.id != known:
        finding = f"its hash is 0x{it.block.id.hex()}, but the known hash is 0x{known.hex()}"
        it.refuse(TronCheck.ANCHOR, finding)


def check_block(it: TronBlockUnderCheck, checks: frozenset[str]) -> Proof:
    """Return what is proven about a block, or raise `BadBlock`.

    The proof does not include the parent link, which involves two blocks: the pipeline checks
    links.
    """
    asked = it.network.required(checks, it.height)
    passed = frozenset(check for check, run in _CHECKS.items() if check in asked and run(it))
    return Proof(passed, checks - passed - {TronCheck.LINK})


def check_agreement(
    it: TronBlockUnderCheck, other: ParsedTronBlock | None, checks: frozenset[str]
) -> Proof:
    """Return whether a second endpoint agrees; raise `BadBlock` if it does not.

    Without a second endpoint, the logs are unproven.
    """
    if not checks:
        return Proof()
    if other is None:
        unproven = frozenset[str]() if it.block.infos is None else frozenset({TronCheck.LOGS})
        return Proof(unproven=unproven)
    if other.id != it.block.id:
        it.refuse(TronCheck.AGREED, "two endpoints return different blocks")
    ids, other_ids = ([each.id for each in one.transactions] for one in (it.block, other))
    if ids != other_ids:
        it.refuse(TronCheck.AGREED, "two endpoints return different transactions")
    if it.block.infos is not None:
        if other.infos is None:
            return Proof(unproven=frozenset({TronCheck.LOGS}))
        mine, others = (
            [_comparable(e.answer) for e in one] for one in (it.block.infos, other.infos)
        )
        if mine != others:
            it.refuse(TronCheck.AGREED, "two endpoints return different infos or logs")
    return Proof(frozenset({TronCheck.AGREED}))


def _comparable(it: InfoAnswer) -> InfoAnswer:
    """Leave out what depends on a node's version and settings."""
    return replace(it, internals=[], receipt=replace(it.receipt, energy_penalty_total=0))


def _height(it: TronBlockUnderCheck) -> bool:
    header, own = it.block.header, int.from_bytes(it.block.id[:8], "big")
    if not header.number == own == it.height:
        it.refuse(TronCheck.HEIGHT, f"its header has the number {header.number}, its id {own}")
    return True


def _witness(it: TronBlockUnderCheck) -> bool:
    if it.height > _GENESIS and without_version(it.block.header.witness) is None:
        it.refuse(TronCheck.WITNESS, "its witness is not an address")
    return True


def _empty(it: TronBlockUnderCheck) -> bool:
    has_root = it.block.header.transactions_root != NO_TRANSACTIONS
    if has_root != bool(it.block.transactions):
        count = len(it.block.transactions)
        it.refuse(TronCheck.EMPTY, f"it has {count} transactions, which contradicts its root")
    return True


def _counts(it: TronBlockUnderCheck) -> bool:
    if it.info_ids is None:
        return False
    if it.height == _GENESIS and not it.info_ids:
        return True
    if it.info_ids != [each.id for each in it.block.transactions]:
        counts = f"{len(it.info_ids)} infos and {len(it.block.transactions)} transactions"
        it.refuse(TronCheck.COUNTS, f"it has {counts}, and their ids differ")
    return True


def _places(it: TronBlockUnderCheck) -> bool:
    if it.block.infos is None:
        return False
    header, left = it.block.header, iter(it.block.transactions)
    for info in it.block.infos:
        place = (info.answer.block_number, info.answer.block_timestamp)
        if place != (header.number, header.timestamp):
            it.refuse(TronCheck.PLACES, f"the info 0x{info.id.hex()} names another block or time")
        if not any(info.id == each.id for each in left):
            it.refuse(TronCheck.PLACES, f"the info 0x{info.id.hex()} is not of its transactions")
    return True


def _header_hash(it: TronBlockUnderCheck) -> bool:
    actual = block_id(it.block.header.number, it.block.header.raw_data)
    if it.block.id != actual:
        it.refuse(TronCheck.HEADER_HASH, f"its header hashes to 0x{actual.hex()}")
    return True


def _transaction_ids(it: TronBlockUnderCheck) -> bool:
    for position, each in enumerate(it.block.transactions):
        if each.id != transaction_id(each.raw_data):
            actual = transaction_id(each.raw_data).hex()
            it.refuse(TronCheck.TRANSACTION_IDS, f"transaction {position} hashes to 0x{actual}")
    return True


def _transactions_root(it: TronBlockUnderCheck) -> bool:
    """Return whether the root is proven; that it is not does not make the block wrong."""
    encoded = [each.encoded() for each in it.block.transactions]
    whole = [each for each in encoded if each is not None]
    return len(whole) == len(encoded) and merkle_root(whole) == it.block.header.transactions_root


_CHECKS: Mapping[TronCheck, Callable[[TronBlockUnderCheck], bool]] = {
    TronCheck.HEIGHT: _height,
    TronCheck.WITNESS: _witness,
    TronCheck.EMPTY: _empty,
    TronCheck.COUNTS: _counts,
    TronCheck.PLACES: _places,
    TronCheck.HEADER_HASH: _header_hash,
    TronCheck.TRANSACTION_IDS: _transaction_ids,
    TronCheck.TRANSACTIONS_ROOT: _transactions_root,
}
