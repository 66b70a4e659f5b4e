"""Holds a block against itself, its neighbour and what its chain committed to.

Only a root under a recomputed hash proves that nothing is missing: dropping a block's last log
leaves its bloom unchanged in a third of real blocks. A check that fails raises `BadBlock`, and the
block must not be stored. A check that a network does not support, or that lacks its receipts, is
reported as unproven.

When hash and receipts root hold, the receipts are those of the chain: gas and blooms then hold
without being computed, which saves about as much as the root costs.

Not even `senders` proves an L2's `l1Fee` and its like, a typed transaction's `gasPrice`, or a
block's `size`, `totalDifficulty` and uncle hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks import consistency, derived, proofs, senders
from gapless.chains.evm.checks.block_under_check import BlockUnderCheck, block_under_check, refuse
from gapless.chains.evm.codec.fields import NoEncoding
from gapless.chains.evm.decode.structs import (
    UNREADABLE,
    Block,
    Header,
    LightBlock,
    RangeLog,
    Receipt,
)
from gapless.chains.evm.networks import EvmNetwork
from gapless.core.proof import Proof

Checks = Mapping[Check, Callable[[BlockUnderCheck], bool]]

_PLAIN: Checks = {
    Check.HEIGHT: consistency.height,
    Check.COUNTS: consistency.counts,
    Check.PLACES: consistency.places,
    Check.EMPTY: consistency.empty,
}
_PROOFS: Checks = {
    Check.HEADER_HASH: proofs.header,
    Check.RECEIPTS_ROOT: proofs.receipts,
}
_IMPLIED: Checks = {
    Check.GAS: consistency.gas,
    Check.RECEIPT_BLOOMS: consistency.receipt_blooms,
    Check.BLOOM: consistency.bloom,
}
_FURTHER: Checks = {
    Check.TRANSACTIONS_ROOT: proofs.transactions,
    Check.WITHDRAWALS_ROOT: proofs.withdrawals,
    Check.DERIVED: derived.derived,
    Check.PRICES: derived.prices,
    Check.LOG_INDEX: derived.log_index,
    Check.SENDERS: senders.senders,
}


def check_anchor(block: Header, network: EvmNetwork, known: bytes | None) -> None:
    """Refuses a block that is not the one whose hash is known at its height, if one is."""
    if known is not None and block.hash.lower() != f"0x{known.hex()}":
        finding = f"its hash is {block.hash}, and 0x{known.hex()} is known to be the block there"
        refuse(network, int(block.number, 16), Check.ANCHOR, finding)


def check_block(
    block: Block | LightBlock,
    receipts: Sequence[Receipt] | None,
    network: EvmNetwork,
    checks: frozenset[str],
    height: int,
) -> Proof:
    """What is proven of the block asked for at a height, or `BadBlock`.

    Receipts that were not asked for are None. The parent link takes two blocks, so the proof is
    without it: the pipeline checks links.
    """
    if not checks:
        return Proof()
    subject = block_under_check(block, receipts, network, height)
    asked = checks & subject.supported
    held: set[str] = _held(_PLAIN, asked, subject) | _held(_PROOFS, asked, subject)
    if held >= _PROOFS.keys() and not subject.has_outsider:
        held |= asked & _IMPLIED.keys()
    else:
        held |= _held(_IMPLIED, asked, subject)
    held |= _held(_FURTHER, asked, subject)
    missing = checks - held - {Check.LINK}
    if subject.has_outsider or (network.sprint and height % network.sprint == 0):
        missing |= {Check.STATE_SYNC}
    return Proof(frozenset(held), missing)


def check_range_logs(
    block: Block,
    logs: Sequence[RangeLog],
    others: Sequence[RangeLog] | None,
    network: EvmNetwork,
    checks: frozenset[str],
    height: int,
) -> Proof:
    """What is proven of logs that came without receipts, or `BadBlock`.

    A bloom proves that no address or topic is missing, not that no log is. That two endpoints name
    the same logs proves nothing, and is the best there is: `others` are those of the second.
    """
    if not checks:
        return Proof()
    subject = block_under_check(block, None, network, height)
    made: Checks = {
        Check.PLACES: lambda it: consistency.places_of_range(it, logs),
        Check.BLOOM: lambda it: consistency.bloom_of_range(it, logs),
        Check.AGREED: lambda it: consistency.agreed(it, logs, others),
    }
    return Proof(frozenset(_held(made, subject.supported | {Check.AGREED}, subject)))


def _held(checks: Checks, asked: frozenset[str], subject: BlockUnderCheck) -> set[str]:
    return {
        check for check, made in checks.items() if check in asked and _made(made, check, subject)
    }


def _made(made: Callable[[BlockUnderCheck], bool], check: Check, subject: BlockUnderCheck) -> bool:
    try:
        return made(subject)
    except NoEncoding:
        return False
    except (ValueError, *UNREADABLE) as error:
        subject.refuse(check, f"a field cannot be read ({error})")
