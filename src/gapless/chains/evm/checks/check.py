"""Check a block against itself and against what its chain committed to.

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
    """Refuse a block whose hash differs from the known one at its height, if there is one."""
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
    """Return what is proven about the block requested at a height, or raise `BadBlock`.

    Receipts that were not requested are None. The parent link takes two blocks, so the proof does
    not include it: the pipeline checks links.
    """
    if not checks:
        return Proof()
    subject = block_under_check(block, receipts, network, height)
    asked = checks & subject.supported
    passed: set[str] = _passed(_PLAIN, asked, subject) | _passed(_PROOFS, asked, subject)
    if passed >= _PROOFS.keys() and not subject.has_outsider:
        passed |= asked & _IMPLIED.keys()
    else:
        passed |= _passed(_IMPLIED, asked, subject)
    passed |= _passed(_FURTHER, asked, subject)
    missing = checks - passed - {Check.LINK}
    if subject.has_outsider or (network.sprint and height % network.sprint == 0):
        missing |= {Check.STATE_SYNC}
    return Proof(frozenset(passed), missing)


def check_range_logs(
    block: Block,
    logs: Sequence[RangeLog],
    others: Sequence[RangeLog] | None,
    network: EvmNetwork,
    checks: frozenset[str],
    height: int,
) -> Proof:
    """Return what is proven about logs that came without receipts, or raise `BadBlock`.

    A bloom proves that no address or topic is missing, not that no log is. Two endpoints that
    return the same logs prove nothing, but no better check exists: `others` are from the second.
    """
    if not checks:
        return Proof()
    subject = block_under_check(block, None, network, height)
    made: Checks = {
        Check.PLACES: lambda it: consistency.places_of_range(it, logs),
        Check.BLOOM: lambda it: consistency.bloom_of_range(it, logs),
        Check.AGREED: lambda it: consistency.agreed(it, logs, others),
    }
    return Proof(frozenset(_passed(made, subject.supported | {Check.AGREED}, subject)))


def _passed(checks: Checks, asked: frozenset[str], subject: BlockUnderCheck) -> set[str]:
    return {
        check for check, made in checks.items() if check in asked and _passes(made, check, subject)
    }


def _passes(
    made: Callable[[BlockUnderCheck], bool], check: Check, subject: BlockUnderCheck
) -> bool:
    try:
        return made(subject)
    except NoEncoding:
        return False
    except (ValueError, *UNREADABLE) as error:
        subject.refuse(check, f"a field cannot be read ({error})")
