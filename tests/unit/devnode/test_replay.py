"""Recorded chains are served as they were recorded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gapless.core.errors import UsageError
from gapless.devnode import DevNode, replayed
from tests.unit.devnode.asking import CHAINS, DATA, assert_valid, client_of, needs_data


def recorded(name: str, file: str) -> list[Any]:
    text = gzip.decompress((DATA / "chains" / name / file).read_bytes())
    return [json.loads(line) for line in text.splitlines()]


@needs_data
@pytest.mark.parametrize("name", CHAINS)
async def test_every_block_is_answered_as_recorded(name: str) -> None:
    info = json.loads((DATA / "chains" / name / "info.json").read_text())
    blocks, receipts = recorded(name, "blocks.jsonl.gz"), recorded(name, "receipts.jsonl.gz")
    async with client_of(DevNode(replayed(DATA / "chains" / name))) as client:
        assert await client.ask("eth_chainId") == hex(info["chainId"])
        assert await client.ask("eth_blockNumber") == hex(info["head_number"])
        assert (await client.ask("eth_getBlockByHash", info["head"], True)) == blocks[-1]
        for height, (block, its_receipts) in enumerate(zip(blocks, receipts, strict=True)):
            assert await client.ask("eth_getBlockByNumber", hex(height), True) == block
            assert await client.ask("eth_getBlockReceipts", hex(height)) == its_receipts
        last = next(each for each in reversed(receipts) if each)[-1]
        assert await client.ask("eth_getTransactionReceipt", last["transactionHash"]) == last


@needs_data
async def test_the_large_block_is_served_byte_for_byte() -> None:
    text = gzip.decompress((DATA / "chains" / CHAINS[0] / "receipts.jsonl.gz").read_bytes())
    large = text.splitlines()[2]
    assert len(large) > 20_000_000
    node = DevNode(replayed(DATA / "chains" / CHAINS[0]))
    body = b'{"jsonrpc":"2.0","id":1,"method":"eth_getBlockReceipts","params":["0x2"]}'
    async with client_of(node) as client, client.session.post(node.url, data=body) as response:
        answer = await response.read()
    assert answer == b'{"jsonrpc":"2.0","id":1,"result":' + large + b"}"


@needs_data
async def test_a_recorded_chain_can_reorganise_and_grow() -> None:
    chain = replayed(DATA / "chains" / CHAINS[1])
    chain.reorg(598)
    chain.grow(2)
    assert chain.head == 603
    assert_valid(chain, 590)


def test_a_file_that_is_not_a_recorded_chain(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no recorded chain"):
        replayed(tmp_path)
    (tmp_path / "info.json").write_text('{"chainId": 1}')
    (tmp_path / "blocks.jsonl").write_text("{}\n{}\n")
    (tmp_path / "receipts.jsonl").write_text("[]")
    with pytest.raises(UsageError, match="has 2 blocks, but receipts of 1"):
        replayed(tmp_path)
