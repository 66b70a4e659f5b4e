"""Checks a real block as it was recorded, or as a test changed it."""

from __future__ import annotations

from typing import Any

import msgspec

from gapless.chains import Level
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.decode.structs import Block, Header, Receipt, parse_block, parse_receipts
from gapless.chains.evm.networks import EvmNetwork
from gapless.core.proof import Proof
from tests.data.recorded import RealBlock
from tests.evm import checks_of, evm_network


def network(it: RealBlock) -> EvmNetwork:
    return evm_network(it.chain_id)


def parsed(raw: dict[str, Any]) -> Block:
    block = parse_block(msgspec.json.encode(raw))
    block.extra = undeclared(raw, Block)
    return block


def undeclared(raw: dict[str, Any], kind: type[Header]) -> msgspec.Raw:
    more = {key: raw[key] for key in raw.keys() - set(kind.__struct_encode_fields__)}
    return msgspec.Raw(msgspec.json.encode(more)) if more else msgspec.Raw()


def parsed_receipts(raw: list[dict[str, Any]] | None) -> list[Receipt] | None:
    return None if raw is None else parse_receipts(msgspec.json.encode(raw))


def check(
    it: RealBlock,
    level: Level,
    block: dict[str, Any] | None = None,
    receipts: list[dict[str, Any]] | None = None,
) -> Proof:
    """Checks a real block, or a changed one."""
    whole = parsed(it.block if block is None else block)
    answered = parsed_receipts(it.receipts if receipts is None else receipts)
    return check_block(whole, answered, network(it), checks_of(level), it.height)
