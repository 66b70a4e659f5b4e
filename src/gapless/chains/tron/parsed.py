"""A TRON block between its source and its tables: parsed from answers, or restored from rows.

The header is encoded from its JSON fields once. Everything else, the check of the block's id and
its columns, works with these bytes, so that both see the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gapless.chains.tron.answers import (
    RESULT_NUMBERS,
    BlockAnswer,
    HeaderAnswer,
    InfoAnswer,
    Members,
    TransactionAnswer,
    TronHeaderFields,
    from_hex,
    others,
    parse_block,
    parse_infos,
)
from gapless.chains.tron.hashing import header_bytes, transaction_bytes
from gapless.chains.tron.protobuf import Message, number_field
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.core.errors import BadAnswer

_CODES = {"SUCESS": 0, "FAILED": 1}  # the protocol's spelling
Results = Sequence[Members]


@dataclass(frozen=True)
class TronHeader:
    """A header, read from the bytes that the block's id covers."""

    raw_data: bytes

    @cached_property
    def _message(self) -> Message:
        return Message(self.raw_data)

    @property
    def number(self) -> int:
        return self._message.unsigned(7)

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""
        return self._message.unsigned(1)

    @property
    def transactions_root(self) -> bytes:
        return self._message.octets(2)

    @property
    def parent_hash(self) -> bytes:
        return self._message.octets(3)

    @property
    def witness(self) -> bytes:
        """An address of 21 bytes; text in the genesis block."""
        return self._message.octets(9)

    @property
    def version(self) -> int:
        return self._message.unsigned(10)


@dataclass(frozen=True)
class ParsedTransaction:
    id: bytes
    raw_data: bytes
    signatures: Sequence[bytes]
    results: Results
    extra: Members = field(default_factory=dict)

    def encoded(self) -> bytes | None:
        """Encode the whole transaction; None if a result has a field without a known encoding."""
        found = [*map(_encoded_result, self.results)]
        results = [each for each in found if each is not None]
        if len(results) < len(found):
            return None
        return transaction_bytes(self.raw_data, self.signatures, results)


@dataclass(frozen=True)
class ParsedInfo:
    """The outcome of a transaction, with all keys that the node sent."""

    answer: InfoAnswer
    id: bytes
    given: Members


@dataclass(frozen=True)
class ParsedTronBlock:
    id: bytes
    header: TronHeader
    witness_signature: bytes
    transactions: Sequence[ParsedTransaction]
    infos: Sequence[ParsedInfo] | None  # None: not requested
    extra: Members = field(default_factory=dict)


def parsed(raw: RawTronBlock) -> ParsedTronBlock:
    """Parse a node's answers; raise `BadAnswer` if they are malformed."""
    return _parsed(raw.block, raw.infos)


def parsed_other(raw: RawTronBlock) -> ParsedTronBlock | None:
    """Parse the answers of the second endpoint, if it gave any."""
    return None if raw.other_block is None else _parsed(raw.other_block, raw.other_infos)


def _parsed(block: bytes, infos: bytes | None) -> ParsedTronBlock:
    answer, given = parse_block(block)
    listed = given.get("transactions", [])
    return ParsedTronBlock(
        id=_hash(answer.id, "blockID"),
        header=_header(answer.header.raw_data),
        witness_signature=from_hex(answer.header.witness_signature, "witness_signature"),
        transactions=[*map(_transaction, answer.transactions, listed)],
        infos=None if infos is None else _infos(infos),
        extra=_block_extra(given),
    )


def _header(fields: TronHeaderFields) -> TronHeader:
    for name in ("number", "timestamp"):
        if getattr(fields, name) < 0:
            raise BadAnswer(f"`{name}` of a block is negative")
    return TronHeader(
        header_bytes(
            timestamp=fields.timestamp,
            transactions_root=from_hex(fields.transactions_root, "txTrieRoot"),
            parent_hash=_hash(fields.parent_hash, "parentHash"),
            number=fields.number,
            witness_id=fields.witness_id,
            witness_address=from_hex(fields.witness_address, "witness_address"),
            version=fields.version,
            account_state_root=from_hex(fields.account_state_root, "accountStateRoot"),
        )
    )


def _block_extra(given: Members) -> Members:
    header = given["block_header"]
    inner = others(header["raw_data"], TronHeaderFields)
    outer = others(header, HeaderAnswer) | ({"raw_data": inner} if inner else {})
    return others(given, BlockAnswer) | ({"block_header": outer} if outer else {})


def _transaction(it: TransactionAnswer, given: Members) -> ParsedTransaction:
    return ParsedTransaction(
        id=_hash(it.id, "txID"),
        raw_data=from_hex(it.raw_data_hex, "raw_data_hex"),
        signatures=[from_hex(each, "signature") for each in it.signature],
        results=it.ret,
        extra=others(given, TransactionAnswer, "raw_data"),
    )


def _infos(data: bytes) -> list[ParsedInfo]:
    answers, given = parse_infos(data)
    return [
        ParsedInfo(answer, _hash(answer.id, "id of an info"), members)
        for answer, members in zip(answers, given, strict=True)
    ]


def _hash(text: str, what: str) -> bytes:
    found = from_hex(text, what)
    if len(found) != 32:
        raise BadAnswer(f"`{what}` has {len(found)} bytes, not 32")
    return found


def _encoded_result(it: Members) -> bytes | None:
    known: dict[str, Any] = {"fee": 0, "ret": "SUCESS", "contractRet": "DEFAULT", **it}
    fee, code, outcome = known["fee"], _CODES.get(known["ret"]), None
    if isinstance(known["contractRet"], str):
        outcome = RESULT_NUMBERS.get(known["contractRet"])
    if len(known) > 3 or type(fee) is not int or code is None or outcome is None:
        return None
    return number_field(1, fee) + number_field(2, code) + number_field(3, outcome)
