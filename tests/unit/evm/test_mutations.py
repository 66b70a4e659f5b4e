"""Whatever a node answers, a block is stored as it is on the chain, or refused; nothing crashes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gapless.chains import Level
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.evm.reading import read
from gapless.chains.family import Reading, Wanted
from gapless.devnode import Parameters
from tests.evm_answers import Answers, simulated_answers, small_real_answer, wanted_of
from tests.examples import examples
from tests.unit.evm.meanings import respelled, revalued
from tests.unit.evm.mutations import compare, mutated, refusals

PARAMETERS = Parameters(blocks=8, txs=3, fewest=0, seed=7)
# Columns that level `roots` does not prove; see `test_unprovable_fields`.
UNPROVEN = {
    "blocks": {"size", "total_difficulty", "total_difficulty_f64", "uncles", "extra"},
    "transactions": {
        "from_address",
        "gas_price",
        "gas_price_f64",
        "blob_gas_price",
        "blob_gas_price_f64",
        "extra",
    }
    | {"deposit_nonce", "l1_block_number", "gas_used_for_l1", "deposit_receipt_version"}
    | {f"l1_{name}" for name in ("fee", "fee_f64", "gas_price", "gas_price_f64", "gas_used")},
    "logs": {"extra"},
    "withdrawals": {"extra"},
}
# The keys in lists that a root proves; an item can have others, and they are stored.
LISTS = {
    "access_list": ("address", "storageKeys"),
    "authorization_list": ("address", "chainId", "nonce", "r", "s", "yParity"),
}
QUANTITIES = {"chainId", "nonce", "r", "s", "yParity"}
RELAXED = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return simulated_answers(PARAMETERS, range(2, 5), tmp_path_factory.mktemp("cache"))


def _real(at: int) -> tuple[EvmRawBlock, Wanted]:
    raw, wanted = small_real_answer(at)
    assert not read([raw], wanted, (), whole=False).refused
    return raw, wanted


def _provable(table: pa.Table, name: str, heights: Sequence[int]) -> pa.Table:
    mask = pa.compute.is_in(table["block_number"], pa.array(heights, pa.uint64()))
    found = table.filter(mask).drop_columns(sorted(UNPROVEN[name]))
    for column in LISTS.keys() & {*found.column_names}:
        meant = [_meant(text, LISTS[column]) for text in found[column].to_pylist()]
        place = found.schema.get_field_index(column)
        found = found.set_column(place, column, pa.array(meant, pa.string()))
    return found


def _meant(text: str | None, keys: Sequence[str]) -> str | None:
    """Return what the roots prove of a list: quantities as numbers, and no other keys."""
    if text is None:
        return None
    items = [{key: it[key] for key in keys if key in it} for it in json.loads(text)]
    for it in items:
        it |= {key: int(it[key], 16) for key in it.keys() & QUANTITIES}
    return json.dumps(items)


def _assert_lawful(found: Reading, expected: Reading, raws: Sequence[EvmRawBlock]) -> None:
    """Every block is accepted or refused, and accepted rows are those of the chain."""
    heights = [raw.height for raw in raws]
    assert sorted([*found.blocks, *found.refused]) == heights
    good = [*found.blocks]
    for name, table in found.tables.items():
        one, other = (_provable(it, name, good) for it in (table, expected.tables[name]))
        assert [it for it in one.column_names if not one[it].equals(other[it])] == [], name


def _read(raws: Sequence[EvmRawBlock], wanted: Wanted) -> tuple[Reading, Reading]:
    """Read fast and in full: both accept the same blocks, and refuse others for the same reason."""
    fast, full = compare(read, read, raws, wanted)
    assert refusals(fast) == refusals(full)
    _assert_same_rows(fast, full)
    return fast, full


def _assert_same_rows(one: Reading, other: Reading) -> None:
    for name, table in one.tables.items():
        assert table.drop_columns("extra").equals(other.tables[name].drop_columns("extra")), name


@given(data=st.data())
@settings(RELAXED, max_examples=examples(40))
def test_what_is_accepted_is_what_the_chain_has(made: Answers, data: st.DataObject) -> None:
    raws, wanted = made
    expected = read(raws, wanted, (), whole=False)
    assert not expected.refused
    changed = data.draw(mutated(raws))
    for found in _read(changed, wanted):
        _assert_lawful(found, expected, changed)


@pytest.mark.parametrize("at", range(6))
@given(data=st.data())
@settings(RELAXED, max_examples=examples(10))
def test_real_blocks(at: int, data: st.DataObject) -> None:
    raw, wanted = _real(at)
    _read(data.draw(mutated([raw])), wanted)


@pytest.mark.parametrize("level", [Level.OFF, Level.LINKS, Level.AUTO])
@given(data=st.data())
@settings(RELAXED, max_examples=examples(10))
def test_any_level(level: Level, made: Answers, data: st.DataObject) -> None:
    """Without proofs, other rows are possible, but no crash and no other answer for other ways."""
    raws, wanted = made
    _read(data.draw(mutated(raws)), wanted_of("custom", wanted.chain_id, level))


@given(data=st.data())
@settings(RELAXED, max_examples=examples(30))
def test_another_notation_changes_nothing(made: Answers, data: st.DataObject) -> None:
    raws, wanted = made
    _assert_unchanged(raws, data.draw(respelled(raws)), wanted)


@pytest.mark.parametrize("at", range(6))
@given(data=st.data())
@settings(RELAXED, max_examples=examples(7))
def test_another_notation_of_a_real_block_changes_nothing(at: int, data: st.DataObject) -> None:
    raw, wanted = _real(at)
    _assert_unchanged([raw], data.draw(respelled([raw])), wanted)


def _assert_unchanged(
    raws: Sequence[EvmRawBlock], changed: Sequence[EvmRawBlock], wanted: Wanted
) -> None:
    expected = read(raws, wanted, (), whole=False)
    fast, full = _read(changed, wanted)
    assert not fast.refused, fast.refused
    assert dict(fast.blocks) == dict(expected.blocks)
    for name, table in fast.tables.items():
        assert table.equals(expected.tables[name]), name
    _assert_same_rows(full, expected)


@given(data=st.data())
@settings(RELAXED, max_examples=examples(30))
def test_another_value_is_refused_or_stored(made: Answers, data: st.DataObject) -> None:
    raws, wanted = made
    _assert_noticed(raws, *data.draw(revalued(raws)), wanted)


@pytest.mark.parametrize("at", range(5))  # no root covers the receipts of Cronos
@given(data=st.data())
@settings(RELAXED, max_examples=examples(7))
def test_another_value_in_a_real_block_is_refused_or_stored(at: int, data: st.DataObject) -> None:
    raw, wanted = _real(at)
    _assert_noticed([raw], *data.draw(revalued([raw])), wanted)


def _assert_noticed(
    raws: Sequence[EvmRawBlock], key: str, changed: Sequence[EvmRawBlock], wanted: Wanted
) -> None:
    expected, found = (read(each, wanted, (), whole=False) for each in (raws, changed))
    same = all(table.equals(found.tables.get(name)) for name, table in expected.tables.items())
    assert found.refused or not same, key


def test_a_difference_is_noticed(made: Answers) -> None:
    raws, wanted = made
    assert not compare(read, read, raws, wanted)[0].refused

    def forgetful(*given: object, **options: bool) -> Reading:
        return read(raws[:-1], wanted, (), **options)

    with pytest.raises(AssertionError):
        compare(read, forgetful, raws, wanted)
