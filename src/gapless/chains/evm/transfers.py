"""Token transfers, as ethereum-etl defines them. Pure.

A log is a transfer if its first topic is the hash of `Transfer(address,address,uint256)`, and the
topics and the 32-byte words of its data are four in total: the event, from, to, and the value. It
does not matter which of them are indexed. So transfers of ERC-20 and ERC-721 are found (for ERC-721
the value is the token id); those of ERC-1155, and deposits of wrapped ether, are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.tables import LOGS
from gapless.schema import Column, Kind
from gapless.schema import compute as pc
from gapless.schema.arrow import arrow_type

TRANSFER = keccak(b"Transfer(address,address,uint256)")
MADE_OF = tuple(column.name for column in LOGS.columns if column.name != "extra")

_WORD = 32
_KEPT = (*LOGS.key, "block_timestamp", "log_index", "transaction_hash")
_DECODED = (
    Column("from_address", Kind.ADDRESS, False, "sender"),
    Column("to_address", Kind.ADDRESS, False, "receiver"),
    Column("value", Kind.U256, False, "the amount, or the token id"),
)
COLUMNS = (
    *(column for column in LOGS.columns if column.name in _KEPT),
    Column("token_address", Kind.ADDRESS, False, "the contract"),
    *_DECODED,
)
"""The columns of a transfer: the position of its log, and its content."""


def transfers(logs: pa.Table) -> pa.Table:
    """Decode the transfers among some logs."""
    logs = logs.filter(pc.equal(logs["topic0"], pa.scalar(TRANSFER, arrow_type(Kind.HASH))))
    inputs = ("topic0", "topic1", "topic2", "topic3", "data")
    rows = zip(*(logs[name].to_pylist() for name in inputs), strict=True)
    decoded = [decode(topics, data) for *topics, data in rows]
    logs = logs.filter(pa.array([it is not None for it in decoded], pa.bool_()))
    columns = [*zip(*filter(None, decoded), strict=True)] or [()] * len(_DECODED)
    found = logs.select(_KEPT).append_column("token_address", logs["address"])
    for column, values in zip(_DECODED, columns, strict=True):
        found = found.append_column(column.name, pa.array(values, arrow_type(column.kind)))
    return found


def decode(topics: Sequence[bytes | None], data: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Decode from, to and value of a log with the event's topic; None if it is not a transfer."""
    words = [topic for topic in topics if topic is not None]
    words += [data[at : at + _WORD] for at in range(0, len(data), _WORD)]
    if len(words) != 4:
        return None
    _, sender, receiver, value = words
    return sender[-20:], receiver[-20:], value.rjust(_WORD, b"\0")
