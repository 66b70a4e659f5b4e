"""The lossless decoder: it keeps in `extra` what the fast decoder skips.

The fast decoder skips undeclared keys, and assumes that copied fields are equal: a receipt's `from`
to its transaction's, a log's `blockHash` to its block's. This decoder reads every object in full,
and keeps each key without a column, unless it is such a copy and equal. So the whole answer is
stored. This takes several times as long, so it is used for the first block of each endpoint, for
every 1,000th block, and for all blocks of a network once `has_extra` was true for one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw

from gapless.chains.evm.codec.bloom import bloom_of_logs
from gapless.chains.evm.decode.form import U64
from gapless.chains.evm.decode.grammar import check_forms, make_plain
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
    keep,
    parse_block,
    parse_light_block,
    parse_receipts,
    was_sent,
)

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

_is_number = re.compile(rb'"0x[0-9a-f]{1,16}"').fullmatch  # hashes are longer

_objects = msgspec.json.Decoder(dict[str, Raw])
_lists = msgspec.json.Decoder(list[dict[str, Raw]])


def keep_block(raw: bytes | Raw) -> Block:
    """Parse a block, and fill in `extra` of the block, its transactions and its withdrawals."""
    block = parse_block(raw)
    make_plain(block, None)
    members = _objects.decode(raw)
    place = _place(block)
    _keep(block, members, {})
    for at, row in enumerate(_paired(block.transactions, members, "transactions")):
        _keep(*row, {**place, "transactionIndex": _json(hex(at))})
    for pair in _paired(block.withdrawals or (), members, "withdrawals"):
        _keep(*pair, {})
    return block


def keep_light_block(raw: bytes | Raw) -> LightBlock:
    """Parse a light block, and fill in `extra` of the block and its withdrawals."""
    block = parse_light_block(raw)
    make_plain(block, None)
    members = _objects.decode(raw)
    _keep(block, members, {})
    for pair in _paired(block.withdrawals or (), members, "withdrawals"):
        _keep(*pair, {})
    return block


def keep_receipts(raw: bytes | Raw, block: Block) -> list[Receipt]:
    """Parse the receipts of a block, and fill in `extra` of the receipts and their logs."""
    receipts = parse_receipts(raw)
    make_plain(block, receipts)
    rows = {row.hash: row for row in block.transactions}
    own = _place(block)
    for receipt, members in zip(receipts, _lists.decode(raw), strict=True):
        row = rows.get(receipt.transaction_hash)
        place, copies = {**own}, dict[str, bytes]()
        if row is not None:  # else the checks decide, or the decoder refuses it
            place["transactionHash"] = _json(row.hash)
            place["transactionIndex"] = _json(row.transaction_index)
            to = None if row.to is None else row.to.lower()
            copies = {"from": _json(row.from_.lower()), "to": _json(to), "type": _json(row.type)}
        copies["logsBloom"] = _json(_bloom(receipt))
        _keep(receipt, members, {**place, **copies})
        implied = {**place, "removed": b"false"}
        for pair in _paired(receipt.logs, members, "logs"):
            _keep(*pair, implied)
    return receipts


def has_extra(block: Block | LightBlock, receipts: Sequence[Receipt] = ()) -> bool:
    """Whether any key was kept, so that all blocks of the network need this decoder."""
    logs = chain.from_iterable(receipt.logs for receipt in receipts)
    transactions = block.transactions if isinstance(block, Block) else ()
    rows = chain((block,), transactions, block.withdrawals or (), receipts, logs)
    return any(row.extra is not ABSENT for row in rows)


def _place(block: Block) -> dict[str, bytes]:
    check_forms([block], block.number)
    return {
        "blockHash": _json(block.hash),
        "blockNumber": _json(block.number),
        "blockTimestamp": _json(U64.normal(block.timestamp)),
    }


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


def _keep(row: Answer, members: Members, implied: Mapping[str, bytes]) -> None:
    columns = _COLUMNS[type(row)]
    kept = {
        key: value
        for key, value in members.items()
        if key not in columns and not (key in implied and _equal(bytes(value), implied[key]))
    }
    if kept and not was_sent(row.extra):  # the reserved key is left, to be refused
        row.extra = keep(msgspec.json.encode(kept, order="sorted"))


def _json(value: str | None) -> bytes:
    """Return the usual notation of a copy: its value, normalized, as JSON."""
    return b"null" if value is None else b'"%s"' % value.encode()


def _equal(given: bytes, implied: bytes) -> bool:
    """Whether a copy equals its usual notation; only a text is decoded, as it can be anything."""
    if given == implied:
        return True
    if given.startswith(b'"'):
        return _json(msgspec.json.decode(given, type=str).lower()) == implied
    if _is_number(implied):
        return given == b"%d" % int(implied[1:-1], 16)  # anvil returns timestamps as numbers
    return False
