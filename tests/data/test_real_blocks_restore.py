"""Stored rows of real blocks restore the answer that they came from, and prove the same."""

from __future__ import annotations

import pytest

from gapless.chains import Level
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.completion import complete
from gapless.chains.evm.checks.rows import examine_rows, provable
from gapless.chains.evm.decode.lossless import keep_block, keep_receipts
from gapless.chains.evm.decode.restore import restore
from gapless.chains.evm.decode.structs import Block, LightBlock
from gapless.chains.evm.decode.tables import decode_blocks, decode_headers
from gapless.schema.arrow import Tables
from tests.conformance.sink.stage import with_column
from tests.data.examination import check
from tests.data.recorded import RealBlock, real_blocks, with_blocks
from tests.data.test_real_blocks_decode import HONEST, PROVEN, fast, kept, raw
from tests.evm import checks_of, evm_network

pytestmark = with_blocks

DATASETS = [
    {"blocks"},
    {"blocks", "withdrawals"},
    {"blocks", "transactions"},
    {"blocks", "logs"},
    {"blocks", "transactions", "logs"},
]


def test_there_are_real_blocks() -> None:
    assert real_blocks()


@pytest.mark.parametrize("decoded", [kept, fast], ids=lambda it: it.__name__)
@pytest.mark.parametrize("it", HONEST, ids=str)
def test_decoding_a_restored_answer_gives_the_same_rows(it: RealBlock, decoded: object) -> None:
    tables = decoded(it)  # type: ignore[operator]
    [found] = restore(tables)
    assert isinstance(found.block, Block)
    receipts = None if found.receipts is None else [found.receipts]
    again = decode_blocks([found.block], receipts, it.chain_id)
    for name in tables:
        assert again[name].equals(tables[name])


@pytest.mark.parametrize("it", PROVEN, ids=str)
def test_a_header_alone_is_restored(it: RealBlock) -> None:
    tables = {name: rows for name, rows in kept(it).items() if name in ("blocks", "withdrawals")}
    [found] = restore(tables)
    assert isinstance(found.block, LightBlock)
    again = decode_headers([found.block], it.chain_id)
    without = ["log_count"]
    assert again["blocks"].drop_columns(without).equals(tables["blocks"].drop_columns(without))


def stored(it: RealBlock) -> Tables:
    """The tables as a fetch stores them: omitted fields are filled in."""
    block = keep_block(raw(it.block))
    receipts = None if it.receipts is None else keep_receipts(raw(it.receipts), block)
    complete(block, receipts, evm_network(it.chain_id), it.height)
    return decode_blocks([block], None if receipts is None else [receipts], it.chain_id)


@pytest.mark.parametrize("it", HONEST, ids=str)
def test_rows_prove_what_the_answer_proved(it: RealBlock) -> None:
    network = evm_network(it.chain_id)
    for level in Level:
        found = examine_rows(stored(it), network, it.chain_id, checks_of(level))
        assert found.flaws == []
        proven = check(it, level).proven
        lacking = proven & provable(proven, [*stored(it)]) - found.proof.proven
        assert lacking <= {Check.RECEIPT_BLOOMS}  # they are not stored; the root implies them


@pytest.mark.parametrize("datasets", DATASETS, ids=lambda it: ",".join(sorted(it)))
@pytest.mark.parametrize("it", PROVEN, ids=str)
def test_fewer_tables_prove_less_and_contradict_nothing(it: RealBlock, datasets: set[str]) -> None:
    tables = Tables({name: rows for name, rows in stored(it).items() if name in datasets})
    network = evm_network(it.chain_id)
    found = examine_rows(tables, network, it.chain_id, checks_of(Level.SENDERS))
    assert found.flaws == []
    assert Check.RECEIPTS_ROOT not in found.proof.proven or datasets >= {"transactions", "logs"}
    assert Check.TRANSACTIONS_ROOT not in found.proof.proven or "transactions" in datasets
    assert Check.WITHDRAWALS_ROOT not in found.proof.proven or "withdrawals" in datasets


@pytest.mark.parametrize("it", [it for it in PROVEN if it.chain == "ethereum"], ids=str)
def test_a_derived_field_cannot_be_empty(it: RealBlock) -> None:
    """A fetch fills it in, so it was removed afterwards."""
    tables = stored(it)
    network = evm_network(it.chain_id)
    for column in ("gas_used", "effective_gas_price", "blob_gas_used", "contract_address"):
        rows = tables["transactions"]
        if rows[column].null_count < rows.num_rows:
            emptied = Tables({**tables, "transactions": with_column(rows, column, None)})
            assert examine_rows(emptied, network, it.chain_id, checks_of(Level.ROOTS)).flaws
