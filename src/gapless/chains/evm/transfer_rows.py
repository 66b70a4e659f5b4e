"""The rows of `transfers`: what logs say about tokens.

The rule is that of wallets, in `wallet_tokens`. A transfer of the network's wrapping contract that
a wrapping event announces as well has no row of its own. A wallet only finds what a node can filter
for; a table of the whole chain does not depend on that. So two kinds of logs are transfers of
ERC-721 here, as in Blockscout, but not there:

- `Transfer` with four topics, whatever data follows them;
- `Transfer` with one topic and 96 bytes of data, as contracts older than the standard emit it, such
  as CryptoKitties. A fungible token could do the same; the number is then its amount.

Two topics and 64 bytes are not decoded: the log does not tell which party is indexed.

Invariant: rows follow from the chain id and the logs of a transaction alone. They depend neither on
the node that returned the logs nor on what else is stored. So the wrapping contract is that of the
chain id, whatever name the user gave to the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby, takewhile
from typing import Any

import pyarrow as pa

from gapless.chains.evm.networks import NETWORKS
from gapless.chains.evm.tables import LOGS, TRANSFERS
from gapless.chains.evm.transfers import TRANSFER
from gapless.chains.evm.wallet_tokens import (
    BATCH,
    DEPOSIT,
    SINGLE,
    WITHDRAWAL,
    Called,
    LogRow,
    log_movements,
)
from gapless.chains.movements import Movement, MovementKind
from gapless.chains.wallet_rows import Place
from gapless.schema import F64
from gapless.schema import compute as pc
from gapless.schema.arrow import arrow_schema

_EVENTS = pa.array([TRANSFER, SINGLE, BATCH, DEPOSIT, WITHDRAWAL], pa.binary(32))
_KINDS = frozenset(
    {
        *(MovementKind.TOKEN, MovementKind.NFT, MovementKind.MULTI_TOKEN),
        *(MovementKind.WRAP, MovementKind.UNWRAP),
    }
)
_OF_TRANSACTION = (
    *("chain_id", "block_number", "block_timestamp", "transaction_index"),
    "transaction_hash",
)
_OF_LOG = ("log_position", "address", "topic0", "topic1", "topic2", "topic3", "data")
_ZERO = bytes(20)
_WORD = 32
_ARGUMENTS = 3  # of `Transfer`
_UNIQUE = 1 + _ARGUMENTS  # topics


def derived_tables(rows: Mapping[str, pa.Table], chain_id: int) -> dict[str, pa.Table]:
    """Return the tables that follow from these, by name."""
    if LOGS.name not in rows:
        return {}
    return {TRANSFERS.name: transfer_rows(rows[LOGS.name], wrapped_on(chain_id))}


@cache
def wrapped_on(chain_id: int) -> bytes | None:
    """Return the wrapping contract that is listed for a chain."""
    return next((it.wrapped for it in NETWORKS if it.chain_id == chain_id), None)


def transfer_rows(logs: pa.Table, wrapped: bytes | None) -> pa.Table:
    """Return the rows of all logs of some blocks, which are in the order of their keys."""
    logs = logs.filter(pc.is_in(logs["topic0"], value_set=_EVENTS))
    found = [it for it in _movements(logs, wrapped) if it.kind in _KINDS]
    schema, columns = arrow_schema(TRANSFERS), _columns(found)
    arrays = [pa.array(columns[it.name], it.type) for it in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _movements(logs: pa.Table, wrapped: bytes | None) -> Iterator[Movement]:
    names = (*_OF_TRANSACTION, *_OF_LOG)
    rows = zip(*(logs[name].to_pylist() for name in names), strict=True)
    for place, own in groupby(rows, lambda row: row[: len(_OF_TRANSACTION)]):
        chain_id, height, time, index, hash_ = place
        called = Called(Place(chain_id, height, b"", time, index, hash_), None)
        yield from log_movements([_log(row) for row in own], called, wrapped)


def _log(row: tuple[Any, ...]) -> LogRow:
    """Return a log as the rule of wallets expects it: all arguments of ERC-721 are topics."""
    position, contract, *given, data = row[len(_OF_TRANSACTION) :]
    topics = (*takewhile(lambda each: each is not None, given),)
    if topics[0] == TRANSFER:
        if len(topics) == _UNIQUE:
            data = b""
        elif len(topics) == 1 and len(data) == _ARGUMENTS * _WORD:
            words = (data[at : at + _WORD] for at in range(0, len(data), _WORD))
            topics, data = (TRANSFER, *words), b""
    return LogRow(position, contract, topics, data)


def _columns(found: list[Movement]) -> dict[str, list[Any]]:
    ids = [it.token_id for it in found]
    return {
        "chain_id": [it.chain_id for it in found],
        "block_number": [it.block_number for it in found],
        "transaction_index": [it.transaction_index for it in found],
        "log_position": [it.position for it in found],
        "batch_position": [max(it.batch_position, 0) for it in found],
        "block_timestamp": [it.block_timestamp for it in found],
        "transaction_hash": [it.transaction_hash for it in found],
        "kind": [it.kind.value for it in found],
        "token_address": [it.token for it in found],
        "from_address": [it.sender or _ZERO for it in found],
        "to_address": [it.receiver or _ZERO for it in found],
        "token_id": [None if it is None else it.to_bytes(_WORD, "big") for it in ids],
        "token_id" + F64: [None if it is None else float(it) for it in ids],
        "amount": [it.amount.to_bytes(_WORD, "big") for it in found],
        "amount" + F64: [float(it.amount) for it in found],
    }
