"""No real block loses anything: the answer can be rebuilt from the tables, key by key."""

from __future__ import annotations

import json

import pytest

from gapless.chains.evm.decode.logs import decode_range_logs
from gapless.chains.evm.decode.lossless import has_extra, keep_block, keep_receipts
from gapless.chains.evm.decode.structs import (
    RangeLog,
    parse_block,
    parse_light_block,
    parse_logs,
    parse_receipts,
)
from gapless.chains.evm.decode.tables import decode_blocks, decode_headers
from gapless.core.errors import BadAnswer
from gapless.schema.arrow import Tables
from tests.data.rebuilt import Json, differences, rebuilt
from tests.data.recorded import RealBlock, real_blocks, real_chain, with_blocks, with_chains

DEFECTIVE = {"ethereum-3918649", "ethereum-13367153"}
HONEST = [it for it in real_blocks() if str(it) not in DEFECTIVE]
PROVEN = [it for it in HONEST if it.receipts is not None]
CHAINS = ["execution-apis-54", "geth-ethtest-600"]


def raw(value: object) -> bytes:
    return json.dumps(value).encode()


def kept(it: RealBlock) -> Tables:
    block = keep_block(raw(it.block))
    receipts = None if it.receipts is None else [keep_receipts(raw(it.receipts), block)]
    return decode_blocks([block], receipts, it.chain_id)


def fast(it: RealBlock) -> Tables:
    receipts = None if it.receipts is None else [parse_receipts(raw(it.receipts))]
    return decode_blocks([parse_block(raw(it.block))], receipts, it.chain_id)


@with_blocks
@pytest.mark.parametrize("it", HONEST, ids=str)
def test_the_answer_can_be_rebuilt_from_the_tables(it: RealBlock) -> None:
    [(block, receipts)] = rebuilt(kept(it))
    assert list(differences(it.block, block)) == []
    if it.receipts is not None:
        assert list(differences(it.receipts, receipts)) == []


@with_blocks
@pytest.mark.parametrize("it", HONEST, ids=str)
def test_the_fast_decoder_differs_only_in_what_it_does_not_keep(it: RealBlock) -> None:
    block = keep_block(raw(it.block))
    receipts = keep_receipts(raw(it.receipts), block) if it.receipts else []
    unkept = ["extra"] if has_extra(block, receipts) else []
    for name, table in fast(it).items():
        table.validate(full=True)
        assert table.drop_columns(unkept).equals(kept(it)[name].drop_columns(unkept))


@with_blocks
@pytest.mark.parametrize("name", sorted(DEFECTIVE))
def test_a_body_cut_to_one_transaction_is_refused(name: str) -> None:
    [it] = [it for it in real_blocks() if str(it) == name]
    with pytest.raises(BadAnswer, match=rf"transaction_index` of block {it.height}: .* position 0"):
        fast(it)


@with_blocks
def test_blocks_decode_the_same_together_and_alone() -> None:
    some = [it for it in PROVEN if it.chain == "ethereum"]
    blocks = [parse_block(raw(it.block)) for it in some]
    together = decode_blocks(blocks, [parse_receipts(raw(it.receipts)) for it in some], 1)
    for name, table in together.items():
        rows = [row for it in some for row in fast(it)[name].to_pylist()]
        assert table.to_pylist() == rows


@with_blocks
@pytest.mark.parametrize("it", HONEST, ids=str)
def test_a_header_decodes_without_its_transactions(it: RealBlock) -> None:
    light = it.block | {"transactions": [each["hash"] for each in it.block["transactions"]]}
    tables = decode_headers([parse_light_block(raw(light))], it.chain_id)
    whole = fast(it)
    assert tables["withdrawals"].equals(whole["withdrawals"])
    assert (
        tables["blocks"].drop_columns("log_count").equals(whole["blocks"].drop_columns("log_count"))
    )


@with_blocks
@pytest.mark.parametrize("it", [it for it in PROVEN if it.chain != "cronos"], ids=str)
def test_logs_by_range_equal_those_of_the_receipts(it: RealBlock) -> None:
    logs: list[Json] = [log for receipt in it.receipts or [] for log in receipt["logs"]]
    found: list[RangeLog] = parse_logs(raw(logs))
    table = decode_range_logs([parse_block(raw(it.block))], found, it.chain_id)
    assert table.equals(fast(it)["logs"])


@with_chains
@pytest.mark.parametrize("name", CHAINS)
def test_a_whole_chain_can_be_rebuilt_from_its_tables(name: str) -> None:
    answers = list(real_chain(name))
    blocks = [keep_block(block) for block, _ in answers]
    receipts = [keep_receipts(raw, block) for (_, raw), block in zip(answers, blocks, strict=True)]
    chain_id = int(
        next(row.chain_id for it in blocks for row in it.transactions if row.chain_id), 16
    )
    made = rebuilt(decode_blocks(blocks, receipts, chain_id))
    for (block, own), (block_made, own_made) in zip(answers, made, strict=True):
        assert list(differences(json.loads(block), block_made)) == []
        assert list(differences(json.loads(own), own_made)) == []
