"""Decode answers to tables, for many blocks at once.

Each column is decoded once for a list of blocks (`columns.py`). What follows from the position of a
row is computed (`frame.py`), after `positions.py` has checked that the answer agrees. Keys without
a column are stored in `extra` (`extras.py`). Lists of 3 to 25 blocks are best: long enough to share
the cost of a call, and short enough to stay in the processor's cache.

A malformed or contradictory answer is rejected, not repaired: it raises `BadAnswer`, which names
the table, column and block, and nothing of it is stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from gapless.chains.evm.decode.arrays import BadField, Fields, number_array, topic_arrays
from gapless.chains.evm.decode.extras import (
    extra_texts,
    list_texts,
    raw_texts,
    transaction_extra_texts,
)
from gapless.chains.evm.decode.frame import Counts, Frame, counted, fields, positions, spread
from gapless.chains.evm.decode.positions import check_positions, paired
from gapless.chains.evm.decode.structs import (
    Block,
    LightBlock,
    Log,
    Receipt,
    Transaction,
    Withdrawal,
    transaction_type,
)
from gapless.chains.evm.tables import BLOCKS, LOGS, TABLES, TRANSACTIONS, WITHDRAWALS
from gapless.core.errors import BadAnswer
from gapless.schema.arrow import Tables

_DECIMAL = re.compile("[0-9]{1,78}").fullmatch


def decode_blocks(
    blocks: Sequence[Block], receipts: Sequence[Sequence[Receipt]] | None, chain_id: int
) -> Tables:
    """Decode all tables. Without receipts, omit `logs`, and leave the receipts' columns null."""
    frame = Frame.of(blocks, chain_id)
    counts = counted(block.transactions for block in blocks)
    pairs = _pairs(blocks, receipts, frame.heights.tolist())
    rows = [*chain.from_iterable(block.transactions for block in blocks)]
    inner = frame.repeated(counts)
    transactions = _transactions(rows, pairs, inner, positions(counts))
    if receipts is None:
        return _in_order({**_headers(blocks, frame), "transactions": transactions})
    per_row = counted(() if pair is None else pair.logs for pair in pairs)
    owners = np.repeat(np.arange(len(blocks)), counts)
    per_block = np.bincount(owners, weights=per_row, minlength=len(blocks)).astype(np.int64)
    return _in_order(
        {
            **_headers(blocks, frame, per_block),
            "transactions": transactions,
            "logs": _logs(pairs, per_row, inner.repeated(per_row), transactions),
        }
    )


def _in_order(tables: Mapping[str, pa.Table]) -> Tables:
    """Sort the tables, parents first."""
    return Tables({each.name: tables[each.name] for each in TABLES if each.name in tables})


def decode_headers(blocks: Sequence[LightBlock], chain_id: int) -> Tables:
    """Decode `blocks` and `withdrawals` of blocks that were requested without transactions."""
    return Tables(_headers(blocks, Frame.of(blocks, chain_id)))


def _pairs(
    blocks: Sequence[Block], receipts: Sequence[Sequence[Receipt]] | None, heights: Sequence[int]
) -> list[Receipt | None]:
    for block, height in zip(blocks, heights, strict=True):
        check_positions(block, height)
    if receipts is None:
        return [None for block in blocks for _ in block.transactions]
    return [*chain(*(paired(*each) for each in zip(blocks, receipts, heights, strict=True)))]


def _headers(
    blocks: Sequence[Block] | Sequence[LightBlock], frame: Frame, log_counts: Counts | None = None
) -> dict[str, pa.Table]:
    found = fields(Block, blocks)
    lists = [block.withdrawals for block in blocks]
    counts = [None if each is None else len(each) for each in lists]
    withdrawals = [*chain.from_iterable(each or () for each in lists)]
    per_block = counted(each or () for each in lists)
    computed = {
        "transaction_count": number_array(counted(block.transactions for block in blocks)),
        "log_count": pa.nulls(len(blocks), pa.uint64())
        if log_counts is None
        else number_array(log_counts),
        "withdrawal_count": pa.array(counts, pa.uint64()),
        "transfer_count": pa.nulls(len(blocks), pa.uint64()),  # until they are derived
    }
    extra = extra_texts(frame, BLOCKS, found["extra"])
    texts = {"uncles": list_texts(found["uncles"]), "extra": extra}
    inner = frame.repeated(per_block)
    return {
        "blocks": frame.table(BLOCKS, computed, {**found, **texts}),
        "withdrawals": _withdrawals(withdrawals, inner, positions(per_block)),
    }


