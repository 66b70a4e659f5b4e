"""Stored rows that were altered, and what the compiled core and the reference say about them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from gapless.chains.evm.checks.native_rows import prove_rows
from gapless.chains.evm.checks.rows import examine_rows, provable
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.family import Examined
from gapless.schema.arrow import Tables
from tests.evm_core import CORE

_TEXTS = ("[]", "{}", '{"a":1}', '{"chainId":"0x9"}', '{"yParity":"0x1"}', '{"receipt":{ }}', "]")


def assert_examined_alike(
    tables: Mapping[str, pa.Table], network: EvmNetwork, chain_id: int, checks: frozenset[str]
) -> Examined:
    """Assert that the core changes nothing, and proves all rows without a flaw itself."""
    found = assert_examined_equally(tables, network, chain_id, checks)
    assert CORE.module is not None
    if not found.flaws:
        possible = provable(checks, [*tables])
        assert prove_rows(CORE.module, tables, network, chain_id, possible) is not None
    return found


def assert_examined_equally(
    tables: Mapping[str, pa.Table], network: EvmNetwork, chain_id: int, checks: frozenset[str]
) -> Examined:
    """Assert that the core changes nothing; it may leave unusual rows to the reference."""
    assert CORE.module is not None
    found = examine_rows(tables, network, chain_id, checks)
    assert examine_rows(tables, network, chain_id, checks, CORE.module) == found
    return found


def altered(tables: Mapping[str, pa.Table], seed: int) -> Iterator[tuple[str, Tables]]:
    """Yield the tables with one value of each column changed, and what was changed."""
    rng = random.Random(seed)
    for name, rows in tables.items():
        for field in rows.schema if rows.num_rows else ():
            values = rows[field.name].to_pylist()
            at = rng.randrange(len(values))
            values[at] = _other(values[at], field.type, rng)
            array = pa.array(values, field.type)
            changed = rows.set_column(rows.schema.get_field_index(field.name), field, array)
            yield f"{name}.{field.name}", Tables({**tables, name: changed})


def _other(value: Any, kind: pa.DataType, rng: random.Random) -> Any:
    if isinstance(value, bytes) and value:
        at = rng.randrange(len(value))
        return value[:at] + bytes([value[at] ^ 1 << rng.randrange(8)]) + value[at + 1 :]
    if pa.types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    if pa.types.is_string(kind):
        return rng.choice([text for text in _TEXTS if text != value])
    if pa.types.is_boolean(kind):
        return not value
    return b"\1" if pa.types.is_binary(kind) else 1 if value is None else value + 1
