"""Holding a block against itself, its neighbour and what its chain committed to.

    level   checks
    off     none
    links   height, parent link, counts, places, empty roots, gas, blooms
    auto    links, and the header's hash and the receipts root
    roots   auto, and the transactions and withdrawals roots, and what follows by arithmetic

Only a root under a recomputed hash proves that nothing is missing: dropping a block's last log
leaves its bloom unchanged in a third of real blocks. A check that fails raises `BadBlock`, and the
block must not be stored. A check that a network does not support, or that lacks its receipts, is
reported as unproven.

When hash and receipts root hold, the receipts are those of the chain: gas and blooms then hold
without being computed, which saves about as much as the root costs.

Not even `roots` proves a transaction's `from` (that needs key recovery), an L2's `l1Fee` and its
like, a typed transaction's `gasPrice`, or a block's `size`, `totalDifficulty` and uncle hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gapless.core.evm.objects import NoEncoding
from gapless.networks import Check, Network
from gapless.pipeline import consistency, derived, proofs
from gapless.pipeline.subject import Subject, refuse, subject_of
from gapless.sources.evm.structs import UNREADABLE, Block, Header, LightBlock, RangeLog, Receipt


class Level(StrEnum):
    """How much is asked of a block before it is stored."""

    OFF = "off"
    LINKS = "links"
    AUTO = "auto"
    ROOTS = "roots"


_PLAIN: dict[Check, Callable[[Subject], bool]] = {
    Check.HEIGHT: consistency.height,
    Check.COUNTS: consistency.counts,
    Check.PLACES: consistency.places,
    Check.EMPTY: consistency.empty,
}
_PROOFS: dict[Check, Callable[[Subject], bool]] = {
    Check.HEADER_HASH: proofs.header,
    Check.RECEIPTS_ROOT: proofs.receipts,
}
_IMPLIED: dict[Check, Callable[[Subject], bool]] = {
    Check.GAS: consistency.gas,
    Check.RECEIPT_BLOOMS: consistency.receipt_blooms,
    Check.BLOOM: consistency.bloom,
}
_FURTHER: dict[Check, Callable[[Subject], bool]] = {
    Check.TRANSACTIONS_ROOT: proofs.transactions,
    Check.WITHDRAWALS_ROOT: proofs.withdrawals,
    Check.DERIVED: derived.derived,
    Check.PRICES: derived.prices,
    Check.LOG_INDEX: derived.log_index,
}

_LINKS = frozenset({Check.LINK, *_PLAIN, *_IMPLIED})
ASKED: dict[Level, frozenset[Check]] = {
    Level.OFF: frozenset(),
    Level.LINKS: _LINKS,
    Level.AUTO: _LINKS | _PROOFS.keys(),
    Level.ROOTS: _LINKS | _PROOFS.keys() | _FURTHER.keys(),
}
# What nobody can say of a block whose receipts were not asked for.
_OF_RECEIPTS = frozenset({Check.COUNTS, *_IMPLIED, Check.RECEIPTS_ROOT}) | {
    *(Check.DERIVED, Check.PRICES, Check.LOG_INDEX),
}


@dataclass(frozen=True, slots=True)
class Proof:
    """Which checks held, and which of those asked could not be made."""

    proven: frozenset[Check] = frozenset()
    unproven: frozenset[Check] = frozenset()

    def __or__(self, other: Proof) -> Proof:
        """What two examinations of one block found."""
        proven = self.proven | other.proven
        return Proof(proven, (self.unproven | other.unproven) - proven)

    def __and__(self, other: Proof) -> Proof:
        """What can be said of two blocks together."""
        return Proof(self.proven & other.proven, self.unproven | other.unproven)


def required(
    network: Network, level: Level, height: int, *, receipts: bool = True
) -> frozenset[Check]:
    """What a block has to pass at a level, as far as its network supports it."""
    asked = network.checks_at(height) & ASKED[level]
    return asked if receipts else asked - _OF_RECEIPTS


def check_links(network: Network, previous_hash: str, block: Header) -> None:
    """Refuses a block whose parent is not the block before it."""
    if block.parent_hash != previous_hash:
        finding = f"its parent is {block.parent_hash}, and not {previous_hash}"
        refuse(network, int(block.number, 16), Check.LINK, finding)


def check_block(
    block: Block | LightBlock,
    receipts: Sequence[Receipt] | None,
    network: Network,
    level: Level,
    height: int,
) -> Proof:
    """What is proven of the block asked for at a height, or `BadBlock`.

    Receipts that were not asked for are None. The parent link takes two blocks: `check_links` makes
    that check, and the proof is without it.
    """
    if level == Level.OFF:
        return Proof()
    subject = subject_of(block, receipts, network, height)
    asked = ASKED[level] & subject.supported
    held = _held(_PLAIN, asked, subject) | _held(_PROOFS, asked, subject)
    if held >= _PROOFS.keys() and not subject.has_outsider:
        held |= asked & _IMPLIED.keys()
    else:
        held |= _held(_IMPLIED, asked, subject)
    held |= _held(_FURTHER, asked, subject)
    missing = ASKED[level] - held - {Check.LINK}
    if subject.has_outsider or (network.sprint and height % network.sprint == 0):
        missing |= {Check.STATE_SYNC}
    return Proof(frozenset(held), missing)


def check_range_logs(
    block: Block,
    logs: Sequence[RangeLog],
    others: Sequence[RangeLog] | None,
    network: Network,
    level: Level,
    height: int,
) -> Proof:
    """What is proven of logs that came without receipts, or `BadBlock`.

    A bloom proves that no address or topic is missing, not that no log is. That two endpoints name
    the same logs proves nothing, and is the best there is: `others` are those of the second.
    """
    if level == Level.OFF:
        return Proof()
    subject = subject_of(block, None, network, height)
    checks: dict[Check, Callable[[Subject], bool]] = {
        Check.PLACES: lambda it: consistency.places_of_range(it, logs),
        Check.BLOOM: lambda it: consistency.bloom_of_range(it, logs),
        Check.AGREED: lambda it: consistency.agreed(it, logs, others),
    }
    return Proof(frozenset(_held(checks, subject.supported | {Check.AGREED}, subject)))


def _held(
    checks: dict[Check, Callable[[Subject], bool]], asked: frozenset[Check], subject: Subject
) -> set[Check]:
    return {
        check for check, made in checks.items() if check in asked and _made(made, check, subject)
    }


def _made(made: Callable[[Subject], bool], check: Check, subject: Subject) -> bool:
    try:
        return made(subject)
    except NoEncoding:
        return False
    except (ValueError, *UNREADABLE) as error:
        subject.refuse(check, f"a field cannot be read ({error})")
