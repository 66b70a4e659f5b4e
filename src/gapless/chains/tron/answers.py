"""The JSON that java-tron nodes return, as typed structs.

Nodes omit every field that has its default value, so a missing number is zero, a missing list is
empty, and a missing enumeration is its first member: a transaction without `contractRet` has the
result `DEFAULT`, not `SUCCESS`.

The `raw_data` of a transaction is not declared: it repeats `raw_data_hex`, and nothing proves that
it does so correctly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from gapless.core.errors import BadAnswer

RESULTS = (
    *("DEFAULT", "SUCCESS", "REVERT", "BAD_JUMP_DESTINATION", "OUT_OF_MEMORY"),
    *("PRECOMPILED_CONTRACT", "STACK_TOO_SMALL", "STACK_TOO_LARGE", "ILLEGAL_OPERATION"),
    *("STACK_OVERFLOW", "OUT_OF_ENERGY", "OUT_OF_TIME", "JVM_STACK_OVER_FLOW", "UNKNOWN"),
    *("TRANSFER_FAILED", "INVALID_CODE"),
)
"""The names of results, by their number."""
RESULT_NUMBERS: Mapping[str, int] = {name: number for number, name in enumerate(RESULTS)}
FAILED = "FAILED"


class TronHeaderFields(Struct, frozen=True):
    number: int = 0
    timestamp: int = 0
    version: int = 0
    witness_id: int = 0
    witness_address: str = ""
    parent_hash: str = field(default="", name="parentHash")
    transactions_root: str = field(default="", name="txTrieRoot")
    account_state_root: str = field(default="", name="accountStateRoot")


class HeaderAnswer(Struct, frozen=True):
    raw_data: TronHeaderFields
    witness_signature: str = ""


class TransactionAnswer(Struct, frozen=True):
    id: str = field(name="txID")
    raw_data_hex: str
    signature: list[str] = []
    ret: list[dict[str, Any]] = []


class BlockAnswer(Struct, frozen=True):
    id: str = field(name="blockID")
    header: HeaderAnswer = field(name="block_header")
    transactions: list[TransactionAnswer] = []


class ResourceReceipt(Struct, frozen=True):
    energy_usage: int = 0
    energy_fee: int = 0
    origin_energy_usage: int = 0
    energy_usage_total: int = 0
    energy_penalty_total: int = 0
    net_usage: int = 0
    net_fee: int = 0
    result: str = RESULTS[0]


class LogAnswer(Struct, frozen=True):
    address: str = ""
    topics: list[str] = []
    data: str = ""


class CallValue(Struct, frozen=True):
    value: int = field(default=0, name="callValue")
    asset: str = field(default="", name="tokenId")


class InternalAnswer(Struct, frozen=True):
    hash: str = ""
    caller_address: str = ""
    to_address: str = field(default="", name="transferTo_address")
    values: list[CallValue] = field(default_factory=list, name="callValueInfo")
    note: str = ""
    rejected: bool = False
    extra: str = ""


class InfoAnswer(Struct, frozen=True):
    """The outcome of a transaction."""

    id: str
    block_number: int = field(default=0, name="blockNumber")
    block_timestamp: int = field(default=0, name="blockTimeStamp")
    fee: int = 0
    outputs: list[str] = field(default_factory=list, name="contractResult")
    contract_address: str = ""
    receipt: ResourceReceipt = ResourceReceipt()
    logs: list[LogAnswer] = field(default_factory=list, name="log")
    result: str = ""
    message: str = field(default="", name="resMessage")
    internals: list[InternalAnswer] = field(default_factory=list, name="internal_transactions")
    withdraw_amount: int = 0
    unfreeze_amount: int = 0
    withdraw_expire_amount: int = 0


Members = Mapping[str, Any]
_Kind = TypeVar("_Kind")


def parse_block(data: bytes) -> tuple[BlockAnswer, Members]:
    """Return a block, and the same with all keys that the node sent."""
    given = _decoded(data, "a TRON block")
    return _converted(given, BlockAnswer, "a TRON block"), given


def parse_infos(data: bytes) -> tuple[list[InfoAnswer], list[Members]]:
    """Return the infos of a block, and the same with all keys that the node sent."""
    given = _decoded(data, "a list of TRON transaction infos")
    return _converted(given, list[InfoAnswer], "a list of TRON transaction infos"), given


def from_hex(text: str, what: str) -> bytes:
    """Return the bytes of a field; some nodes write `0x` in front."""
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError as error:
        raise BadAnswer(f"`{what}` is not hex: {error}") from error


def others(given: Members, kind: type[Struct], *more: str) -> dict[str, Any]:
    """Return what a node sent beyond the declared fields and `more`."""
    unknown = given.keys() - kind.__struct_encode_fields__
    return {key: given[key] for key in sorted(unknown.difference(more))} if unknown else {}


def _decoded(data: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"this is not {what}: {error}") from error


def _converted(given: Any, kind: type[_Kind], what: str) -> _Kind:
    try:
        return msgspec.convert(given, kind)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"this is not {what}: {error}") from error