def _withdrawals(rows: Sequence[Withdrawal], frame: Frame, places: Counts) -> pa.Table:
    found = fields(Withdrawal, rows)
    computed = {"withdrawal_position": number_array(places)}
    extra = extra_texts(frame, WITHDRAWALS, found["extra"])
    texts = {"withdrawal_index": found["index"], "extra": extra}
    return frame.table(WITHDRAWALS, computed, {**found, **texts})


def _transactions(
    rows: Sequence[Transaction], pairs: Sequence[Receipt | None], frame: Frame, places: Counts
) -> pa.Table:
    found = fields(Transaction, rows)
    of_receipts = _receipt_fields(pairs)
    counts = [None if logs is None else len(logs) for logs in of_receipts["logs"]]
    computed = {
        "transaction_index": number_array(places),
        "log_count": pa.array(counts, pa.uint64()),
    }
    try:
        lists = {name: raw_texts(found, name) for name in ("access_list", "authorization_list")}
        extra = transaction_extra_texts(found, of_receipts, frame.chain_id)
    except BadField as error:
        raise frame.refusal("transactions", error) from error
    prepared = {
        "from_address": found["from_"],
        "to_address": found["to"],
        "type": _types(rows, found["type"]),
        "v": [
            parity if v is None else v
            for v, parity in zip(found["v"], found["y_parity"], strict=True)
        ],
        "blob_versioned_hashes": list_texts(found["blob_versioned_hashes"]),
        "extra": extra,
        **lists,
        **{name: _in_hex(of_receipts[name]) for name in ("l1_fee", "l1_gas_price", "l1_gas_used")},
    }
    return frame.table(TRANSACTIONS, computed, {**of_receipts, **found, **prepared})


def _types(rows: Sequence[Transaction], given: Sequence[str | None]) -> Sequence[str | None]:
    """Return the types; derive those that an old node omits."""
    if all(given):
        return given
    return [hex(transaction_type(row)) if row.type is None else row.type for row in rows]


def _receipt_fields(pairs: Sequence[Receipt | None]) -> Fields:
    present = [pair for pair in pairs if pair is not None]
    found = fields(Receipt, present)
    return found if len(present) == len(pairs) else spread(found, pairs)


def _logs(
    pairs: Sequence[Receipt | None], counts: Counts, frame: Frame, transactions: pa.Table
) -> pa.Table:
    rows = [*chain.from_iterable(pair.logs for pair in pairs if pair is not None)]
    found = fields(Log, rows)
    if any(found["removed"]):
        height = frame.heights[found["removed"].index(True)]
        raise BadAnswer(f"`logs.removed` of block {height}: a reorganisation removed a log")
    try:
        topics = topic_arrays(found["topics"])
    except BadField as error:
        raise frame.refusal("logs", error) from error
    owners = pa.array(np.repeat(np.arange(len(pairs)), counts))
    computed = {
        "transaction_index": transactions["transaction_index"].chunk(0).take(owners),
        "transaction_hash": transactions["hash"].chunk(0).take(owners),
        "log_position": number_array(positions(counts)),
        **{f"topic{place}": array for place, array in enumerate(topics)},
    }
    return frame.table(LOGS, computed, {**found, "extra": extra_texts(frame, LOGS, found["extra"])})


def _in_hex(values: Sequence[str | None]) -> Sequence[str | None]:
    """Convert decimal quantities to hex; Optimism's nodes wrote some in their first year."""
    if values.count(None) == len(values):
        return values
    return [hex(int(v)) if v is not None and _DECIMAL(v) else v for v in values]
