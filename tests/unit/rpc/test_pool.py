"""The pool on real nodes: whatever they do, the answers are complete and true."""

from __future__ import annotations

import asyncio
import threading
from time import monotonic
from typing import Any

import msgspec
import pytest

from gapless.chains.evm.queries import QUERIES
from gapless.core.errors import MissingHistory, Unavailable, UsageError
from gapless.devnode import Chain, DevNode, Limits, Pace
from gapless.devnode.wire import Reply
from gapless.providers import Call, EndpointSpec, Learned, Pool, Profile, Refused, Timeouts
from gapless.providers.provider_errors import Reaction
from tests.unit.rpc.nodes import Outspoken, block_calls, error, first, pool_of, truth
from tests.waiting import eventually

HEAD = Call("eth_blockNumber")


async def asked_all(pool: Pool, chain: Chain, *, step: int = 10) -> None:
    """Asks for all blocks at once, in parts; every answer must be right."""
    parts = [range(at, min(at + step, 121)) for at in range(0, 121, step)]
    answers = await asyncio.gather(*(pool.ask(block_calls(part)) for part in parts))
    for part, answer in zip(parts, answers, strict=True):
        assert [*map(bytes, answer.results)] == truth(chain, part)


@pytest.mark.parametrize(
    "faults",
    ["429-bare=0.2", "429=0.1", "limited=0.01", "500=0.3", "drop=0.3", "malformed=0.3",
     "lone-error=0.3", "omit=0.5", "shuffle=1", "timeout=0.05"],
)  # fmt: skip
async def test_every_fault_is_handled(chain: Chain, faults: str) -> None:
    limits = Limits(retry_after=0)
    # A busy machine may be slower than a short timeout, which would cause retries too.
    timeouts = Timeouts(read=0.2) if "timeout" in faults else Timeouts()
    async with (
        DevNode(chain, faults=faults, limits=limits) as node,
        pool_of(node, timeouts=timeouts) as pool,
    ):
        await asked_all(pool, chain)
        assert node.injected, "nothing went wrong"
        assert (pool.retries > 0) == ("shuffle" not in faults)
        assert pool.calls.total() >= node.calls.total()
        assert (pool.in_flight, pool.waiting) == (0, 0)


@pytest.mark.parametrize("gzip", [True, False])
async def test_large_answers_compressed_or_not(chain: Chain, gzip: bool) -> None:
    async with DevNode(chain, pace=Pace(gzip=gzip)) as node, pool_of(node) as pool:
        await asked_all(pool, chain, step=60)
        assert pool.requests == node.requests


async def test_null_is_a_result(chain: Chain) -> None:
    async with DevNode(chain) as node, pool_of(node) as pool:
        answers = await pool.ask([Call("eth_getBlockByNumber", (hex(999), True), 999), HEAD])
        assert [*map(bytes, answers.results)] == [b"null", b'"0x78"']
        assert answers.endpoint == "a"


async def test_only_missing_answers_are_requested_again(chain: Chain) -> None:
    async with DevNode(chain, faults="omit@5*2,limited@7") as node, pool_of(node) as pool:
        answers = await pool.ask(block_calls(range(3, 9)))
        assert [*map(bytes, answers.results)] == truth(chain, range(3, 9))
        assert node.injected == {"omit": 2, "limited": 1}
        assert pool.calls.total() == 1 + 12 + pool.retries
        assert pool.retries <= 4


async def test_calls_are_counted_by_method(chain: Chain) -> None:
    async with DevNode(chain) as node, pool_of(node) as pool:
        await pool.ask(block_calls(range(5)))
        assert pool.calls == {
            "eth_chainId": 1, "eth_getBlockByNumber": 5, "eth_getBlockReceipts": 5,
        }  # fmt: skip
        assert (pool.requests, pool.retries) == (2, 0)


async def test_the_call_limit_is_never_exceeded(chain: Chain) -> None:
    async with DevNode(chain) as node, pool_of(node, max_calls=25) as pool:
        with pytest.raises(Unavailable, match="25 calls"):
            await asked_all(pool, chain, step=3)
        assert node.calls.total() <= 25


# Batches


