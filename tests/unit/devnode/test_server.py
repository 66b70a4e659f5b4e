"""The node over HTTP: batches, compression, pace, limits and every fault."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import Any

import aiohttp
import msgspec
import pytest

from gapless.chains import Level
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.core.errors import BadBlock
from gapless.devnode import Chain, DevNode, Limits, Metering, Pace
from gapless.providers.provider_errors import Reaction, classify
from tests.evm import checks_of, evm_network
from tests.unit.devnode.asking import assert_valid, call, client_of
from tests.waiting import eventually

BATCH = [call("eth_getBlockByNumber", hex(at), True, id=at) for at in range(1, 9)]


async def test_batches(chain: Chain) -> None:
    async with client_of(DevNode(chain)) as client:
        _, answers = await client.post([*BATCH, call("eth_nothing", id=99), 7])
        assert [each["id"] for each in answers] == [*range(1, 9), 99, None]
        assert [each["result"]["number"] for each in answers[:8]] == [*map(hex, range(1, 9))]
        assert answers[8]["error"]["code"] == -32601
        assert answers[9]["error"] == {"code": -32600, "message": "invalid request"}
        assert (await client.post([]))[1]["error"]["message"] == "empty batch"


async def test_ids_are_returned_unchanged(chain: Chain) -> None:
    async with client_of(DevNode(chain)) as client:
        for given in ("abc", 0, None, 2**60):
            _, answer = await client.post({**call("eth_chainId"), "id": given})
            assert answer == {"jsonrpc": "2.0", "id": given, "result": "0x539"}


async def test_invalid_json(chain: Chain) -> None:
    async with client_of(DevNode(chain)) as client:
        for body in (b"{", b"", b"[1,", b"\xff"):
            async with client.session.post(client.node.url, data=body) as response:
                assert response.status == 400
                assert (await response.json())["error"]["code"] == -32700
        async with client.session.get(client.node.url) as response:
            assert response.status == 405


async def test_gzip_on_request(chain: Chain) -> None:
    body = call("eth_getBlockByNumber", "0x11", True)
    async with client_of(DevNode(chain)) as client:
        response, packed = await client.post(body)
        assert response.headers["Content-Encoding"] == "gzip"
        plain = {"Accept-Encoding": "identity"}
        async with client.session.post(client.node.url, json=body, headers=plain) as response:
            assert "Content-Encoding" not in response.headers
            assert await response.json() == packed


async def test_bodies_in_pieces_and_pipelined_requests(chain: Chain) -> None:
    async with client_of(DevNode(chain)) as client:
        body = json.dumps(call("eth_chainId")).encode()

        async def pieces() -> Any:
            yield body[:7]
            yield body[7:]

        async with client.session.post(client.node.url, data=pieces()) as response:
            assert (await response.json())["result"] == "0x539"
        host, port = client.node.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"\r\n" + body)
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        assert (await reader.read()).count(b'"result":"0x539"') == 2
        writer.close()
        await writer.wait_closed()


async def test_latency_applies_per_request_and_requests_wait_in_parallel(chain: Chain) -> None:
    async with client_of(DevNode(chain, pace=Pace(latency=0.2))) as client:
        started = monotonic()
        await asyncio.gather(*(client.post(BATCH) for _ in range(8)))
        assert 0.2 <= monotonic() - started < 1.2


async def test_the_rate_limit_holds(chain: Chain) -> None:
    limits = Limits(rps=50, retry_after=3, words="alchemy")
    async with client_of(DevNode(chain, limits=limits)) as client:
        started, served, last = monotonic(), 0, None
        while monotonic() - started < 1:
            async with client.session.post(client.node.url, json=call("eth_chainId")) as response:
                served += response.status == 200
                if response.status == 429:
                    last = (response.headers["Retry-After"], await response.json())
                    await asyncio.sleep(0.001)
        took = monotonic() - started
        assert 50 <= served <= 51 + 50 * took
        assert client.node.calls["eth_chainId"] == served
        assert client.node.refused > 0
        assert last is not None
        assert last[0] == "3"
        message = last[1]["error"]["message"]
        assert classify(message).reaction is Reaction.SLOW_DOWN


async def test_a_batch_counts_its_calls(chain: Chain) -> None:
    limits = Limits(rps=10, retry_after=None)
    async with client_of(DevNode(chain, limits=limits)) as client:
        assert (await client.post(BATCH))[0].status == 200
        assert (await client.post(BATCH))[0].status == 200, "the rest of the budget, and a debt"
        response, _ = await client.post(call("eth_chainId"))
        assert response.status == 429
        assert "Retry-After" not in response.headers


async def test_a_batch_above_the_budget_is_refused_as_a_whole(chain: Chain) -> None:
    limits = Limits(rps=10, retry_after=None, metering=Metering.WHOLE)
    async with client_of(DevNode(chain, limits=limits)) as client:
        assert (await client.post(BATCH))[0].status == 200
        response, refused = await client.post(BATCH)
        assert (response.status, refused["id"]) == (429, None)
        assert "Retry-After" not in response.headers
        assert (await client.post(BATCH[:2]))[0].status == 200, "the refused batch cost nothing"
        assert client.node.refused == 1


async def test_calls_above_the_budget_are_refused_individually(chain: Chain) -> None:
    limits = Limits(rps=10, metering=Metering.EACH)
    async with client_of(DevNode(chain, limits=limits)) as client:
        assert (await client.post(BATCH))[0].status == 200
        response, answers = await client.post(BATCH)
        assert response.status == 200
        refused = [each for each in answers if "error" in each]
        assert len(refused) == 6
        assert classify(refused[0]["error"]["message"]).reaction is Reaction.SLOW_DOWN


@pytest.mark.parametrize("words", ["geth", "alchemy", "infura", "quicknode", "erigon", "ankr"])
async def test_limits_use_the_error_messages_of_providers(chain: Chain, words: str) -> None:
    limits = Limits(words=words, max_range=10, max_results=20, max_batch=4)
    async with client_of(DevNode(chain, limits=limits)) as client:
        wide = call("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x64"})
        response, answer = await client.post(wide)
        assert response.status == (413 if words == "quicknode" else 200)
        range_refusal = classify(answer["error"]["message"])
        assert range_refusal.reaction is Reaction.SMALLER_RANGE
        assert range_refusal.most == 10
        full = await client.error("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0xa"})
        assert classify(full["message"]).reaction is Reaction.SMALLER_RANGE
        _, lone = await client.post(BATCH)
        assert lone["id"] is None
        assert classify(lone["error"]["message"]).reaction is Reaction.SMALLER_BATCH
        assert len((await client.post(BATCH[:4]))[1]) == 4


async def test_the_head_grows(chain: Chain) -> None:
    async with client_of(DevNode(chain, pace=Pace(head_every=0.01))) as client:
        await eventually(lambda: chain.head >= 125)
        assert await client.ask("eth_blockNumber") >= "0x7d"
    assert_valid(chain, 119)


async def test_the_head_moves_on_demand(chain: Chain) -> None:
    async with client_of(DevNode(chain)) as client:
        assert await client.ask("devnode_grow", 3) == "0x7b"
        old = chain.hash(110)
        assert await client.ask("devnode_reorg", 110) == "0x7c"
        new = await client.ask("eth_getBlockByNumber", hex(110), False)
        assert new["hash"] != old
        assert await client.ask("eth_getBlockByHash", old, False) is None
        for params in ([999], ["x"], []):
            assert (await client.error("devnode_reorg", *params))["code"] == -32602


@pytest.mark.parametrize("name", ["429", "429-bare", "500"])
async def test_fault_by_status(chain: Chain, name: str) -> None:
    node = DevNode(chain, faults=f"{name}@17")
    async with client_of(node) as client:
        body = call("eth_getBlockByNumber", "0x11", True)
        response, answer = await client.post(body)
        assert response.status == int(name[:3])
        assert ("Retry-After" in response.headers) is (name == "429")
        wanted = Reaction.AGAIN if name == "500" else Reaction.SLOW_DOWN
        assert classify(answer["error"]["message"]).reaction is wanted
        assert (await client.post(body))[0].status == 200, "planned once"
        assert node.injected == {name: 1}


@pytest.mark.parametrize("share", [0.02, 0.1])
async def test_a_fault_of_one_call_fails_its_whole_batch(chain: Chain, share: float) -> None:
    node = DevNode(chain, faults=f"call-500={share}")
    async with client_of(node) as client:
        batches = [
            [call("eth_getBlockByNumber", hex(at + each), False) for each in range(20)]
            for at in range(100)
        ]
        failed = [(await client.post(batch))[0].status == 500 for batch in batches]
        expected = 100 * (1 - (1 - share) ** 20)
        assert sum(failed) == pytest.approx(expected, abs=18)
        assert node.injected == {"call-500": sum(failed)}


@pytest.mark.parametrize("name", ["call-429", "call-drop", "call-malformed"])
async def test_a_planned_fault_of_one_call_fails_its_whole_batch(chain: Chain, name: str) -> None:
    node = DevNode(chain, faults=f"{name}@3")
    async with client_of(node) as client:
        if name == "call-429":
            response, _ = await client.post(BATCH)
            assert response.status == 429
        else:
            with pytest.raises((aiohttp.ClientError, ValueError)):
                await client.post(BATCH)
        assert len((await client.post(BATCH))[1]) == 8
        assert node.injected == {name: 1}


async def test_fault_timeout(chain: Chain) -> None:
    node = DevNode(chain, faults="timeout@17")
    async with client_of(node) as client:
        body = call("eth_getBlockByNumber", "0x11", True)
        with pytest.raises(asyncio.TimeoutError):
            async with asyncio.timeout(0.2):
                await client.post(body)
        assert (await client.post(body))[0].status == 200
        assert node.injected == {"timeout": 1}


async def test_a_node_can_stop_while_a_client_waits(chain: Chain) -> None:
    async with client_of(DevNode(chain, faults="timeout=1")) as client:
        waiting = asyncio.create_task(client.post(call("eth_chainId")))
        await eventually(lambda: bool(client.node.injected))
        await client.node.__aexit__()
        with pytest.raises(aiohttp.ClientError):
            await waiting


@pytest.mark.parametrize("height", [17, 18], ids=["within", "before"])
async def test_fault_drop(chain: Chain, height: int) -> None:
    async with client_of(DevNode(chain, faults=f"drop@{height}")) as client:
        body = call("eth_getBlockByNumber", hex(height), True)
        with pytest.raises(aiohttp.ClientError):
            await client.post(body)
        assert (await client.post(body))[0].status == 200
        assert client.node.injected == {"drop": 1}


@pytest.mark.parametrize("height", [17, 18], ids=["html", "half"])
async def test_fault_malformed(chain: Chain, height: int) -> None:
    async with client_of(DevNode(chain, faults=f"malformed@{height}")) as client:
        body = call("eth_getBlockByNumber", hex(height), True)
        async with client.session.post(client.node.url, json=body) as response:
            assert response.status == 200
            with pytest.raises(msgspec.DecodeError):
                msgspec.json.decode(await response.read())
        assert (await client.post(body))[1]["result"]["number"] == hex(height)
        assert client.node.injected == {"malformed": 1}


async def test_faults_of_batches(chain: Chain) -> None:
    async with client_of(DevNode(chain, faults="lone-error@3,omit@5")) as client:
        _, lone = await client.post(BATCH)
        assert (lone["id"], lone["error"]["code"]) == (None, -32000)
        _, less = await client.post(BATCH)
        assert len({each["id"] for each in less}) == 7
        assert len((await client.post(BATCH))[1]) == 8
    async with client_of(DevNode(chain, faults="shuffle=1")) as client:
        _, mixed = await client.post(BATCH)
        assert [each["id"] for each in mixed] != list(range(1, 9))
        assert sorted(each["id"] for each in mixed) == list(range(1, 9))
    async with client_of(DevNode(chain, pace=Pace(shuffle=True))) as client:
        _, mixed = await client.post(BATCH)
        assert [each["id"] for each in mixed] != list(range(1, 9))
        assert client.node.injected == {}


@pytest.mark.parametrize(
    ("fault", "method", "wrong"),
    [
        ("null", "eth_getBlockByNumber", None),
        ("null", "eth_getBlockReceipts", None),
        ("empty", "eth_getBlockReceipts", []),
        ("empty", "eth_getLogs", []),
    ],
)
async def test_fault_null_and_empty(chain: Chain, fault: str, method: str, wrong: Any) -> None:
    questions: dict[str, list[Any]] = {
        "eth_getBlockByNumber": ["0x11", True],
        "eth_getBlockReceipts": ["0x11"],
        "eth_getLogs": [{"fromBlock": "0xa", "toBlock": "0x14"}],
    }
    params = questions[method]
    async with client_of(DevNode(chain, faults=f"{fault}@17*2")) as client:
        assert await client.ask(method, *params) == wrong
        assert await client.ask(method, *params) == wrong
        assert await client.ask(method, *params) != wrong
        assert client.node.injected == {fault: 2}


async def test_fault_gone(chain: Chain) -> None:
    async with client_of(DevNode(chain, faults="gone@17")) as client:
        said = await client.error("eth_getBlockReceipts", "0x11")
        assert classify(said["message"]).reaction is Reaction.ELSEWHERE
        assert await client.ask("eth_getBlockReceipts", "0x11") == json.loads(chain.receipts(17))


def busy(chain: Chain, *, odd: bool) -> int:
    """A height with several receipts and logs."""
    for height in range(2 + odd, chain.head, 2):
        receipts = json.loads(chain.receipts(height))
        if len(receipts) > 2 and sum(len(each["logs"]) for each in receipts) > 2:
            return height
    raise AssertionError("no such block")


async def test_fault_truncated(chain: Chain) -> None:
    first, second = busy(chain, odd=True), busy(chain, odd=False)
    receipts, others = (json.loads(chain.receipts(at)) for at in (first, second))
    logs = [log for each in receipts for log in each["logs"]]
    async with client_of(
        DevNode(chain, faults=f"truncated@{first}*3,truncated@{second}")
    ) as client:
        lost_log = await client.ask("eth_getBlockReceipts", hex(first))
        assert len(lost_log) == len(receipts)
        assert [log for each in lost_log for log in each["logs"]] == logs[:-1]
        lost_receipt = await client.ask("eth_getBlockReceipts", hex(second))
        assert lost_receipt == others[:-1]
        block = await client.ask("eth_getBlockByNumber", hex(first), True)
        assert block["transactions"] == json.loads(chain.block(first))["transactions"][:-1]
        span = {"fromBlock": hex(first), "toBlock": hex(first)}
        assert await client.ask("eth_getLogs", span) == logs[:-1]
        assert await client.ask("eth_getLogs", span) == logs
        assert client.node.injected == {"truncated": 4}
    for height, spoilt in ((first, lost_log), (second, lost_receipt)):
        raw = parse_receipts(msgspec.json.encode(spoilt))
        with pytest.raises(BadBlock):
            check_block(
                parse_block(chain.block(height)),
                raw,
                evm_network(1337),
                checks_of(Level.AUTO),
                height,
            )


async def test_fault_wrong_block(chain: Chain) -> None:
    async with client_of(DevNode(chain, faults="wrong-block@17*2")) as client:
        wrong = await client.ask("eth_getBlockByNumber", "0x11", True)
        assert wrong == json.loads(chain.block(16))
        assert await client.ask("eth_getBlockReceipts", "0x11") == json.loads(chain.receipts(16))
        assert (await client.ask("eth_getBlockByNumber", "0x11", True))["number"] == "0x11"


async def test_fault_stale_head(chain: Chain) -> None:
    async with client_of(DevNode(chain, faults="stale-head=1")) as client:
        assert int(await client.ask("eth_blockNumber"), 16) < 120
        assert await client.ask("eth_getBlockByNumber", "0x78", True) is None
        latest = await client.ask("eth_getBlockByNumber", "latest", False)
        assert int(latest["number"], 16) < 120
        assert await client.ask("eth_getLogs", {"fromBlock": "0x78", "toBlock": "0x78"}) == []
        before = client.node.injected["stale-head"]
        assert (await client.ask("eth_getBlockByNumber", "0x11", True))["number"] == "0x11"
        assert client.node.injected["stale-head"] == before, "an old block has not changed"


async def test_fault_wrong_chain_and_limit_inside(chain: Chain) -> None:
    async with client_of(DevNode(chain, faults="wrong-chain=1")) as client:
        assert await client.ask("eth_chainId") == "0x53a"
        assert await client.ask("net_version") == "1338"
    async with client_of(DevNode(chain, faults="limited@3")) as client:
        response, answers = await client.post(BATCH)
        assert response.status == 200
        failed = [each for each in answers if "error" in each]
        assert [each["id"] for each in failed] == [3]
        assert classify(failed[0]["error"]["message"]).reaction is Reaction.SLOW_DOWN


async def test_fault_reorg(chain: Chain) -> None:
    async with client_of(DevNode(chain, faults="reorg@110")) as client:
        old = await client.ask("eth_getBlockByNumber", hex(110), False)
        new = await client.ask("eth_getBlockByNumber", hex(110), False)
        assert new["hash"] != old["hash"]
        assert new["parentHash"] == old["parentHash"]
        assert await client.ask("eth_blockNumber") == "0x79"
        assert client.node.injected == {"reorg": 1}
    assert_valid(chain, 105)


async def test_injected_faults_can_be_read(chain: Chain) -> None:
    async with client_of(DevNode(chain, faults="null=0.3,429-bare=0.1")) as client:
        nulls = limited = 0
        for height in range(100):
            response, answer = await client.post(call("eth_getBlockByNumber", hex(height), True))
            limited += response.status == 429
            nulls += response.status == 200 and answer["result"] is None
        async with client.session.get(f"{client.node.url}/_faults") as response:
            report = await response.json()
    assert report["injected"] == {"null": nulls, "429-bare": limited}
    assert 15 < nulls < 45
    assert 2 < limited < 25
    assert report["requests"] == 100
    assert report["calls"] == {"eth_getBlockByNumber": 100 - limited}
    assert report["head"] == 120
