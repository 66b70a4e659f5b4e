"""Every method answers as real nodes do."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from gapless.devnode import Chain, DevNode, Limits, replayed
from gapless.devnode.evm.drafts import TRANSFER
from gapless.devnode.limits import FinalityTags
from tests.unit.devnode.asking import DATA, client_of, needs_data


def all_logs(chain: Chain, first: int, last: int) -> list[dict[str, Any]]:
    heights = range(first, last + 1)
    return [
        log
        for height in heights
        for receipt in json.loads(chain.receipts(height))
        for log in receipt["logs"]
    ]


async def test_the_chain_and_its_head(chain: Chain) -> None:
    async with client_of(DevNode(chain)) as client:
        assert await client.ask("eth_chainId") == "0x539"
        assert await client.ask("net_version") == "1337"
        assert await client.ask("eth_blockNumber") == "0x78"
        assert "devnode" in await client.ask("web3_clientVersion")


async def test_blocks(chain: Chain) -> None:
    async with client_of(DevNode(chain)) as client:
        full = await client.ask("eth_getBlockByNumber", "0x11", True)
        assert full == json.loads(chain.block(17))
        assert await client.ask("eth_getBlockByHash", full["hash"], True) == full
        light = await client.ask("eth_getBlockByNumber", "0x11", False)
        hashes = [each["hash"] for each in full["transactions"]]
        assert light == {**full, "transactions": hashes}
        assert hashes
        assert await client.ask("eth_getBlockByHash", full["hash"], False) == light
        assert await client.ask("eth_getBlockByNumber", "0x79", True) is None
        assert await client.ask("eth_getBlockByHash", "0x" + "0" * 64, True) is None


async def test_tags(chain: Chain) -> None:
    async with client_of(DevNode(chain)) as client:
        for tag, height in {"earliest": 0, "latest": 120, "safe": 88, "finalized": 56}.items():
            block = await client.ask("eth_getBlockByNumber", tag, False)
            assert block["number"] == hex(height)


async def test_receipts(chain: Chain) -> None:
    async with client_of(DevNode(chain)) as client:
        receipts = await client.ask("eth_getBlockReceipts", "0x11")
        assert receipts == json.loads(chain.receipts(17))
        assert await client.ask("eth_getBlockReceipts", chain.hash(17)) == receipts
        assert await client.ask("eth_getBlockReceipts", {"blockHash": chain.hash(17)}) == receipts
        for receipt in receipts:
            found = await client.ask("eth_getTransactionReceipt", receipt["transactionHash"])
            assert found == receipt
        assert await client.ask("eth_getBlockReceipts", "0x10") == [], "an empty block"
        assert await client.ask("eth_getBlockReceipts", "0x79") is None
        assert await client.ask("eth_getTransactionReceipt", "0x" + "0" * 64) is None


async def test_logs(chain: Chain) -> None:
    logs = all_logs(chain, 10, 40)
    token = next(log["address"] for log in logs if log["topics"][:1] == [TRANSFER])
    target = next(log["topics"][2] for log in logs if len(log["topics"]) > 2)
    span = {"fromBlock": "0xa", "toBlock": "0x28"}
    async with client_of(DevNode(chain)) as client:

        async def found(**wanted: Any) -> list[dict[str, Any]]:
            answer: list[dict[str, Any]] = await client.ask("eth_getLogs", {**span, **wanted})
            return answer

        assert await found() == logs
        assert await found(address=token.upper().replace("0X", "0x")) == [
            log for log in logs if log["address"] == token
        ]
        transfers = [log for log in logs if log["topics"][:1] == [TRANSFER]]
        assert await found(topics=[TRANSFER]) == transfers
        assert await found(topics=[[TRANSFER, target]]) == transfers
        received = [log for log in logs if log["topics"][2:3] == [target]]
        assert received
        assert await found(topics=[None, None, target]) == received
        assert await found(topics=[None]) == [log for log in logs if log["topics"]]
        assert await found(address=[token], topics=[TRANSFER, [], [target]]) == [
            log for log in received if log["address"] == token and log in transfers
        ]
        one = await client.ask("eth_getLogs", {"blockHash": chain.hash(17)})
        assert one == all_logs(chain, 17, 17)
        assert await client.ask("eth_getLogs", {"fromBlock": "0x77", "toBlock": "0xfff"}) == (
            all_logs(chain, 119, 120)
        ), "what lies beyond the head is silently left out"


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("eth_call", [], -32601, "the method eth_call does not exist/is not available"),
        ("eth_getBlockByNumber", [], -32602, "missing value for required argument 0"),
        ("eth_getBlockByNumber", ["0x1"], -32602, "missing value for required argument 1"),
        ("eth_getBlockByNumber", ["17", True], -32602, "hex string without 0x prefix"),
        ("eth_getBlockByNumber", [[], True], -32602, "hex string without 0x prefix"),
        ("eth_getBlockByNumber", ["0x1", "yes"], -32602, "not a boolean"),
        ("eth_getBlockByHash", ["0x1", True], -32602, "not a hash"),
        ("eth_getLogs", ["0x1"], -32602, "not a filter"),
        ("eth_getLogs", [{"fromBlock": "0x2", "toBlock": "0x1"}], -32602, "invalid block range"),
        ("eth_getLogs", [{"blockHash": "0x" + "0" * 64}], -32000, "unknown block"),
        ("eth_getLogs", [{"blockHash": "0x", "toBlock": "0x1"}], -32602, "cannot specify both"),
        ("eth_getLogs", [{"fromBlock": "0x1", "address": [1]}], -32602, "not text"),
    ],
)
async def test_invalid_requests(
    chain: Chain, method: str, params: list[Any], code: int, words: str
) -> None:
    async with client_of(DevNode(chain)) as client:
        error = await client.error(method, *params)
        assert error["code"] == code
        assert words in error["message"]


async def test_missing_methods_and_pruned_history(chain: Chain) -> None:
    limits = Limits(missing=frozenset({"eth_getBlockReceipts"}), pruned_below=50)
    async with client_of(DevNode(chain, limits=limits)) as client:
        assert (await client.error("eth_getBlockReceipts", "0x40"))["code"] == -32601
        error = await client.error("eth_getBlockByNumber", "0x31", True)
        assert error == {"code": 4444, "message": "pruned history unavailable"}
        assert (await client.error("eth_getLogs", {"fromBlock": "0x30"}))["code"] == 4444
        assert (await client.ask("eth_getBlockByNumber", "0x32", True))["number"] == "0x32"
        earliest = await client.ask("eth_getBlockByNumber", "earliest", False)
        assert earliest["number"] == "0x32"
    async with client_of(
        DevNode(chain, limits=Limits(pruned_below=50, pruned_null=True))
    ) as client:
        assert await client.ask("eth_getBlockByNumber", "0x31", True) is None


async def test_unsupported_tags(chain: Chain) -> None:
    async def finalized(finality: FinalityTags) -> Any:
        async with client_of(DevNode(chain, limits=Limits(finality=finality))) as client:
            return await client.envelope("eth_getBlockByNumber", "finalized", False)

    assert (await finalized(FinalityTags.ERROR))["error"]["message"] == "Unknown block"
    assert (await finalized(FinalityTags.NULL))["result"] is None
    assert (await finalized(FinalityTags.ZERO))["result"]["number"] == "0x0"


async def test_a_strict_head(chain: Chain) -> None:
    async with client_of(DevNode(chain, limits=Limits(strict_head=True))) as client:
        error = await client.error("eth_getLogs", {"fromBlock": "0x77", "toBlock": "0xfff"})
        assert error["message"] == "block range extends beyond current head block"


def keys(chain: Chain) -> dict[str, set[str]]:
    """The keys that the objects of each kind have."""
    blocks = [json.loads(chain.block(height)) for height in range(chain.head + 1)]
    receipts = [each for at in range(chain.head + 1) for each in json.loads(chain.receipts(at))]
    found = {"block": set(blocks[-1])}
    for block in blocks:
        for each in block["transactions"]:
            found[f"transaction {each['type']}"] = set(each)
            for grant in each.get("authorizationList", ()):
                found["authorization"] = set(grant)
            for entry in each.get("accessList", ()):
                found["access"] = set(entry)
        for each in block["withdrawals"] or ():
            found["withdrawal"] = set(each)
    for receipt in receipts:
        found[f"receipt {receipt['type']}"] = set(receipt)
        for log in receipt["logs"]:
            found["log"] = set(log)
    return found


@needs_data
def test_objects_have_the_shape_of_a_real_nodes(chain: Chain) -> None:
    """Each kind of object has the same keys as in recorded answers of geth."""
    simulated = keys(chain)
    recorded = replayed(DATA / "chains/geth-ethtest-600")
    real = {kind: names for kind, names in keys(recorded).items() if kind in simulated}
    assert len(real) >= 14
    assert {kind: simulated[kind] for kind in real} == real


@needs_data
def test_a_block_has_the_keys_of_an_ethereum_block(chain: Chain) -> None:
    folder = DATA / "blocks/ethereum"
    block = json.loads(gzip.decompress((folder / "22162263.block.json.gz").read_bytes()))
    simulated = keys(chain)
    assert set(block) <= simulated["block"]
    for each in block["transactions"]:
        assert set(each) <= simulated[f"transaction {each['type']}"]
    for each in json.loads(gzip.decompress((folder / "22162263.receipts.json.gz").read_bytes())):
        assert set(each) <= simulated[f"receipt {each['type']}"]