@pytest.mark.parametrize("words", ["geth", "alchemy"])
async def test_the_largest_batch_is_learned_and_kept(chain: Chain, words: str) -> None:
    limits = Limits(max_batch=7, words=words)
    async with DevNode(chain, limits=limits) as node:
        async with pool_of(node) as pool:
            await pool.ask(block_calls(range(10)))  # alone, so that what is learned has one order
            await asked_all(pool, chain)
            learned = pool.profiles()
            known = learned["a"].batch_calls
            assert known is not None
            assert known.value == (5 if words == "geth" else 7)
        async with pool_of(node, profiles=learned) as pool:
            asked = node.requests
            await pool.ask(block_calls(range(10)))
            assert pool.retries == 0, "it was not refused again"
            assert node.requests - asked == 1 + -(-20 // known.value)


async def test_batches_grow_while_they_are_answered(chain: Chain) -> None:
    sizes = []

    def watch(asked: Any) -> None:
        sizes.append(len(asked) if isinstance(asked, list) else 1)

    async with Outspoken(chain, watch) as node, pool_of(node) as pool:
        for _ in range(4):
            await pool.ask(block_calls(range(50)))
    assert sizes[:6] == [1, 20, 20, 20, 20, 20]
    assert sizes[-1] == 100
    assert max(sizes) == 100


async def test_a_node_without_batches(chain: Chain) -> None:
    def single(asked: Any) -> Reply | None:
        return error("invalid request", -32600) if isinstance(asked, list) else None

    async with Outspoken(chain, single) as node, pool_of(node) as pool:
        answers = await pool.ask(block_calls(range(4)))
        assert [*map(bytes, answers.results)] == truth(chain, range(4))


async def test_an_oversized_answer_shrinks_batches_and_fails_a_single_call(chain: Chain) -> None:
    def small(asked: Any) -> Reply | None:
        if isinstance(asked, list) and len(asked) > 3:
            return error("response too large", -32003)
        return None

    async with Outspoken(chain, small) as node, pool_of(node) as pool:
        answers = await pool.ask(block_calls(range(6)))
        assert [*map(bytes, answers.results)] == truth(chain, range(6))
        node.answering = first(99, error("response too large", -32003))
        with pytest.raises(Refused) as refused:
            await pool.ask(block_calls(range(6)))
        assert refused.value.refusal.reaction is Reaction.SMALLER_RANGE


async def test_one_giant_block_does_not_limit_all_batches(chain: Chain) -> None:
    def giant(asked: Any) -> Reply | None:
        if isinstance(asked, list) and any(each["params"][0] == hex(77) for each in asked):
            return error("response too large", -32003)
        return None

    async with Outspoken(chain, giant) as node, pool_of(node) as pool:
        await asked_all(pool, chain)
        for at in range(8):  # each one doubles the size of a request
            await pool.ask(block_calls(range(at, at + 50)))
        assert pool.profiles()["a"] == Profile()
        asked = pool.requests
        await pool.ask(block_calls(range(50)))
        assert pool.requests == asked + 1


# How fast, how many


@pytest.mark.parametrize("workers", [1, 3])
async def test_no_more_requests_in_flight_than_workers(chain: Chain, workers: int) -> None:
    most = 0

    def watch(asked: Any) -> None:
        nonlocal most
        most = max(most, len(node._connections))

    async with (
        Outspoken(chain, watch, latency=0.005) as node,
        pool_of(node, workers=workers) as pool,
    ):
        await asyncio.gather(*(pool.ask(block_calls([at])) for at in range(30)))
        assert most == workers, "every request in flight has a connection"


async def test_rps_counts_calls(chain: Chain) -> None:
    async with DevNode(chain) as node, pool_of(node, rps=100) as pool:
        start = monotonic()
        await asyncio.gather(*(pool.ask(block_calls(range(at, at + 5))) for at in range(8)))
        # 81 calls; the last batch of 10 is sent once the 71 before it are paid for.
        assert monotonic() - start >= 0.71


async def test_a_rate_limit_is_respected(chain: Chain) -> None:
    limits = Limits(rps=200, retry_after=None)
    began, nodes = monotonic(), list[DevNode]()

    def clock() -> float:
        """Stands still until the limit is reached, however slowly this machine asks."""
        return monotonic() if any(each.refused for each in nodes) else began

    async with DevNode(chain, limits=limits, clock=clock) as node, pool_of(node) as pool:
        nodes.append(node)
        await asked_all(pool, chain)
        assert node.refused > 0
        assert node.refused < 25, "it got too many requests"


async def test_retry_after_is_respected_while_others_continue(chain: Chain) -> None:
    limited = first(1, error("too many requests", -32005, 429, Retry_After="60"))
    async with Outspoken(chain, limited) as bad, DevNode(chain) as good:
        async with pool_of(bad, good) as pool:
            await asked_all(pool, chain)
        assert len(bad.asked) <= 1 + 8, "only requests already in flight"
    once = first(1, error("", 0, 429, Retry_After="0.5"))
    async with Outspoken(chain, once) as only, pool_of(only) as pool:
        start = monotonic()
        await pool.ask([HEAD])
        assert monotonic() - start >= 0.5


async def test_suspended_for_seconds_is_respected(chain: Chain) -> None:
    words = "request rate exceeded the allowed_rps(10), and the query server is suspended for 0.5 s"
    async with Outspoken(chain, first(1, error(words, 0, 403))) as node, pool_of(node) as pool:
        start = monotonic()
        await pool.ask([HEAD])
        assert monotonic() - start >= 0.5


# Several endpoints


async def test_one_bad_endpoint_is_harmless(chain: Chain) -> None:
    spoilt, fine = DevNode(chain, faults="500=1"), DevNode(chain)
    async with spoilt as bad, fine as good, pool_of(bad, good) as pool:
        pool._endpoints[0].chain_id = chain.chain_id  # it was good at first contact
        await asked_all(pool, chain)
        assert bad.requests < 30, "it was asked repeatedly"


async def test_all_answers_to_one_request_come_from_one_endpoint(
    chain: Chain, other: Chain
) -> None:
    other.reorg(3)
    faulty = DevNode(chain, faults="500=0.05,omit=0.4")
    async with faulty as a, DevNode(other) as b, pool_of(a, b) as pool:
        heights = range(2, 32)
        asking = (pool.ask(block_calls(heights)) for _ in range(12))
        answers = await asyncio.gather(*asking)
        assert {each.endpoint for each in answers} == {"a", "b"}
        for each in answers:
            branch = {"a": chain, "b": other}[each.endpoint]
            assert [*map(bytes, each.results)] == truth(branch, heights)


async def test_a_second_opinion_comes_from_another_endpoint(chain: Chain) -> None:
    async with DevNode(chain) as a, DevNode(chain) as b, pool_of(a, b) as pool:
        for name, other in (("a", "b"), ("b", "a")):
            assert (await pool.ask([HEAD], avoid={name})).endpoint == other


async def test_a_second_opinion_from_the_only_endpoint_uses_a_fresh_connection(
    chain: Chain,
) -> None:
    async with DevNode(chain) as node, pool_of(node) as pool:
        await pool.ask([HEAD])
        (kept,) = node._connections
        start = monotonic()
        assert (await pool.ask([HEAD], avoid={"a"})).endpoint == "a"
        assert monotonic() - start >= 0.05
        await eventually(lambda: node._connections == {kept})
        await pool.ask([HEAD])
        assert node._connections == {kept}


async def test_history_is_requested_from_endpoints_that_have_it(chain: Chain) -> None:
    async with DevNode(chain, limits=Limits(pruned_below=50)) as pruned, DevNode(chain) as full:
        async with pool_of(pruned, full) as pool:
            for at in (5, 30, 60, 5, 30):
                answers = await pool.ask(block_calls([at]))
                assert [*map(bytes, answers.results)] == truth(chain, [at])
            begins = pool.profiles()["a"].earliest
            assert all(30 < each.value <= 50 for each in begins.values())
            asked = pruned.requests
            await pool.ask(block_calls([30]))
            assert pruned.requests == asked
        async with pool_of(pruned) as pool:
            with pytest.raises(MissingHistory, match="no endpoint has block 7") as missing:
                await pool.ask(block_calls([7]))
            assert missing.value.height == 7
            assert missing.value.hint is not None


async def test_an_endpoint_whose_head_is_too_low_is_skipped(chain: Chain, other: Chain) -> None:
    other.start_at(50)
    async with DevNode(other) as a, DevNode(chain) as b, pool_of(a, b) as pool:
        assert bytes((await pool.ask([HEAD], avoid={"b"})).results[0]) == b'"0x32"'
        for _ in range(5):
            assert (await pool.ask(block_calls([90]))).endpoint == "b"


async def test_another_chain_is_refused_by_name(chain: Chain) -> None:
    async with DevNode(chain, faults="wrong-chain=1") as wrong, DevNode(chain) as right:
        async with pool_of(right, wrong) as pool:
            await pool.ask([HEAD], avoid={"b"})
            with pytest.raises(UsageError, match="endpoint `b` is on chain 1338, not 1337"):
                await pool.ask([HEAD], avoid={"a"})
        async with pool_of(right, chain_id=1) as pool:
            with pytest.raises(UsageError, match="endpoint `a` is on chain 1337, not 1"):
                await pool.ask([HEAD])


def test_endpoints_need_unique_names_and_valid_urls() -> None:
    spec = EndpointSpec("a", "http://host/key")
    for specs in ([], [spec, spec]):
        with pytest.raises(UsageError, match="must be unique"):
            Pool(specs, QUERIES)
    for url in ("", "host", "ftp://host", "http://", "http://[", "http://host:x/key"):
        with pytest.raises(UsageError, match="`a` has no usable URL") as refused:
            EndpointSpec("a", url)
        assert "key" not in str(refused.value)
    with pytest.raises(UsageError, match="`rps`"):
        EndpointSpec("a", "http://host", rps=0)


# Ending


async def test_unavailable_after_patience(chain: Chain) -> None:
    async with DevNode(chain, faults="500=1") as node, pool_of(node, patience=0.5) as pool:
        start = monotonic()
        with pytest.raises(Unavailable, match=r"`a` .*internal server error"):
            await pool.ask(block_calls([5]))
        assert monotonic() - start < 3
        assert node.requests > 2


async def test_one_timeout_is_not_the_end_of_patience(chain: Chain) -> None:
    async with DevNode(chain, faults="timeout@5*2") as node, pool_of(node, patience=0.1) as pool:
        answers = await pool.ask(block_calls([5]))
        assert [*map(bytes, answers.results)] == truth(chain, [5])
        assert node.injected == {"timeout": 2}


async def test_no_server(chain: Chain) -> None:
    async with DevNode(chain) as node:
        gone = pool_of(node, patience=0.3)
    async with gone as pool:
        with pytest.raises(Unavailable, match="no connection"):
            await pool.ask([HEAD])


async def test_cancelling_leaves_nothing_running(chain: Chain) -> None:
    before = asyncio.all_tasks()
    async with DevNode(chain, faults="timeout=1", pace=Pace(latency=0.01)) as node:
        async with pool_of(node, workers=2) as pool:
            pool._endpoints[0].chain_id = chain.chain_id
            asks = [asyncio.create_task(pool.ask(block_calls(range(30)))) for _ in range(4)]
            await eventually(lambda: node.requests == 2)
            for each in asks:
                each.cancel()
            await asyncio.gather(*asks, return_exceptions=True)
            assert all(each.cancelled() for each in asks)
            assert (pool.in_flight, pool.waiting) == (0, 0)
        await eventually(lambda: not node._connections)
    assert asyncio.all_tasks() == before
    await eventually(lambda: not any("gapless-rpc" in each.name for each in threading.enumerate()))


def test_a_profile_can_be_stored_as_json() -> None:
    receipts = "eth_getBlockReceipts"
    profile = Profile(
        batch_calls=Learned(10, 1.0), earliest={receipts: Learned(5, 2.0)}, lacks={receipts: 3.0}
    )
    assert msgspec.json.decode(msgspec.json.encode(profile), type=Profile) == profile
    assert msgspec.json.encode(Profile()) == b"{}"
