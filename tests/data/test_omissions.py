"""At the default level, omissions, duplicates and changes of order are refused or repaired.

A field that follows from others may be missing: honest old nodes omit some. What is stored then is
what an honest node would have sent. The exceptions are fields that no commitment covers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.chains import Level
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.checks.completion import complete
from gapless.chains.evm.decode.lossless import keep_block, keep_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.core.errors import BadAnswer
from gapless.schema.arrow import Tables
from tests.data.recorded import real_block, with_blocks
from tests.data.test_unprovable_fields import LAWFUL, Path, at, replaced, whole
from tests.evm import checks_of, evm_network

pytestmark = with_blocks

# Columns whose value may be lost when a node omits it: nothing that is proven implies it.
UNCOMMITTED = {
    ("blocks", "size"),
    ("blocks", "total_difficulty"),
    ("blocks", "total_difficulty_f64"),
    ("blocks", "uncles"),
    ("transactions", "blob_gas_price"),
    ("transactions", "blob_gas_price_f64"),
    ("transactions", "deposit_nonce"),
    ("transactions", "l1_fee"),
    ("transactions", "l1_fee_f64"),
    ("transactions", "l1_gas_price"),
    ("transactions", "l1_gas_price_f64"),
    ("transactions", "l1_gas_used"),
    ("blocks", "extra"),
    ("transactions", "extra"),
    ("logs", "extra"),
    ("withdrawals", "extra"),
    # Before Byzantium. Not every node kept it; without it, the receipts count as unproven.
    ("transactions", "root"),
    # For an Optimism deposit, which nobody signs and whose gas costs nothing.
    ("transactions", "v"),
    ("transactions", "r"),
    ("transactions", "s"),
}


def stored(chain: str, height: int, value: dict[str, Any]) -> Tables:
    """What the default level stores of an answer, or `BadAnswer`."""
    network = evm_network(real_block(chain, height).chain_id)
    assert network.chain_id is not None
    block = keep_block(msgspec.json.encode(value["block"]))
    receipts = keep_receipts(msgspec.json.encode(value["receipts"]), block)
    complete(block, receipts, network, height)
    check_block(block, receipts, network, checks_of(Level.AUTO), height)
    return decode_blocks([block], [receipts], network.chain_id)


@cache
def honest(chain: str, height: int) -> Tables:
    return stored(chain, height, whole(chain, height))


def members(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every key of every object."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield (*path, key)
            yield from members(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from members(member, (*path, index))


def lists(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every list that is not empty."""
    if isinstance(value, list) and value:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in children:
        if isinstance(member, dict | list):
            yield from lists(member, (*path, key))


@cache
def by_kind(chain: str, height: int, of_lists: bool) -> dict[str, list[Path]]:
    """Paths by the names in them, so that 800 topics do not hide one base fee."""
    found: dict[str, list[Path]] = {}
    value = whole(chain, height)
    for path in lists(value) if of_lists else members(value):
        kind = ".".join(part for part in path if isinstance(part, str))
        if len(path) > 1 or of_lists:
            found.setdefault(kind, []).append(path)
    return found


@st.composite
def places(draw: st.DrawFn, of_lists: bool) -> tuple[str, int, Path]:
    chain, height = draw(st.sampled_from(LAWFUL))
    kinds = by_kind(chain, height, of_lists)
    return chain, height, draw(st.sampled_from(kinds[draw(st.sampled_from(sorted(kinds)))]))


def without(value: Any, path: Path) -> Any:
    parent = copy.copy(at(value, path[:-1]))
    del parent[path[-1]]
    return replaced(value, path[:-1], parent)


def differing(chain: str, height: int, value: dict[str, Any]) -> set[tuple[str, str]]:
    """The columns that differ from those of the honest answer; none if it is refused."""
    try:
        tables = stored(chain, height, value)
    except BadAnswer:
        return set()
    return {
        (name, column)
        for name, rows in honest(chain, height).items()
        for column in rows.column_names
        if not rows[column].equals(tables[name][column])
    }


@settings(max_examples=400, deadline=None)
@given(places(of_lists=False), st.booleans())
def test_a_field_that_is_null_or_absent_is_refused_or_derived(
    place: tuple[str, int, Path], dropped: bool
) -> None:
    chain, height, path = place
    value = whole(chain, height)
    changed = without(value, path) if dropped else replaced(value, path, None)
    assert differing(chain, height, changed) <= UNCOMMITTED


@settings(max_examples=250, deadline=None)
@given(places(of_lists=True), st.sampled_from(["lose", "double", "swap", "clear"]), st.data())
def test_a_list_that_is_cut_duplicated_or_reordered_is_refused(
    place: tuple[str, int, Path], how: str, data: st.DataObject
) -> None:
    chain, height, path = place
    value = whole(chain, height)
    items = list(at(value, path))
    one = data.draw(st.integers(0, len(items) - 1))
    other = data.draw(st.integers(0, len(items) - 1))
    if how == "lose":
        del items[one]
    elif how == "double":
        items.insert(one, items[one])
    elif how == "swap":
        items[one], items[other] = items[other], items[one]
    else:
        items.clear()
    changed = replaced(value, path, items)
    assert differing(chain, height, changed) <= {("blocks", "uncles")}
