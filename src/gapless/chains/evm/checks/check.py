"""Check a block for consistency, and against what its chain committed to.

Only a root in a header whose hash was recomputed proves that nothing is missing: in a third of real
blocks, dropping the last log leaves the bloom unchanged. A check that fails raises `BadBlock`, and
the block must not be stored. A check that the network does not support, or that needs receipts
which were not requested, is reported as unproven.

If the header hash and the receipts root are correct, the receipts are those of the chain. Gas and
blooms are then correct too and need not be computed, which saves about as much as the root costs.

Not even `senders` proves fields such as an L2's `l1Fee`, a typed transaction's `gasPrice`, or a
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
        finding = f"its hash is {block.hash}, but the known hash is 0x{known.hex()}"
        refuse(network, int(block.number, 16), Check.ANCHOR, finding)


def check_block(
    block: Block | LightBlock,
    receipts: Sequence[Receipt] | None,
    network: EvmNetwork,
    checks: frozenset[str],
    height: int,
) -> Proof:
    """Return what is proven about the block requested at a height, or raise `BadBlock`.

    Receipts that were not requested are None. The proof does not include the parent link, which
    involves two blocks: the pipeline checks links.
    """
    if not checks:
        return Proof()
    subject = block_under_check(block, receipts, network, height)
    asked = checks & subject.supported
    passed: set[str] = _passed(_PLAIN, asked, subject) | _passed(_PROOFS, asked, subject)
    if passed >= _PROOFS.keys() and not subject.has_unrooted:
        passed |= asked & _IMPLIED.keys()
    else:
        passed |= _passed(_IMPLIED, asked, subject)
    passed |= _passed(_FURTHER, asked, subject)
    missing = checks - passed - {Check.LINK}
    if subject.has_unrooted or (network.sprint and height % network.sprint == 0):
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
    """Return what is proven about logs that were fetched without receipts, or raise `BadBlock`.

    A bloom proves that no address or topic is missing, but not that no log is. `others` are the
    logs from a second endpoint: that both return the same proves nothing, but no better check
    exists.
    """
    if not checks:
        return Proof()
    subject = block_under_check(block, None, network, height)
    range_checks: Checks = {
        Check.PLACES: lambda it: consistency.places_of_range(it, logs),
        Check.BLOOM: lambda it: consistency.bloom_of_range(it, logs),
        Check.AGREED: lambda it: consistency.agreed(it, logs, others),
    }
    return Proof(frozenset(_passed(range_checks, subject.supported | {Check.AGREED}, subject)))


def _passed(checks: Checks, asked: frozenset[str], subject: BlockUnderCheck) -> set[str]:
    return {
        check for check, run in checks.items() if check in asked and _passes(run, check, subject)
    }


def _passes(run: Callable[[BlockUnderCheck], bool], check: Check, subject: BlockUnderCheck) -> bool:
    try:
        return run(subject)
    except NoEncoding:
        return False
    except (ValueError, *UNREADABLE) as error:
        subject.refuse(check, f"a field cannot be read ({error})")
