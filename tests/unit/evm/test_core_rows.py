"""Whatever rows are stored, the compiled core says the same about them as the reference."""

from __future__ import annotations

import resource
import sys
from itertools import combinations

import pyarrow as pa
import pytest

from gapless.chains import Level
from gapless.chains.evm.checks.native_rows import prove_rows
from gapless.chains.evm.checks.rows import examine_rows
from gapless.chains.evm.reading import read
from gapless.devnode import Parameters
from gapless.schema.arrow import Tables
from tests.evm import DATASETS, checks_of, evm_network
from tests.evm_answers import simulated_answers
from tests.evm_core import CORE, with_core
from tests.evm_rows import altered, assert_examined_alike
from tests.long_rows import TooLong

pytestmark = with_core
OTHERS = DATASETS[1:]
SUBSETS = [("blocks", *it) for size in range(len(OTHERS) + 1) for it in combinations(OTHERS, size)]
CHAIN = Parameters(blocks=8, txs=5, fewest=0, seed=7)
NETWORK = evm_network("custom")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, int]:
    """The rows of a simulated chain, as a fetch stores them."""
    raws, wanted = simulated_answers(CHAIN, range(8), tmp_path_factory.mktemp("cache"))
    return Tables(read(raws, wanted, (), whole=False).tables), wanted.chain_id


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("names", SUBSETS, ids="+".join)
def test_any_tables(stored: tuple[Tables, int], names: tuple[str, ...], level: Level) -> None:
    tables, chain_id = stored
    some = Tables({name: tables[name] for name in names})
    found = assert_examined_alike(some, NETWORK, chain_id, checks_of(level))
    assert bool(found.flaws) == (level is Level.SENDERS and "transactions" in names)


@pytest.mark.parametrize("seed", range(3))
def test_any_altered_value(stored: tuple[Tables, int], seed: int) -> None:
    tables, chain_id = stored
    flawed = set[str]()
    for what, changed in altered(tables, seed):
        if assert_examined_alike(changed, NETWORK, chain_id, checks_of(Level.ROOTS)).flaws:
            flawed.add(what)
    assert flawed > {"blocks.gas_used", "transactions.value_f64", "logs.data", "logs.log_position"}


@pytest.mark.parametrize("name", DATASETS)
def test_missing_and_repeated_rows(stored: tuple[Tables, int], name: str) -> None:
    tables, chain_id = stored
    rows = tables[name]
    if rows.num_rows < 3:
        pytest.skip(f"there are no rows in `{name}`")
    cut = pa.concat_tables([rows[:1], rows[2:]])
    repeated = pa.concat_tables([rows[:2], rows[1:]])
    reversed_ = rows.take(pa.array(range(rows.num_rows - 1, -1, -1)))
    for changed in (cut, repeated, reversed_):
        some = Tables({**tables, name: changed})
        assert_examined_alike(some, NETWORK, chain_id, checks_of(Level.ROOTS))


def test_rows_in_several_pieces(stored: tuple[Tables, int]) -> None:
    tables, chain_id = stored
    pieces = {it: pa.concat_tables([rows[:2], rows[2:]]) for it, rows in tables.items()}
    found = assert_examined_alike(pieces, NETWORK, chain_id, checks_of(Level.ROOTS))
    assert not found.flaws


def test_rows_too_long_for_one_batch_are_left_to_the_reference(stored: tuple[Tables, int]) -> None:
    tables, chain_id = stored
    rows = tables["blocks"]
    pieces = {"blocks": TooLong(pa.concat_tables([rows[:2], rows[2:]]))}
    assert CORE.module is not None
    assert prove_rows(CORE.module, pieces, NETWORK, chain_id, checks_of(Level.OFF)) is None


def test_numbers_of_transactions_take_no_memory(stored: tuple[Tables, int]) -> None:
    tables, chain_id = stored
    rows = tables["blocks"].take(pa.array([0] * 32))
    rows = _with(_with(rows, "block_number", [*range(32)]), "transaction_count", [1 << 20] * 32)
    before = _highest_memory()
    found = assert_examined_alike({"blocks": rows}, NETWORK, chain_id, checks_of(Level.OFF))
    assert not found.flaws
    assert _highest_memory() - before < 64 << 20


@pytest.mark.parametrize("count", [1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_impossible_numbers_of_transactions(stored: tuple[Tables, int], count: int) -> None:
    tables, chain_id = stored
    rows = _with(tables["blocks"][:1], "transaction_count", [count])
    by_core, alone = (
        examine_rows({"blocks": rows}, NETWORK, chain_id, checks_of(Level.OFF), core)
        for core in (CORE.module, None)
    )
    assert by_core == alone
    assert bool(alone.flaws) == (count >= 1 << 63)


def _with(rows: pa.Table, name: str, values: list[int]) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), pa.array(values, pa.uint64()))


def _highest_memory() -> int:
    """The most bytes that this process has had in memory so far."""
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else highest << 10
