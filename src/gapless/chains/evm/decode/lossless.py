"""The lossless decoder: it keeps in `extra` what the fast decoder skips.

The fast decoder skips undeclared keys, and assumes that copied fields are equal: a receipt's `from`
to its transaction's, a log's `blockHash` to its block's. This decoder reads every object in full,
and keeps each key without a column, unless it is such a copy and equal. So the whole answer is
stored. This takes several times as long, so it is used for the first block of each endpoint, for
every 1,000th block, and for all blocks of a network once `has_extra` was true for one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw

from gapless.chains.evm.codec.bloom import bloom_of_logs
from gapless.chains.evm.decode.structs import (
    ABSENT,
    Answer,
    Block,
    LightBlock,
    Log,
    Receipt,
    Transaction,
    Withdrawal,
    is_given,
    parse_block,
    parse_light_block,
    parse_receipts,
)
from gapless.core.errors import BadAnswer

Members = Mapping[str, Raw]

# Keys without a column, because they are copies of others. They are kept if they differ.
_COPIES: dict[type[Answer], set[str]] = {
    Block: set(),
    LightBlock: set(),
    Transaction: {"blockHash", "blockNumber", "blockTimestamp", "transactionIndex"},
    Receipt: {"blockHash", "blockNumber", "blockTimestamp", "transactionHash", "transactionIndex"}
    | {"from", "to", "type", "logsBloom"},
    Log: {"blockHash", "blockNumber", "blockTimestamp", "transactionHash", "transactionIndex"}
    | {"removed"},
    Withdrawal: set(),
}
_COLUMNS = {kind: {*kind.__struct_encode_fields__} - copies for kind, copies in _COPIES.items()}

_objects = msgspec.json.Decoder(dict[str, Raw])
_lists = msgspec.json.Decoder(list[dict[str, Raw]])


def keep_block(raw: bytes | Raw) -> Block:
    """Parse a block, and fill in `extra` of the block, its transactions and its withdrawals."""
    block = parse_block(raw)
    members = _objects.decode(raw)
    place = _place(block)
    _keep(block, members, {})
    for at, row in enumerate(_paired(block.transactions, members, "transactions")):
        _keep(*row, {**place, "transactionIndex": hex(at)})
    for pair in _paired(block.withdrawals or (), members, "withdrawals"):
        _keep(*pair, {})
    return block


def keep_light_block(raw: bytes | Raw) -> LightBlock:
    """Parse a light block, and fill in `extra` of the block and its withdrawals."""
    block = parse_light_block(raw)
    members = _objects.decode(raw)
    _keep(block, members, {})
    for pair in _paired(block.withdrawals or (), members, "withdrawals"):
        _keep(*pair, {})
    return block


def keep_receipts(raw: bytes | Raw, block: Block) -> list[Receipt]:
    """Parse the receipts of a block, and fill in `extra` of the receipts and their logs."""
    receipts = parse_receipts(raw)
    rows = {row.hash: row for row in block.transactions}
    for receipt, members in zip(receipts, _lists.decode(raw), strict=True):
        row = rows.get(receipt.transaction_hash)
        if row is None:
            raise BadAnswer(f"a receipt of block {block.number} belongs to no transaction of it")
        place = {
            **_place(block),
            "transactionHash": row.hash,
            "transactionIndex": row.transaction_index,
        }
        copies = {"from": row.from_, "to": row.to, "type": row.type, "logsBloom": _bloom(receipt)}
        _keep(receipt, members, {**place, **copies})
        for pair in _paired(receipt.logs, members, "logs"):
            _keep(*pair, {**place, "removed": False})
    return receipts


def has_extra(block: Block | LightBlock, receipts: Sequence[Receipt] = ()) -> bool:
    """Whether any key was kept, so that all blocks of the network need this decoder."""
    logs = chain.from_iterable(receipt.logs for receipt in receipts)
    transactions = block.transactions if isinstance(block, Block) else ()
    rows = chain((block,), transactions, block.withdrawals or (), receipts, logs)
    return any(row.extra is not ABSENT for row in rows)


def _place(block: Block) -> dict[str, Any]:
    names = ("blockHash", "blockNumber", "blockTimestamp")
    return dict(zip(names, (block.hash, block.number, block.timestamp), strict=True))


def _bloom(receipt: Receipt) -> str | None:
    try:
        return bloom_of_logs(receipt.logs)
    except ValueError:
        return None  # a log is malformed: decoding it will raise an error


def _paired(rows: Any, members: Members, key: str) -> Iterator[tuple[Any, dict[str, Raw]]]:
    return zip(rows, _items(members, key), strict=True)


def _items(members: Members, key: str) -> list[dict[str, Raw]]:
    raw = members.get(key, ABSENT)
    return _lists.decode(raw) if is_given(raw) else []


def _keep(row: Answer, members: Members, implied: Mapping[str, Any]) -> None:
    columns = _COLUMNS[type(row)]
    kept = {
        key: value
        for key, value in members.items()
        if key not in columns and not (key in implied and _equal(value, implied[key]))
    }
    if kept:
        row.extra = Raw(msgspec.json.encode(kept, order="sorted"))


def _equal(raw: Raw, implied: Any) -> bool:
    value = msgspec.json.decode(raw)
    if isinstance(value, str):
        return bool(value.lower() == implied)
    if isinstance(value, int) and isinstance(implied, str):  # anvil returns timestamps as numbers
        return hex(value) == implied
    return bool(value == implied)
