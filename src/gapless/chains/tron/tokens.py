"""Decode the transfers of TRC-20 and TRC-721 tokens from logs.

Both standards use the same event, `Transfer(address,address,uint256)`. Three topics and a word of
data are an amount of a TRC-20 token, four topics and no data are one TRC-721 token. Anything else
is not decoded: without the contract's own description, it would be a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.chains.tron.contracts import Columns, address_columns
from gapless.schema import F64

TRANSFER = bytes.fromhex("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
_WORD = 32
_BEFORE_ADDRESS = 12
_FUNGIBLE, _UNIQUE = 3, 4  # topics
# Contracts built by older compilers keep the version byte in front of an address.
_PADDINGS = (bytes(_BEFORE_ADDRESS), bytes(_BEFORE_ADDRESS - 1) + b"\x41")


_AMOUNT, _NFT = "amount", "nft_id"
_ABSENT = {
    **address_columns("from", None),
    **address_columns("to", None),
    **dict.fromkeys((_AMOUNT, _AMOUNT + F64, _NFT, _NFT + F64)),
}


def transfer_columns(topics: Sequence[bytes], data: bytes) -> Columns:
    """Return the columns of a transfer, all null if the log is not one."""
    if not topics or topics[0] != TRANSFER:
        return _ABSENT
    if len(topics) == _FUNGIBLE and len(data) == _WORD:
        name, value = _AMOUNT, data
    elif len(topics) == _UNIQUE and not data:
        name, value = _NFT, topics[3]
    else:
        return _ABSENT
    sender, receiver = map(_address, topics[1:3])
    if sender is None or receiver is None:
        return _ABSENT
    return {
        **_ABSENT,
        **address_columns("from", sender),
        **address_columns("to", receiver),
        name: value,
        name + F64: float(int.from_bytes(value, "big")),
    }


def _address(topic: bytes) -> bytes | None:
    is_address = topic[:_BEFORE_ADDRESS] in _PADDINGS
    return topic[_BEFORE_ADDRESS:] if is_address else None
