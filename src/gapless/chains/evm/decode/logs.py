"""Decode logs that were fetched by range, from a node that does not offer receipts.

A log of `eth_getLogs` contains the hash of its block, which is compared with the headers. Its
position in the transaction is counted. This results in the same key as with receipts, provided that
the range was requested without a filter.
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
    """Decode the table `logs` for the blocks of the headers; the node must return logs in order."""
    outer = Frame.of(headers, chain_id)
    owners = _owners(headers, logs)
    frame = Frame(chain_id, outer.heights[owners], outer.times[owners])
    found = fields(RangeLog, logs)
    try:
        topics = topic_arrays(found["topics"])
        indices = _numbers("transaction_index", found["transaction_index"])
    except BadField as error:
        raise frame.refusal("logs", error) from error
    computed = {
        "transaction_index": number_array(indices),
        "log_position": number_array(_positions(owners, indices)),
        **{f"topic{place}": array for place, array in enumerate(topics)},
    }
    return frame.table(LOGS, computed, {**found, "extra": extra_texts(frame, LOGS, found["extra"])})


def check_owned(header: Header, logs: Sequence[RangeLog]) -> None:
    """Refuse logs of which one names another block than the one that they were returned for."""
    if any((log.block_number, log.block_hash) != (header.number, header.hash) for log in logs):
        raise BadAnswer(f"a log that was returned for block {header.number} names another block")


def _owners(headers: Sequence[Header], logs: Sequence[RangeLog]) -> Counts:
    """Return the index of the header that each log belongs to."""
    known = {(header.number, header.hash): at for at, header in enumerate(headers)}
    owners = [known.get((log.block_number, log.block_hash), -1) for log in logs]
    for owner, log in zip(owners, logs, strict=True):
        if owner < 0 or log.removed:
            problem = (
                "was removed by a reorganisation" if log.removed else "belongs to another branch"
            )
            raise BadAnswer(f"a log of block {log.block_number} {problem}")
    return np.array(owners, np.int64)


def _positions(owners: Counts, indices: Numbers) -> Counts:
    """Return the position of each log in its transaction."""
    rows, starts = np.arange(len(owners)), np.ones(len(owners), np.bool_)
    same = owners[1:] == owners[:-1]
    starts[1:] = ~same | (indices[1:] != indices[:-1])
    if (owners[1:] < owners[:-1]).any() or (same & (indices[1:] < indices[:-1])).any():
        raise BadAnswer("logs are not in chain order")
    return rows - np.maximum.accumulate(np.where(starts, rows, 0))


def _numbers(column: str, values: Sequence[str]) -> Numbers:
    try:
        return columns.numbers(values)
    except BadValue as error:
        raise BadField(column, error.row, error) from error
