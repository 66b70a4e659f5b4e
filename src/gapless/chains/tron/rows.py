"""Prove stored TRON rows on their own, without a node or a record.

`raw_data` is stored, so the ids of blocks and transactions can be computed again, and so can every
column that was decoded from these bytes or repeats another column. What came from infos alone, such
as a fee or a log's data, has nothing to be compared with. Rows of derived tables are derived again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby, pairwise
from operator import and_, itemgetter
from typing import Any

import msgspec
import pyarrow as pa

from gapless.chains import derived_rows
from gapless.chains.family import Examined, Flaw
from gapless.chains.level import Level
from gapless.chains.network import Network
from gapless.chains.tron.check_names import TronCheck
from gapless.chains.tron.checks import TronBlockUnderCheck, check_block
from gapless.chains.tron.contracts import Columns
from gapless.chains.tron.levels import checks_of
from gapless.chains.tron.parsed import ParsedTransaction, ParsedTronBlock, TronHeader
from gapless.chains.tron.protobuf import BadMessage
from gapless.chains.tron.stored_rows import StoredBlock, contradictions, stored_results
from gapless.chains.tron.tables import (
    TRON_BLOCKS,
    TRON_TABLES,
    TRON_TRANSACTIONS,
    TRON_TRANSFERS,
)
from gapless.chains.tron.transfer_rows import derived_tables
from gapless.core.errors import BadAnswer
from gapless.core.proof import Proof

_OF_TRANSACTIONS = frozenset(
    {
        *(TronCheck.EMPTY, TronCheck.COUNTS),
        *(TronCheck.TRANSACTION_IDS, TronCheck.TRANSACTIONS_ROOT),
    }
)
_NOT_IN_ROWS = frozenset({TronCheck.PLACES, TronCheck.AGREED, TronCheck.LOGS, TronCheck.ANCHOR})
_KNOWN = frozenset[str](TronCheck)
_HEIGHT = itemgetter("block_number")
_texts = msgspec.json.Decoder(list[str]).decode
_LINKED = Proof(frozenset({TronCheck.LINK}))


class TronRowProofs:
    """See `gapless.chains.family.RowProofs`."""

    def repeatable(self, claimed: frozenset[str]) -> frozenset[str]:
        """Return all checks but links, which are always checked."""
        every = checks_of(Level.AUTO, [table.name for table in TRON_TABLES])
        return every - _NOT_IN_ROWS - {TronCheck.LINK}

    def due(self, claimed: frozenset[str], datasets: Collection[str]) -> frozenset[str]:
        return _provable(claimed, datasets) - {TronCheck.LINK}

    def examine(
        self, rows: Mapping[str, pa.Table], network: Network, chain_id: int, checks: frozenset[str]
    ) -> Examined:
        possible = _provable(checks, [*rows])
        proofs, flaws, blocks = list[Proof](), list[Flaw](), [*_stored(rows)]
        for each in blocks:
            try:
                proofs.append(_proof(each, network, possible))
                flaws += contradictions(each, chain_id)
            except BadAnswer as error:
                flaws.append(Flaw(each.height, TRON_BLOCKS.name, str(error)))
            except (BadMessage, msgspec.MsgspecError, ValueError, LookupError) as error:
                message = f"a column cannot be read: {error}"
                flaws.append(Flaw(each.height, TRON_BLOCKS.name, message))
        if TRON_TRANSFERS.name in rows and (derived := derived_tables(rows)):
            flaws += derived_rows.contradictions(TRON_TRANSFERS, rows, derived[TRON_TRANSFERS.name])
        proof = reduce(and_, proofs) if proofs else Proof()
        if TronCheck.LINK in possible:
            flaws += _unlinked(blocks)
            proof |= _LINKED
        return Examined(proof, flaws)

    def derive(self, rows: Mapping[str, pa.Table], chain_id: int) -> Mapping[str, pa.Table]:
        return derived_tables(rows)


def _provable(checks: frozenset[str], datasets: Collection[str]) -> frozenset[str]:
    """Return the checks that are possible with the rows of these tables alone."""
    lacking = frozenset() if TRON_TRANSACTIONS.name in datasets else _OF_TRANSACTIONS
    return (checks & _KNOWN) - _NOT_IN_ROWS - lacking


def _stored(tables: Mapping[str, pa.Table]) -> Iterator[StoredBlock]:
    """Yield the blocks with all their rows."""
    by_height: dict[str, dict[int, Sequence[Columns]]] = {
        name: {height: [*group] for height, group in groupby(rows.to_pylist(), _HEIGHT)}
        for name, rows in tables.items()
        if name not in (TRON_BLOCKS.name, TRON_TRANSFERS.name)
    }
    for row in tables[TRON_BLOCKS.name].to_pylist():
        height = row["block_number"]
        yield StoredBlock(row, {name: rows.get(height, ()) for name, rows in by_height.items()})


def _proof(it: StoredBlock, network: Network, checks: frozenset[str]) -> Proof:
    block = ParsedTronBlock(
        id=it.block["hash"],
        header=TronHeader(it.block["raw_data"]),
        witness_signature=it.block["witness_signature"],
        transactions=[*map(_transaction, it.transactions)],
        infos=None,
    )
    has_infos = it.block["log_count"] is not None
    known = [row["hash"] for row in it.transactions if row["fee"] is not None]
    return check_block(
        TronBlockUnderCheck(network, it.height, block, known if has_infos else None), checks
    )


def _unlinked(blocks: Sequence[StoredBlock]) -> Iterator[Flaw]:
    """Yield a flaw for each block that does not link to the one before it."""
    for before, each in pairwise(blocks):
        linked = each.block["parent_hash"] == before.block["hash"]
        if each.height == before.height + 1 and not linked:
            message = "its parent is not the block stored before it"
            yield Flaw(each.height, TRON_BLOCKS.name, message)


def _transaction(row: Mapping[str, Any]) -> ParsedTransaction:
    return ParsedTransaction(
        id=row["hash"],
        raw_data=row["raw_data"],
        signatures=[bytes.fromhex(each) for each in _texts(row["signatures"])],
        results=stored_results(row),
    )
