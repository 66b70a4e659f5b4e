"""The TRON chain of a devnode is valid, and its node answers as java-tron does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gapless.chains import Level
from gapless.chains.family import Wanted
from gapless.chains.tron.family import TRON
from gapless.chains.tron.networks import TRON_CUSTOM, chain_id_of
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.devnode import Chain, DevNode, Limits, Metering, Parameters, Visibility, simulated
from gapless.devnode.limits import FinalityTags
from gapless.devnode.tron.accounts import TronAccounts
from gapless.devnode.tron.blocks import TronBuilder
from gapless.devnode.tron.drafts import TRANSFER, TronWorld
from gapless.devnode.view import View
from tests.unit.devnode.conftest import PARAMETERS

BLOCK, BLOCKS = "/wallet/getblockbynum", "/wallet/getblockbylimitnext"
INFOS = "/wallet/gettransactioninfobyblocknum"
NOW, SOLID = "/wallet/getnowblock", "/walletsolidity/getnowblock"
LITE = "this API is closed because this node is a lite fullnode"
DATASETS = frozenset(table.name for table in TRON.tables)


@pytest.fixture
def chain(cache: Path) -> Chain:
    return simulated(PARAMETERS, cache, family="tron")


class TronClient:
    def __init__(self, node: DevNode, session: aiohttp.ClientSession) -> None:
        self.node, self._session = node, session

    async def post(self, path: str, **body: int) -> tuple[int, str]:
        async with self._session.post(self.node.url + path, json=body) as response:
            return response.status, await response.text()

    async def ask(self, path: str, **body: int) -> Any:
        status, text = await self.post(path, **body)
        assert status == 200
        return json.loads(text)

    async def height(self, path: str) -> int:
        found = await self.ask(path)
        return int(found["block_header"]["raw_data"].get("number", 0))


@asynccontextmanager
async def client_of(chain: Chain, **options: Any) -> AsyncIterator[TronClient]:
    async with DevNode(chain, **options) as node, aiohttp.ClientSession() as session:
        yield TronClient(node, session)


def assert_valid(chain: Chain, first: int = 0) -> None:
    """Every block passes all checks, its root included, and is linked to the one before it."""
    heights = range(first, chain.head + 1)
    raws = [RawTronBlock(at, "a", chain.block(at), chain.receipts(at)) for at in heights]
    checks = TRON.level(Level.AUTO, DATASETS)
    wanted = Wanted(TRON_CUSTOM, chain.chain_id, checks, DATASETS)
    reading = TRON.read(raws, wanted, (), whole=False)
    assert not reading.refused
    before = chain.hash(first - 1) if first else "00" * 32
    for at in heights:
        block = reading.blocks[at]
        assert block.parent_hash.hex() == before
        assert "transactions_root" in block.proof.proven
        before = chain.hash(at)
        assert block.hash.hex() == before


# The chain


def test_every_block_is_valid_also_after_growth_and_a_reorganisation(chain: Chain) -> None:
    assert_valid(chain)
    chain.grow(3)
    chain.reorg(110)
    assert_valid(chain, 105)


def test_equal_parameters_make_equal_chains(tmp_path: Path, chain: Chain) -> None:
    same = simulated(PARAMETERS, tmp_path, family="tron")
    assert [same.block(at) for at in range(121)] == [chain.block(at) for at in range(121)]
    assert [same.receipts(at) for at in range(121)] == [chain.receipts(at) for at in range(121)]
    other = simulated(Parameters(blocks=3, seed=1), tmp_path, family="tron")
    assert other.chain_id != chain.chain_id
    assert chain.chain_id == chain_id_of(bytes.fromhex(chain.hash(0)))


def test_one_block_on_two_branches_is_the_same() -> None:
    """Two empty blocks of one witness may be equal. Found by the simulated follow 5034."""
    builder = TronBuilder(Parameters(empty_every=1))
    parent = builder.build(0, builder.no_parent).hash
    branches = [builder.build(1, parent, branch) for branch in range(100)]
    assert 1 < len({each.hash for each in branches}) < len(branches)
    assert len({each[:3] for each in branches}) == len({each.hash for each in branches})


def test_a_cache_holds_the_chains_of_both_families(tmp_path: Path) -> None:
    parameters = Parameters(blocks=2)
    both = [simulated(parameters, tmp_path, family=each) for each in ("evm", "tron", "evm")]
    assert both[0].hash(2) == both[2].hash(2) != both[1].hash(2)


def test_it_has_what_a_real_chain_has(chain: Chain) -> None:
    kinds, results, logs, inner = Counter[str](), Counter[str](), Counter[str](), 0
    for at in range(1, chain.head + 1):
        for each in json.loads(chain.block(at)).get("transactions", []):
            kinds[each["raw_data"]["contract"][0]["type"]] += 1
            results[each["ret"][0]["contractRet"]] += 1
        for each in json.loads(chain.receipts(at)):
            logs.update(log["topics"][0] for log in each.get("log", []))
            inner += len(each.get("internal_transactions", []))
            assert ("log" not in each) or each["receipt"]["result"] == "SUCCESS"
    assert {"TransferContract", "TransferAssetContract", "TriggerSmartContract"} <= kinds.keys()
    assert {"DelegateResourceContract", "UnDelegateResourceContract"} <= kinds.keys()
    assert results["SUCCESS"] > results["REVERT"] > 0
    assert logs[TRANSFER] > 0 < inner
    assert "transactions" not in json.loads(chain.block(16)), "a list without items is left out"
    genesis = json.loads(chain.block(0))
    assert "number" not in genesis["block_header"]["raw_data"]
    assert all("signature" not in each for each in genesis["transactions"])


# The node


async def test_blocks_and_infos(chain: Chain) -> None:
    async with client_of(chain) as client:
        assert await client.ask(BLOCK, num=7) == json.loads(chain.block(7))
        assert await client.ask(BLOCK) == json.loads(chain.block(0)), "a missing number is zero"
        assert await client.ask(INFOS, num=7) == json.loads(chain.receipts(7))
        assert await client.height(NOW) == 120
        assert await client.height(SOLID) == await client.height(f"/v2/key{SOLID}") == 101
        info = await client.ask("/wallet/getnodeinfo")
        assert info["solidityBlock"] == f"Num:101,ID:{chain.hash(101)}"


async def test_a_range_excludes_its_end(chain: Chain) -> None:
    async with client_of(chain) as client:
        found = await client.ask(BLOCKS, startNum=5, endNum=8)
        assert found["block"] == [json.loads(chain.block(at)) for at in (5, 6, 7)]
        beyond = await client.ask(BLOCKS, startNum=119, endNum=130)
        assert [each["blockID"] for each in beyond["block"]] == [chain.hash(119), chain.hash(120)]
        assert client.node.calls == {BLOCKS: 2}


async def test_nothing_is_an_empty_object_or_list(chain: Chain) -> None:
    async with client_of(chain) as client:
        assert await client.ask(BLOCK, num=121) == {}
        assert await client.ask(INFOS, num=121) == []
        assert await client.ask(INFOS, num=16) == [], "as for a block without transactions"
        assert await client.ask(INFOS, num=0) == {}
        assert await client.ask(BLOCKS, startNum=121, endNum=125) == {"block": []}
        assert await client.ask(BLOCKS, startNum=0, endNum=101) == {}, "more than 100 blocks"
        assert await client.ask(BLOCKS, startNum=8, endNum=8) == {}


async def test_refusals(chain: Chain) -> None:
    limits = Limits(missing=frozenset({INFOS, BLOCKS}), pruned_below=50)
    async with client_of(chain, limits=limits) as client:
        assert await client.post(BLOCK, num=49) == (200, LITE)
        assert await client.ask(BLOCK) == json.loads(chain.block(0)), "the genesis is kept"
        for path in ("/", "/wallet/none", INFOS, BLOCKS):
            status, _ = await client.post(path, num=60)
            assert status == 404
    async with client_of(chain, limits=Limits(pruned_below=999)) as client:
        assert await client.post(BLOCK, num=0) == (200, LITE)
    async with client_of(chain, limits=Limits(max_batch=5)) as client:
        found = await client.ask(BLOCKS, startNum=5, endNum=15)
        assert found == {"Error": "the range is limited to 5 blocks"}


@pytest.mark.parametrize(("words", "status"), [(None, 200), ("trongrid", 403)])
async def test_a_rate_limit_counts_requests(chain: Chain, words: str | None, status: int) -> None:
    limits = Limits(rps=2, words=words, metering=Metering.EACH, retry_after=None)
    async with client_of(chain, limits=limits) as client:
        for _ in range(2):
            assert len((await client.ask(BLOCKS, startNum=5, endNum=15))["block"]) == 10
        refused, text = await client.post(BLOCKS, startNum=5, endNum=15)
        assert refused == status
        assert ("lack of computing resources" if words is None else "suspended") in text


@pytest.mark.parametrize(
    ("finality", "expected"), [(FinalityTags.NULL, "{}"), (FinalityTags.ERROR, None)]
)
async def test_a_node_without_a_solid_head(
    chain: Chain, finality: FinalityTags, expected: str | None
) -> None:
    async with client_of(chain, limits=Limits(finality=finality)) as client:
        status, text = await client.post(SOLID)
        assert (status, text) == (200, expected) if expected else status == 404


async def test_the_solid_head_does_not_move_back(chain: Chain) -> None:
    async with client_of(chain) as client:
        client.node.reorg(3, 1)
        assert await client.height(NOW) == 118
        assert await client.height(SOLID) == 101


async def test_the_chain_is_commanded_over_http(chain: Chain) -> None:
    async with client_of(chain) as client, aiohttp.ClientSession() as session:
        old = chain.hash(120)
        for path, number in (("/devnode_grow", 2), ("/devnode_reorg", 120)):
            async with session.post(client.node.url + path, json=[number]) as response:
                assert response.status == 200
        assert await client.height(NOW) == 123
        assert chain.hash(120) != old


async def test_a_node_that_lags(chain: Chain) -> None:
    async with client_of(chain, visibility=Visibility(lag=5)) as client:
        assert await client.height(NOW) == 115
        assert await client.ask(BLOCK, num=116) == {}


async def test_no_subscriptions(chain: Chain) -> None:
    async with client_of(chain) as client, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(client.node.ws_url)


# Faults


async def test_faults_of_single_blocks_in_a_range(chain: Chain) -> None:
    faults = "null@6,truncated@7,wrong-block@8"
    async with client_of(chain, faults=faults) as client:
        found = (await client.ask(BLOCKS, startNum=5, endNum=10))["block"]
        assert [each["blockID"] for each in found] == [chain.hash(at) for at in (5, 7, 7, 9)]
        whole = json.loads(chain.block(7)).get("transactions", [])
        assert len(found[1].get("transactions", [])) == max(0, len(whole) - 1)
        honest = (await client.ask(BLOCKS, startNum=5, endNum=10))["block"]
        assert honest == [json.loads(chain.block(at)) for at in range(5, 10)]


async def test_faults_of_infos(chain: Chain) -> None:
    at = next(at for at in range(1, 99) if b'"log"' in chain.receipts(at))
    async with client_of(chain, faults=f"empty@{at},gone@{at},limited@{at}") as client:
        replies = [(await client.post(INFOS, num=at))[1] for _ in range(4)]
        busy = '{"Error":"class java.lang.IllegalAccessException : lack of computing resources"}'
        assert sorted(replies[:3]) == sorted(["[]", LITE, busy])
        assert json.loads(replies[3]) == json.loads(chain.receipts(at))


@pytest.mark.parametrize(
    ("faults", "status", "text"),
    [
        ("429=1", 429, "lack of computing resources"),
        ("500=1", 500, "internal server error"),
        ("lone-error=1", 200, '{"Error":"internal error"}'),
        ("omit=1,", 200, '"block"'),
    ],
)
async def test_faults_of_whole_requests(chain: Chain, faults: str, status: int, text: str) -> None:
    async with client_of(chain, faults=faults) as client:
        found, body = await client.post(BLOCKS, startNum=5, endNum=10)
        assert found == status
        assert text in body
        if faults.startswith("omit"):
            assert len(json.loads(body)["block"]) == 4


async def test_a_node_of_another_chain(chain: Chain) -> None:
    async with client_of(chain, faults="wrong-chain=1") as client:
        genesis = await client.ask(BLOCK, num=0)
        assert chain_id_of(bytes.fromhex(genesis["blockID"])) != chain.chain_id
        assert (await client.ask(BLOCK, num=1))["blockID"] == chain.hash(1)


def test_accounts_are_those_of_the_branch() -> None:
    chain = simulated(Parameters(blocks=30, txs=6, seed=3), family="tron")
    kept, wallets = TronAccounts(), TronWorld(3).wallets

    def held(accounts: TronAccounts) -> list[dict[str, Any]]:
        return [accounts.at_head(View(chain, chain.head, Limits()), it) for it in wallets]

    before = held(kept)
    chain.reorg(25)
    after = held(kept)
    assert before != after == held(TronAccounts())
