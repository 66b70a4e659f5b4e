"""The canonical encoding of a block header, whose hash is the block's hash.

Every header begins with the same fields. The next ones depend on how blocks are sealed, and forks
append more at the end. Appended fields are identified by position: a header ends with the last
field that has a value, and a missing field before it is an empty string.

    form        seal                                appended by forks
    ETHEREUM    mixHash, nonce                      baseFeePerGas … slotNumber
    AURA        step and signature until the merge  as above
    AVALANCHE   mixHash, nonce, extDataHash         its own order
    TEMPO       as Ethereum                         three fields before an Ethereum header

Each form was confirmed with real blocks. The decoder does not declare fields that only some
networks have; they are passed in `more`, under their JSON names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, TypeAlias

from gapless.chains.evm.codec.fields import HeaderFields, NoEncoding
from gapless.chains.evm.codec.hexrlp import (
    EMPTY,
    address,
    bloom,
    data,
    listed,
    number,
    packed,
    word,
)
from gapless.chains.evm.codec.keccak import keccak

Fields: TypeAlias = "tuple[tuple[str, Callable[[str], str]], ...]"
More: TypeAlias = "Mapping[str, Any]"

NOTHING_MORE: More = {}


class HeaderForm(Enum):
    """How a network lays out its headers."""

    ETHEREUM = "ethereum"
    AURA = "aura"
    AVALANCHE = "avalanche"
    TEMPO = "tempo"


_FRONT: Fields = (
    ("parent_hash", word),
    ("sha3_uncles", word),
    ("miner", address),
    ("state_root", word),
    ("transactions_root", word),
    ("receipts_root", word),
    ("logs_bloom", bloom),
    ("difficulty", number),
    ("number", number),
    ("gas_limit", number),
    ("gas_used", number),
    ("timestamp", number),
    ("extra_data", data),
)
_SEALED: Fields = (*_FRONT, ("mix_hash", word), ("nonce", data))

_APPENDED: Fields = (
    ("base_fee_per_gas", number),
    ("withdrawals_root", word),
    ("blob_gas_used", number),
    ("excess_blob_gas", number),
    ("parent_beacon_block_root", word),
    ("requests_hash", word),
    ("block_access_list_hash", word),
    ("slot_number", number),
)

_is_quantity = re.compile("0x[0-9a-fA-F]{1,64}").fullmatch
_is_data = re.compile("0x(?:[0-9a-fA-F]{2})*").fullmatch


def _strict_number(field: str) -> str:
    """Encode a quantity that no decoder has examined."""
    if not _is_quantity(field):
        raise ValueError(f"`{field[:70]}` is not a quantity")
    return number(field)


def _strict_data(field: str) -> str:
    """Encode bytes that no decoder has examined."""
    if not _is_data(field):
        raise ValueError(f"`{field[:70]}` is not whole bytes in hex")
    return data(field)


def _strict_word(field: str) -> str:
    """Encode a word that no decoder has examined."""
    _strict_data(field)
    return word(field)


_AVALANCHE_FEES: Fields = (("extDataGasUsed", _strict_number), ("blockGasCost", _strict_number))
_AVALANCHE_BLOBS: Fields = (
    ("blob_gas_used", number),
    ("excess_blob_gas", number),
    ("parent_beacon_block_root", word),
)
_AVALANCHE_NEWER: Fields = tuple(
    (name, _strict_number)
    for name in (
        *("timestampMilliseconds", "minDelayExcess", "targetExcess", "settledHeight"),
        *("settledGasUnix", "settledGasNumerator", "settledExcess"),
    )
)
_TEMPO: Fields = tuple(
    (name, _strict_number)
    for name in ("mainBlockGeneralGasLimit", "sharedGasLimit", "timestampMillisPart")
)
# Different clients of AuRa chains use different names.
_AURA_SEALS: tuple[Fields, ...] = (
    (("auraStep", _strict_number), ("auraSeal", _strict_data)),
    (("step", _strict_number), ("signature", _strict_data)),
)

_front_of, _sealed_of = (attrgetter(*dict(fields)) for fields in (_FRONT, _SEALED))
_appended_of = attrgetter(*dict(_APPENDED))
_avalanche_blobs_of = attrgetter(*dict(_AVALANCHE_BLOBS))


def header_hash(
    block: HeaderFields, form: HeaderForm = HeaderForm.ETHEREUM, more: More = NOTHING_MORE
) -> bytes:
    """Return the hash of the block with this header."""
    return keccak(header(block, form, more))


def header(
    block: HeaderFields, form: HeaderForm = HeaderForm.ETHEREUM, more: More = NOTHING_MORE
) -> bytes:
    """Encode a header as its network hashes it.

    Raise `ValueError` if a field is missing or malformed.
    """
    try:
        return packed(_ENCODERS[form](block, more))
    except (TypeError, AttributeError) as error:
        raise ValueError(f"the header lacks a field, or one has the wrong type: {error}") from None


def _ethereum(block: HeaderFields, _: More) -> str:
    return listed(_all(_SEALED, _sealed_of(block)) + _appended(block))


def _aura(block: HeaderFields, more: More) -> str:
    if block.difficulty is None or not int(block.difficulty, 16):
        return _ethereum(block, more)
    for seal in _AURA_SEALS:
        if all(name in more for name, _ in seal):
            front = _all(_FRONT, _front_of(block)) + _all(seal, _given(seal, more))
            return listed(front + _appended(block))
    raise NoEncoding("the block is from before the merge, and the node does not return its seal")


def _avalanche(block: HeaderFields, more: More) -> str:
    if "extDataHash" not in more:
        raise NoEncoding("the node's `extDataHash` was not kept")
    fields = (("base_fee_per_gas", number), *_AVALANCHE_FEES, *_AVALANCHE_BLOBS, *_AVALANCHE_NEWER)
    values = (
        block.base_fee_per_gas,
        *_given(_AVALANCHE_FEES, more),
        *_avalanche_blobs_of(block),
        *_given(_AVALANCHE_NEWER, more),
    )
    front = _all(_SEALED, _sealed_of(block)) + _strict_word(more["extDataHash"])
    return listed(front + _trailing(fields, values))


def _tempo(block: HeaderFields, more: More) -> str:
    if "consensusContext" in more or any(name not in more for name, _ in _TEMPO):
        raise NoEncoding("the fields of the header differ from the known ones")
    return listed(_all(_TEMPO, _given(_TEMPO, more)) + _ethereum(block, more))


_ENCODERS: dict[HeaderForm, Callable[[HeaderFields, More], str]] = {
    HeaderForm.ETHEREUM: _ethereum,
    HeaderForm.AURA: _aura,
    HeaderForm.AVALANCHE: _avalanche,
    HeaderForm.TEMPO: _tempo,
}


def _appended(block: HeaderFields) -> str:
    return _trailing(_APPENDED, _appended_of(block))


def _given(fields: Fields, more: More) -> tuple[Any, ...]:
    return tuple(more.get(name) for name, _ in fields)


def _all(fields: Fields, values: Sequence[Any]) -> str:
    return "".join([encode(value) for (_, encode), value in zip(fields, values, strict=True)])


def _trailing(fields: Fields, values: Sequence[Any]) -> str:
    """Encode the fields up to the last one that has a value."""
    size = len(values)
    while size and values[size - 1] is None:
        size -= 1
    return "".join(
        [
            EMPTY if value is None else encode(value)
            for (_, encode), value in zip(fields[:size], values[:size], strict=True)
        ]
    )
