"""Prove stored rows on their own, without a node or a record.

Rows are restored to the answers that they came from, completed like answers, and must pass the same
checks. Then they are decoded again, and the result must equal the stored rows. So a column that
repeats, counts or follows from others (a timestamp, a rounded number, a log's position, the price
that a transaction paid) cannot differ from them or be empty without being noticed. In the same way,
rows of derived tables are derived again from the rows that they follow from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import and_, or_

import pyarrow as pa
import pyarrow.compute as pc

from gapless.chains import derived_rows
from gapless.chains.derived_rows import differences
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.check import check_block, check_range_logs
from gapless.chains.evm.checks.completion import complete
from gapless.chains.evm.checks.levels import checks_of
from gapless.chains.evm.checks.native_rows import RowCore, prove_rows
from gapless.chains.evm.decode.parsed import decode_parsed
from gapless.chains.evm.decode.restore import Restored, not_restored, restore
from gapless.chains.evm.decode.structs import UNREADABLE, Block, LightBlock
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.tables import BLOCKS, LOGS, TRANSACTIONS, TRANSFERS, WITHDRAWALS
from gapless.chains.evm.transfer_rows import derived_tables
from gapless.chains.family import Examined, Flaw
from gapless.chains.level import Level
from gapless.chains.network import Network
from gapless.core.errors import BadAnswer
from gapless.core.proof import Proof
from gapless.schema.arrow import Tables, one_array

# Receipts are stored in two tables: their own fields in `transactions`, and their logs in `logs`.
_OF_RECEIPTS = frozenset(
    {
        *(Check.COUNTS, Check.GAS, Check.RECEIPT_BLOOMS, Check.BLOOM, Check.RECEIPTS_ROOT),
        *(Check.DERIVED, Check.PRICES, Check.LOG_INDEX),
    }
)
# By table: the checks that are not possible if its rows are not stored.
_NEEDS = {
    TRANSACTIONS.name: frozenset({Check.TRANSACTIONS_ROOT, Check.SENDERS}) | _OF_RECEIPTS,
    WITHDRAWALS.name: frozenset({Check.WITHDRAWALS_ROOT, Check.EMPTY}),
    LOGS.name: _OF_RECEIPTS,
}
# Rows alone cannot repeat these checks, for example that two endpoints agreed.
_NOT_IN_ROWS = frozenset({Check.AGREED, Check.STATE_SYNC, Check.ANCHOR})
_LINKED = Proof(frozenset({Check.LINK}))
_KNOWN = frozenset[str](Check)
_EVERY_TABLE = (BLOCKS.name, TRANSACTIONS.name, LOGS.name, WITHDRAWALS.name)


class EvmRowProofs:
    """See `gapless.chains.family.RowProofs`."""

    def __init__(self, core: RowCore | None = None) -> None:
        self._core = core  # the compiled core, if it is used

    def repeatable(self, claimed: frozenset[str]) -> frozenset[str]:
        """Return all checks but links, which are always checked; senders only if claimed.

        Recovering senders is expensive.
        """
        always = checks_of(Level.ROOTS, _EVERY_TABLE) - {Check.LINK}
        return always | (frozenset({Check.SENDERS}) & claimed)

    def due(self, claimed: frozenset[str], datasets: Collection[str]) -> frozenset[str]:
        """Return the claimed checks that intact rows of these tables must pass again.

        Receipts are stored without their blooms, so only the receipts root can prove those.
        """
        return provable(claimed, datasets) - {Check.LINK, Check.RECEIPT_BLOOMS}

    def examine(
        self, rows: Mapping[str, pa.Table], network: Network, chain_id: int, checks: frozenset[str]
    ) -> Examined:
        assert isinstance(network, EvmNetwork)
        return examine_rows(rows, network, chain_id, checks, self._core)

    def derive(self, rows: Mapping[str, pa.Table], chain_id: int) -> Mapping[str, pa.Table]:
        return derived_tables(rows, chain_id)


def provable(checks: frozenset[str], datasets: Collection[str]) -> frozenset[str]:
    """Return the checks that are possible with the rows of these tables alone."""
    lacking = (needs for table, needs in _NEEDS.items() if table not in datasets)
    return (checks & _KNOWN) - _NOT_IN_ROWS - frozenset().union(*lacking)


def examine_rows(
    tables: Mapping[str, pa.Table],
    network: EvmNetwork,
    chain_id: int,
    checks: frozenset[str],
    core: RowCore | None = None,
) -> Examined:
    """Prove consecutive blocks from all of their stored rows, with a compiled core if it can."""
    possible = provable(checks, [*tables])
    if core is not None:
        proof = prove_rows(core, tables, network, chain_id, possible)
        if proof is not None:
            return _compared(Examined(proof), tables, chain_id, possible)
    try:
        found = _examine(tables, network, chain_id, possible)
    except UNREADABLE as error:  # a JSON column holds invalid JSON
        heights = one_array(tables[BLOCKS.name]["block_number"]).unique().to_pylist()
        if len(heights) == 1:
            message = f"a column cannot be read: {error}"
            return Examined(Proof(), [Flaw(heights[0], BLOCKS.name, message)])
        alone = ({name: _of(rows, {it}) for name, rows in tables.items()} for it in heights)
        return reduce(or_, (examine_rows(each, network, chain_id, checks) for each in alone))
    return _compared(found, tables, chain_id, possible)


def _compared(
    found: Examined, tables: Mapping[str, pa.Table], chain_id: int, possible: frozenset[str]
) -> Examined:
    """Compare rows that were examined with derived ones, and each block with the one before."""
    flaws = [*found.flaws]
    if TRANSFERS.name in tables and (derived := derived_tables(tables, chain_id)):
        flaws += derived_rows.contradictions(TRANSFERS, tables, derived[TRANSFERS.name])
    if Check.LINK not in possible:
        return Examined(found.proof, flaws)
    flaws += _unlinked(tables[BLOCKS.name])
    return Examined(found.proof | _LINKED, flaws)


def _examine(
    tables: Mapping[str, pa.Table], network: EvmNetwork, chain_id: int, possible: frozenset[str]
) -> Examined:
    """Prove each block, and compare its rows with what it decodes to."""
    proofs, good, flaws = [], list[Restored](), list[Flaw]()
    for each in restore(tables):
        try:
            proofs.append(_proof(each, network, possible))
            good.append(each)
        except BadAnswer as error:
            flaws.append(Flaw(each.height, BLOCKS.name, str(error)))
    flaws += _contradictions(tables, good, chain_id)
    return Examined(reduce(and_, proofs) if proofs else Proof(), flaws)


def _proof(it: Restored, network: EvmNetwork, checks: frozenset[str]) -> Proof:
    complete(it.block, it.receipts, network, it.height)
    proof = check_block(it.block, it.receipts, network, checks, it.height)
    if it.receipts is not None and Check.RECEIPT_BLOOMS in network.checks_at(it.height):
        # Not impossible: the blooms are only not stored, and a node has them.
        proof = replace(proof, unproven=proof.unproven - {Check.RECEIPT_BLOOMS})
    if it.logs is None or not isinstance(it.block, Block):
        return proof
    return proof | check_range_logs(it.block, it.logs, None, network, checks, it.height)


def _unlinked(blocks: pa.Table) -> Iterator[Flaw]:
    """Yield a flaw for each block that does not link to the one before it."""
    names = ("block_number", "hash", "parent_hash")
    rows = zip(*(one_array(blocks[name]).to_pylist() for name in names), strict=True)
    for (before, known, _), (height, _, parent) in pairwise(rows):
        if height == before + 1 and parent != known:
            yield Flaw(height, BLOCKS.name, "its parent is not the block stored before it")


def _contradictions(
    tables: Mapping[str, pa.Table], blocks: Sequence[Restored], chain_id: int
) -> Iterator[Flaw]:
    """Yield a flaw for each column that differs after the restored blocks are decoded again."""
    for form, group in _by_form(blocks).items():
        members = {each.height for each in group}
        whole = len(group) == tables[BLOCKS.name].num_rows
        stored = {it: rows if whole else _of(rows, members) for it, rows in tables.items()}
        decoded: Tables | None = None
        try:
            decoded = decode_parsed(group, chain_id)
        except (BadAnswer, *UNREADABLE) as error:
            if len(group) == 1:
                yield Flaw(group[0].height, BLOCKS.name, f"its rows cannot be decoded: {error}")
                continue
        if decoded is None or (len(group) > 1 and not _same_sizes(decoded, stored)):
            for each in group:  # separately, to find the block and to compare the others
                yield from _contradictions(stored, [each], chain_id)
            continue
        for name, again in decoded.items():
            if name in tables:
                skipped = not_restored(name, tables, receipts=form == "receipts")
                yield from differences(name, stored[name], again.drop_columns([*skipped]))


def _same_sizes(decoded: Tables, stored: Mapping[str, pa.Table]) -> bool:
    shared = decoded.keys() & stored.keys()
    return all(decoded[it].num_rows == stored[it].num_rows for it in shared)


def _by_form(blocks: Sequence[Restored]) -> dict[str, list[Restored]]:
    found: dict[str, list[Restored]] = {}
    for each in blocks:
        light = isinstance(each.block, LightBlock)
        form = "light" if light else "logs" if each.logs is not None else "full"
        found.setdefault("receipts" if each.receipts is not None else form, []).append(each)
    return found


def _of(rows: pa.Table, heights: set[int]) -> pa.Table:
    wanted = pa.array(sorted(heights), pa.uint64())
    return rows.filter(pc.is_in(one_array(rows["block_number"]), wanted))
