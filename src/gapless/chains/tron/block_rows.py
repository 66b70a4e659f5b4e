"""The rows of one block, each as a mapping from columns to values.

Columns that follow from `raw_data` are computed by functions of their own, which also prove stored
rows: what they return for the stored bytes must equal what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from gapless.chains.tron.address import without_version
from gapless.chains.tron.answers import RESULT_NUMBERS, from_hex
from gapless.chains.tron.contracts import Columns, address_columns, transaction_columns
from gapless.chains.tron.info_rows import (
    info_columns,
    info_extra,
    internal_rows,
    json_text,
    log_rows,
)
from gapless.chains.tron.parsed import (
    ParsedInfo,
    ParsedTransaction,
    ParsedTronBlock,
    Results,
    TronHeader,
)
from gapless.chains.tron.protobuf import BadMessage
from gapless.chains.tron.tables import (
    TRON_BLOCKS,
    TRON_INTERNAL_TRANSACTIONS,
    TRON_LOGS,
    TRON_TRANSACTIONS,
)
from gapless.core.errors import BadAnswer
from gapless.schema import Table
from gapless.schema.arrow import arrow_schema

_HASH = 32  # bytes
BlockRows = Mapping[str, Sequence[Columns]]
"""The rows of a block, by table."""


def rows_of(block: ParsedTronBlock, chain_id: int) -> BlockRows:
    """Return the rows of a block; raise `BadAnswer` if a value does not fit its column."""
    place = place_columns(block.header, chain_id)
    infos = {each.id: each for each in block.infos or ()}
    transactions, logs, internals = list[Columns](), list[Columns](), list[Columns]()
    for index, transaction in enumerate(block.transactions):
        at = {**place, "transaction_index": index}
        info = infos.get(transaction.id)
        transactions.append({**at, **_transaction_row(transaction, info)})
        if info is not None:
            at["transaction_hash"] = transaction.id
            logs += [{**at, **row} for row in log_rows(info)]
            internals += [{**at, **row} for row in internal_rows(info)]
    has_infos = block.infos is not None
    first = {
        **place,
        **header_columns(block.header),
        "hash": block.id,
        "witness_signature": block.witness_signature,
        "raw_data": block.header.raw_data,
        "transaction_count": len(transactions),
        "log_count": len(logs) if has_infos else None,
        "internal_transaction_count": len(internals) if has_infos else None,
        "extra": json_text(block.extra),
    }
    return {
        TRON_BLOCKS.name: [first],
        TRON_TRANSACTIONS.name: transactions,
        TRON_LOGS.name: logs,
        TRON_INTERNAL_TRANSACTIONS.name: internals,
    }


def arrow_table(table: Table, rows: Sequence[Columns]) -> pa.Table:
    """Return rows as Arrow; a column that a row lacks is null."""
    schema = arrow_schema(table)
    arrays = [pa.array([row.get(it.name) for row in rows], it.type) for it in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def place_columns(header: TronHeader, chain_id: int) -> Columns:
    """Return the columns that all rows of a block share."""
    return {
        "chain_id": chain_id,
        "block_number": header.number,
        "block_timestamp": header.timestamp // 1000,
        "block_timestamp_ms": header.timestamp,
    }


def header_columns(header: TronHeader) -> Columns:
    """Return the columns of a block that follow from its `raw_data`."""
    root = header.transactions_root
    return {
        "parent_hash": header.parent_hash,
        "transactions_root": root if len(root) == _HASH else None,
        **address_columns("witness", without_version(header.witness)),
        "version": header.version,
    }


def _transaction_row(it: ParsedTransaction, info: ParsedInfo | None) -> Columns:
    try:
        found = transaction_columns(it.raw_data)
    except BadMessage as error:
        raise BadAnswer(f"`raw_data_hex` cannot be decoded: {error}") from error
    result, is_plain = result_number(it.results)
    extra: dict[str, Any] = {**it.extra} if is_plain else {**it.extra, "ret": it.results}
    if info is not None:
        contract = from_hex(info.answer.contract_address, "contract_address")
        if found.get("contract_address") is None:
            found |= address_columns("contract", without_version(contract))
        elif contract and without_version(contract) != found["contract_address"]:
            extra["contract_address"] = info.answer.contract_address
        found |= info_columns(info)
        extra |= info_extra(info)
    return {
        **found,
        "hash": it.id,
        "raw_data": it.raw_data,
        "signatures": msgspec.json.encode([each.hex() for each in it.signatures]).decode(),
        "contract_result": result,
        "extra": json_text(extra),
    }


def result_number(results: Results) -> tuple[int | None, bool]:
    """Return the number of a transaction's result, and whether the number says all there is."""
    if not results:
        return None, True
    name = results[0].get("contractRet", "DEFAULT")
    number = RESULT_NUMBERS.get(name) if isinstance(name, str) else None
    is_plain = len(results) == 1 and results[0].keys() <= {"contractRet"}
    return number, is_plain and number is not None
