"""Logs that came by range, from a node that does not offer receipts.

A log of `eth_getLogs` names its block, so that is compared with the headers. Its
position in the transaction is counted, which makes the same key as its receipt would, provided that
the range was asked for without a filter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gapless.chains.evm.decode import columns
from gapless.chains.evm.decode.arrays import BadField, number_array, topic_arrays
from gapless.chains.evm.decode.columns import BadValue, Numbers
from gapless.chains.evm.decode.extras import extra_texts
from gapless.chains.evm.decode.frame import Counts, Frame, fields
from gapless.chains.evm.decode.structs import Header, RangeLog
from gapless.chains.evm.tables import LOGS
from gapless.core.errors import BadAnswer


def decode_range_logs(
    headers: Sequence[Header], logs: Sequence[RangeLog], chain_id: int
) -> pa.Table:
    """The table `logs` of the headers' blocks, in ascending order as the node gave it."""
    outer = Frame.of(headers, chain_id)
    owners = _owners(headers, logs)
    frame = Frame(chain_id, outer.heights[owners], outer.times[owners])
    found = fields(RangeLog, logs)
    try:
        topics = topic_arrays(found["topics"])
        indices = _numbers("transaction_index", found["transaction_index"])
    except BadField as error:
        raise frame.refusal("logs", error) from error
    made = {
        "transaction_index": number_array(indices),
        "log_position": number_array(_positions(owners, indices)),
        **{f"topic{place}": array for place, array in enumerate(topics)},
    }
    return frame.table(LOGS, made, {**found, "extra": extra_texts(found["extra"])})


def _owners(headers: Sequence[Header], logs: Sequence[RangeLog]) -> Counts:
    """For each log the header of its block."""
    known = {(header.number, header.hash): at for at, header in enumerate(headers)}
    owners = [known.get((log.block_number, log.block_hash), -1) for log in logs]
    for owner, log in zip(owners, logs, strict=True):
        if owner < 0 or log.removed:
            what = "was removed by a reorganisation" if log.removed else "is of another branch"
            raise BadAnswer(f"a log of block {log.block_number} {what}")
    return np.array(owners, np.int64)


def _positions(owners: Counts, indices: Numbers) -> Counts:
    """Each log's position in its transaction."""
    rows, starts = np.arange(len(owners)), np.ones(len(owners), np.bool_)
    same = owners[1:] == owners[:-1]
    starts[1:] = ~same | (indices[1:] != indices[:-1])
    if (owners[1:] < owners[:-1]).any() or (same & (indices[1:] < indices[:-1])).any():
        raise BadAnswer("logs are not in the order of the chain")
    return rows - np.maximum.accumulate(np.where(starts, rows, 0))


def _numbers(column: str, values: Sequence[str]) -> Numbers:
    try:
        return columns.numbers(values)
    except BadValue as error:
        raise BadField(column, error.row, error) from error
