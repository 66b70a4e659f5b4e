"""The benchmark node gives the same answers as the devnode at less cost, and keeps its limits."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bench.meter import Meter
from bench.node import Node, Pace, node_of, serve, url_of
from bench.null_client import ceiling
from bench.rendered import WORKLOADS
from gapless.devnode import DevNode, Parameters, simulated
from gapless.devnode.faults import parse_faults

PARAMETERS = Parameters(blocks=80, txs=3, seed=5)
HEAD = 80


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@asynccontextmanager
async def serving(node: Node) -> AsyncIterator[str]:
    server = await serve(node)
    yield url_of(server)
    server.close()
    await server.wait_closed()


async def ask(url: str, body: Any) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        return response.status, await response.json()


def call(number: int, method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


WHICH = ["0x0", "0x1", "0x4f", hex(HEAD), hex(HEAD + 1), "latest", "finalized", "safe", "earliest"]
CALLS = [
    call(1, "eth_chainId"),
    call(2, "eth_blockNumber"),
    *(call(10 + n, "eth_getBlockByNumber", which, True) for n, which in enumerate(WHICH)),
    *(call(20 + n, "eth_getBlockByNumber", which, False) for n, which in enumerate(WHICH)),
    *(call(30 + n, "eth_getBlockReceipts", which) for n, which in enumerate(WHICH)),
    call(40, "eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x3"}),
    call(46, "eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "topics": []}),
    call(47, "eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x3", "address": "0x" + "11" * 20}),
    call(48, "eth_getLogs", {"fromBlock": "0x3", "toBlock": "0x1"}),
    call(49, "eth_getLogs", {"fromBlock": "0x4f"}),
    call(50, "eth_getTransactionReceipt", "0x" + "22" * 32),
    call(41, "eth_getBlockByNumber", "0x1"),
    call(42, "eth_getBlockByNumber", 1, True),
    call(43, "eth_getBlockByNumber", "-0x1", True),
    call(44, "eth_getBlockReceipts"),
    call(45, "eth_nothing"),
    {"jsonrpc": "2.0", "id": "text", "method": "eth_chainId"},
]


async def test_answers_are_those_of_the_devnode_alone_and_in_a_batch(cache: Path) -> None:
    async with (
        DevNode(simulated(PARAMETERS, cache)) as devnode,
        serving(node_of(PARAMETERS, Pace(), cache)) as url,
    ):
        assert await ask(url, CALLS) == await ask(devnode.url, CALLS)
        for each in CALLS:
            assert await ask(url, each) == await ask(devnode.url, each)


async def test_every_receipt_is_found_by_transaction_hash(cache: Path) -> None:
    node = node_of(PARAMETERS, Pace(), cache)
    node.answers.prepare()
    async with serving(node) as url:
        _, all_of_it = await ask(url, call(1, "eth_getBlockReceipts", "0x7"))
        assert all_of_it["result"]
        for receipt in all_of_it["result"]:
            asked = call(2, "eth_getTransactionReceipt", receipt["transactionHash"])
            assert (await ask(url, asked))[1]["result"] == receipt


BLOCK = call(1, "eth_getBlockReceipts", "0x7")


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("429-bare", (429, "limit of requests exceeded")),
        ("500", (500, "internal server error")),
        ("null", (200, None)),
        ("empty", (200, [])),
    ],
)
async def test_injected_faults_match_the_request_and_are_counted(
    cache: Path, fault: str, outcome: tuple[int, Any]
) -> None:
    node = node_of(PARAMETERS, Pace(), cache, parse_faults(f"{fault}=1"))
    async with serving(node) as url:
        status, answer = await ask(url, BLOCK)
    assert (status, answer["error"]["message"] if status != 200 else answer["result"]) == outcome
    assert node.injected == 1


async def test_a_broken_answer_is_invalid_json_or_a_closed_connection(cache: Path) -> None:
    for fault, error in (("malformed", ValueError), ("drop", aiohttp.ClientError)):
        node = node_of(PARAMETERS, Pace(), cache, parse_faults(f"{fault}=1"))
        async with serving(node) as url:
            for _ in range(6):  # by chance: nothing at all, or part of the answer
                with pytest.raises(error):
                    await ask(url, BLOCK)
        assert node.injected == 6


async def test_requests_may_arrive_in_pieces_or_several_at_once(cache: Path) -> None:
    async with serving(node_of(PARAMETERS, Pace(), cache)) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        body = b'{"jsonrpc":"2.0","id":7,"method":"eth_chainId","params":[]}'
        request = b"POST / HTTP/1.1\r\nHost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        answer = b'{"jsonrpc":"2.0","id":7,"result":"0x539"}'
        for piece in (request[:9], request[9:70], request[70:] + request + request[:5]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)  # so that the node receives each piece separately
        writer.write(request[5:])
        for _ in range(3):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"Content-Length: %d\r\n" % len(answer) in head
            assert await reader.readexactly(len(answer)) == answer
        writer.close()


async def test_latency_applies_per_request_not_per_call(cache: Path) -> None:
    async with serving(node_of(PARAMETERS, Pace(latency=0.05), cache)) as url:
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(ask(url, CALLS[:2] * 20) for _ in range(5)))
        assert 0.05 <= loop.time() - started < 1.0


async def test_the_rate_limit_counts_calls(cache: Path) -> None:
    node = node_of(PARAMETERS, Pace(rps=10), cache)
    async with serving(node) as url:
        status, _ = await ask(url, CALLS[:2] * 10)
        assert status == 200
        status, answer = await ask(url, CALLS[0])
        assert (status, answer["error"]["code"]) == (429, -32005)
    assert (node.requests, node.calls, node.refused) == (1, 20, 1)


async def test_a_metered_node_refuses_a_whole_batch_that_exceeds_the_budget(cache: Path) -> None:
    node = node_of(PARAMETERS, Pace(rps=10, metered=True), cache)
    async with serving(node) as url, aiohttp.ClientSession() as session:
        async with session.post(url, json=CALLS[:11]) as response:
            assert (response.status, await response.read()) == (429, b"")
            assert "Retry-After" not in response.headers
        status, answers = await ask(url, CALLS[:10])  # the refused batch cost nothing
        assert (status, len(answers)) == (200, 10)
    assert (node.requests, node.calls, node.refused) == (1, 10, 1)


def test_a_budget_refills_over_time_and_holds_at_most_one_second() -> None:
    now = 100.0
    meter = Meter(10, clock=lambda: now)
    assert [meter.take(6), meter.take(6), meter.take(4)] == [True, False, True]
    now += 0.5
    assert [meter.take(6), meter.take(5)] == [False, True]
    now += 60
    assert [meter.take(11), meter.take(10), meter.take(1)] == [False, True, False]


async def test_one_faulty_call_fails_its_whole_batch(cache: Path) -> None:
    """5 % of the calls fail, so a batch of 200 nearly always fails and a single call rarely."""
    blocks = [call(n, "eth_getBlockByNumber", hex(n % HEAD), True) for n in range(200)]
    statuses = {}
    for size in (200, 1):
        node = node_of(PARAMETERS, Pace(), cache, parse_faults("500=0.05"), per_call=True)
        async with serving(node) as url:
            batches = [blocks[at : at + size] for at in range(0, len(blocks), size)]
            statuses[size] = [(await ask(url, batch))[0] for batch in batches]
        assert node.injected == statuses[size].count(500)
    assert statuses[200] == [500]
    assert 1 <= statuses[1].count(500) <= 30


async def test_the_process_prints_its_url_first_and_its_cost_last() -> None:
    node = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.node", "--workload", "small"), stdout=PIPE
    )
    assert node.stdout is not None
    url = (await node.stdout.readline()).decode().strip()
    assert await ask(url, call(1, "eth_blockNumber")) == (
        200,
        {"jsonrpc": "2.0", "id": 1, "result": hex(WORKLOADS["small"].parameters.blocks)},
    )
    node.send_signal(signal.SIGTERM)
    printed = (await node.stdout.read()).decode()
    assert re.fullmatch(
        r"cpu_seconds=\d+\.\d+ requests=1 calls=1 bytes=\d+ injected=0 refused=0\n", printed
    )
    assert await node.wait() == 0


async def test_the_null_client_fetches_every_block_with_its_receipts(cache: Path) -> None:
    node = node_of(PARAMETERS, Pace(), cache)
    async with serving(node) as url:
        assert await ceiling(url, range(1, HEAD + 1), batch=7, connections=3) > 0
    assert (node.requests, node.calls) == (12, 2 * HEAD)
    chain = simulated(PARAMETERS, cache)
    heights = range(1, HEAD + 1)
    assert node.bytes > sum(len(chain.block(each)) + len(chain.receipts(each)) for each in heights)
