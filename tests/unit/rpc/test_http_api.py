"""Plain HTTP APIs behind a pool: ranges as batches, odd answers in HTTP 200, keys in headers."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest
from msgspec import Raw

from gapless.chains.tron.queries import QUERIES, block_call, infos_call
from gapless.core.errors import GaplessError, MissingHistory, Unavailable, UsageError
from gapless.devnode import Chain, DevNode, Limits, simulated
from gapless.devnode.wire import HttpRequest, Reply
from gapless.lanes import Lane, in_lane
from gapless.providers import Call, EndpointSpec, Pool, Providers, Refused, Timeouts
from gapless.providers.calls import NULL, BatchReply, MalformedReply
from gapless.providers.provider_errors import Reaction
from tests.unit.rpc.conftest import PARAMETERS

WIRE = QUERIES.wire
KEY = "s3cr3t-tron-k3y-0123456789"
BLOCK, BLOCKS = "/wallet/getblockbynum", "/wallet/getblockbylimitnext"
INFOS = "/wallet/gettransactioninfobyblocknum"
LITE = "this API is closed because this node is a lite fullnode"
BUSY = "class java.lang.IllegalAccessException : lack of computing resources"


@pytest.fixture
def chain(cache: Path) -> Chain:
    return simulated(PARAMETERS, cache, family="tron")


def batch(*heights: int) -> dict[int, Call]:
    return {at: block_call(height) for at, height in enumerate(heights)}


def read(body: object, calls: dict[int, Call], status: int = 200) -> BatchReply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return WIRE.read(data, status, calls)


class Scripted(DevNode):
    """A node that may answer in its own way, and records its requests."""

    def __init__(
        self,
        chain: Chain,
        answering: Callable[[HttpRequest], Reply | None] = lambda _: None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(chain, limits=limits)
        self.answering = answering
        self.asked: list[HttpRequest] = []

    def respond(self, request: HttpRequest) -> Reply:
        self.asked.append(request)
        return self.answering(request) or super().respond(request)


def after_contact(reply: Reply, times: int = 1_000) -> Callable[[HttpRequest], Reply | None]:
    """Answers like this the first times, but identifies the chain as usual."""
    left = times

    def answering(request: HttpRequest) -> Reply | None:
        nonlocal left
        if request.body == b'{"num":0}' or left == 0:
            return None
        left -= 1
        return reply

    return answering


def pool_of(*nodes: DevNode, patience: float = 5.0, **options: object) -> Pool:
    specs = [
        EndpointSpec(name, f"{node.url}/base?x=1", headers={"TRON-PRO-API-KEY": KEY})
        for name, node in zip("ab", nodes, strict=False)
    ]
    timeouts = Timeouts(connect=0.5, read=0.5)
    return Pool(specs, QUERIES, patience=patience, timeouts=timeouts, **options)  # type: ignore[arg-type]


def pool_of_root(*nodes: DevNode, patience: float = 5.0, **options: object) -> Pool:
    specs = [EndpointSpec(name, node.url) for name, node in zip("ab", nodes, strict=False)]
    timeouts = Timeouts(connect=0.5, read=0.5)
    return Pool(specs, QUERIES, patience=patience, timeouts=timeouts, **options)  # type: ignore[arg-type]


class Below(Scripted):
    """A node whose API is below a path."""

    def respond(self, request: HttpRequest) -> Reply:
        assert request.path.startswith("/base/wallet")
        assert request.path.endswith("?x=1")
        return super().respond(request._replace(path=request.path.removeprefix("/base")))


# Requests


def test_consecutive_blocks_travel_as_a_range() -> None:
    assert WIRE.joins(block_call(5), block_call(6))
    assert not WIRE.joins(block_call(5), block_call(7))
    assert not WIRE.joins(block_call(5), infos_call(6))
    assert not WIRE.joins(infos_call(5), infos_call(6))
    assert WIRE.request(batch(5, 6, 7)) == (BLOCKS, b'{"startNum":5,"endNum":8}')
    assert WIRE.request(batch(5)) == (BLOCK, b'{"num":5}')
    assert WIRE.counted(batch(5, 6, 7)) == {0: BLOCKS}
    assert WIRE.counted({3: infos_call(5)}) == {3: INFOS}


# Answers


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"block":[]}', b' {\n"block" : [ ] }\n'])
def test_nothing_is_null_for_every_block_of_a_range(body: bytes) -> None:
    assert read(body, batch(5, 6)).results == {0: NULL, 1: NULL}
    assert read(body, batch(5)).results == {0: NULL}


def test_blocks_of_a_range_are_matched_by_height() -> None:
    def block(height: int) -> dict[str, object]:
        raw = {"number": height, "parentHash": "00"} if height else {"parentHash": "00"}
        return {"blockID": f"{height:064x}", "block_header": {"raw_data": raw}}

    found = read({"block": [block(2), block(0), block(9), {"strange": 1}]}, batch(0, 1, 2)).results
    assert json.loads(bytes(found[0])) == block(0), "the number of the genesis is left out"
    assert found[1] == NULL
    assert json.loads(bytes(found[2])) == block(2)


@pytest.mark.parametrize(
    ("body", "status", "reaction"),
    [
        ({"Error": BUSY}, 200, Reaction.SLOW_DOWN),
        (LITE.encode(), 200, Reaction.ELSEWHERE),
        ({"Error": LITE}, 200, Reaction.ELSEWHERE),
        ({"Error": "class java.lang.NullPointerException : null"}, 200, Reaction.AGAIN),
        ({"Error": "this API is unavailable due to config"}, 200, Reaction.OTHER_METHOD),
        ({"success": False, "error": "Exceed the user daily usage (100000)"}, 200, Reaction.SWITCH),
        ({"Error": "request rate exceeded the allowed_rps(10)"}, 403, Reaction.SLOW_DOWN),
        (b"<html>404</html>", 404, Reaction.OTHER_METHOD),
        (b"", 405, Reaction.OTHER_METHOD),
        (b"<html>nginx</html>", 502, Reaction.AGAIN),
        ({"Error": "no key"}, 401, Reaction.SWITCH),
        (b"", 429, Reaction.SLOW_DOWN),
    ],
)
def test_what_a_refusal_means(body: object, status: int, reaction: Reaction) -> None:
    (found,) = read(body, {0: infos_call(5)}, status).errors
    assert found.refusal.reaction is reaction


def test_a_busy_node_says_how_long_it_suspends() -> None:
    said = "request rate exceeded the allowed_rps(10), and the query server is suspended for 5 s"
    (found,) = read({"Error": said}, {0: infos_call(5)}, 403).errors
    assert found.refusal.wait_seconds == 5


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b'{"block":[{', b"hello", b"", b'[{"id":"1"'], ids=repr
)
def test_an_answer_that_is_none(body: bytes) -> None:
    with pytest.raises(MalformedReply):
        read(body, batch(5))


def test_a_range_that_is_not_a_list_of_blocks() -> None:
    with pytest.raises(MalformedReply):
        read({"block": "none"}, batch(5, 6))


def test_a_stated_limit_of_a_range_is_one_of_the_batch() -> None:
    body = {"Error": "the range is limited to 6 blocks"}
    (found,) = read(body, batch(*range(20))).errors
    assert (found.refusal.reaction, found.refusal.most) == (Reaction.SMALLER_BATCH, 6)


# Behind a pool


async def test_ranges_count_as_one_call_and_infos_as_many(chain: Chain) -> None:
    calls = [*map(block_call, range(1, 61)), *map(infos_call, range(1, 4))]
    async with Below(chain) as node, pool_of(node) as pool:
        answers = await pool.ask(calls)
        assert [bytes(each) for each in answers.results[:60]] == [*map(chain.block, range(1, 61))]
        assert pool.calls == {BLOCK: 1, BLOCKS: 3, INFOS: 3}
        assert pool.calls == node.calls
        assert pool.requests == 7


async def test_a_rate_counts_requests(chain: Chain) -> None:
    """A range of 20 blocks takes as long as one call, and is not cut by a low rate."""
    async with DevNode(chain) as node:
        specs = [EndpointSpec("a", node.url, rps=20)]
        async with Pool(specs, QUERIES, patience=5) as pool:
            started = monotonic()
            await pool.ask([*map(block_call, range(1, 61))])
            assert monotonic() - started < 1
        assert node.calls == {BLOCK: 1, BLOCKS: 3}


async def test_the_size_of_ranges_is_learned_from_failures_among_infos(chain: Chain) -> None:
    """Infos that are answered do not prove that ranges are."""

    def answering(request: HttpRequest) -> Reply | None:
        asked = json.loads(request.body)
        too_many = asked.get("endNum", 0) - asked.get("startNum", 0) > 4
        return Reply(b'{"Error":"x"}', 500) if too_many else None

    calls = [*map(block_call, range(1, 41)), *map(infos_call, range(1, 41))]
    async with Scripted(chain, answering) as node, pool_of_root(node) as pool:
        await pool.ask(calls)
        assert pool.calls[BLOCKS] < 40
        assert pool.calls[INFOS] == 40


async def test_an_endpoint_without_ranges_is_asked_block_by_block(chain: Chain) -> None:
    limits = Limits(missing=frozenset({BLOCKS}))
    async with DevNode(chain, limits=limits) as node, pool_of_root(node) as pool:
        answers = await pool.ask([*map(block_call, range(1, 21))])
        assert [bytes(each) for each in answers.results] == [*map(chain.block, range(1, 21))]
        assert node.calls[BLOCK] >= 20


async def test_a_busy_node_is_asked_again_later(chain: Chain) -> None:
    busy = Reply(json.dumps({"Error": BUSY}).encode())
    node = Scripted(chain, after_contact(busy, 3))
    async with node, pool_of_root(node) as pool:
        answers = await pool.ask([block_call(5)])
        assert bytes(answers.results[0]) == chain.block(5)
        assert len(node.asked) == 5


async def test_a_node_without_history_is_left_for_another(chain: Chain) -> None:
    lite = Scripted(chain, after_contact(Reply(LITE.encode())))
    async with lite, DevNode(chain) as good, pool_of_root(lite, good) as pool:
        for _ in range(3):
            answers = await pool.ask([block_call(5)])
            assert answers.endpoint == "b"


async def test_a_block_that_is_gone_costs_neither_its_range_nor_later_ones(chain: Chain) -> None:
    async with DevNode(chain, faults="gone@7") as node, pool_of_root(node) as pool:
        for _ in range(4):
            answers = await pool.ask([*map(block_call, range(1, 21))])
            assert [bytes(each) for each in answers.results] == [*map(chain.block, range(1, 21))]
        assert pool.profiles()["a"].batch_calls is None
        assert node.calls.total() < 30


async def test_no_node_with_history(chain: Chain) -> None:
    lite = Scripted(chain, after_contact(Reply(LITE.encode())))
    async with lite, pool_of_root(lite, patience=1) as pool:
        with pytest.raises(MissingHistory, match="lite fullnode"):
            await pool.ask([block_call(5)])


@pytest.mark.parametrize(
    ("reply", "message"),
    [(Reply(LITE.encode()), "lite fullnode"), (Reply(b"<html></html>", 404), "HTTP 404")],
)
async def test_a_first_contact_that_will_never_succeed(
    chain: Chain, reply: Reply, message: str
) -> None:
    """It is reported at once, although the patience is long, and others are used."""
    async with Scripted(chain, lambda _: reply) as unfit, DevNode(chain) as good:
        async with pool_of_root(unfit, good, patience=30) as pool:
            started = monotonic()
            (absent,) = await pool.meet()
            assert monotonic() - started < 5
            assert (absent.endpoint, message in absent.trouble) == ("a", True)
        async with pool_of_root(unfit, patience=30) as pool:
            with pytest.raises(Unavailable, match=message):
                await pool.meet()


async def test_a_first_contact_that_fails_by_chance(chain: Chain) -> None:
    faults = "null@0*2,wrong-block@0,gone@0,limited@0"
    async with DevNode(chain, faults=faults) as node, pool_of_root(node) as pool:
        assert await pool.meet() == []
        assert pool.chain_id == chain.chain_id


async def test_a_node_of_another_kind(chain: Chain, cache: Path) -> None:
    evm = simulated(PARAMETERS, cache)
    async with DevNode(evm) as node, pool_of_root(node, patience=1) as pool:
        with pytest.raises((Refused, Unavailable)):
            await pool.ask([block_call(5)])


async def test_a_node_of_another_chain(chain: Chain) -> None:
    async with DevNode(chain) as node, pool_of_root(node, chain_id=728126428) as pool:
        with pytest.raises(UsageError, match=f"on chain {chain.chain_id}, not 728126428"):
            await pool.ask([block_call(5)])


async def test_the_head_of_an_endpoint_is_recorded(chain: Chain) -> None:
    async with DevNode(chain) as node, pool_of_root(node) as pool:
        await pool.ask([QUERIES.head])
        (endpoint,) = pool._endpoints
        assert endpoint.is_below(121, pool.system.clock())
        assert not endpoint.is_below(120, pool.system.clock())


async def test_the_priority_lane_works_for_it_too(chain: Chain) -> None:
    async with DevNode(chain) as node, pool_of_root(node, workers=2) as pool:
        with in_lane(Lane.PRIORITY):
            answers = await pool.ask([infos_call(5)])
        assert answers.results == (Raw(chain.receipts(5)),)


# Keys in headers


async def test_headers_are_sent_to_the_endpoint(chain: Chain) -> None:
    node = Below(chain)
    async with node, pool_of(node) as pool:
        await pool.ask([block_call(5)])
        assert {each.headers["tron-pro-api-key"] for each in node.asked} == {KEY}


@pytest.mark.parametrize("status", [200, 401, 403, 429, 500])
async def test_a_node_that_repeats_a_key_from_a_header(chain: Chain, status: int) -> None:
    said = json.dumps({"Error": f"no such key: {KEY}, {KEY.encode().hex()}"}).encode()
    node = Scripted(chain, lambda _: Reply(said, status))
    async with node, pool_of(node, patience=0.2) as pool:
        with pytest.raises(GaplessError) as problem:
            await pool.ask([block_call(5)])
        lines = "".join(traceback.format_exception(problem.value))
        shown = f"{problem.value!r} {problem.value.hint} {vars(problem.value)} {lines}"
        for secret in (KEY, KEY.encode().hex()):
            assert secret not in shown + repr(pool.profiles()) + repr(pool.served())


def test_a_spec_does_not_show_its_headers() -> None:
    spec = EndpointSpec("mine", "https://host", headers={"Authorization": f"Bearer {KEY}"})
    assert repr(spec) == "EndpointSpec(name='mine', rps=None)"
    assert spec.redacted(f"invalid token {KEY}") == "invalid token …"


@pytest.mark.parametrize("headers", [{"Bad name": "x"}, {"Key": f"{KEY}\r\nX: y"}, {"Key": ""}])
def test_invalid_headers_are_refused_without_their_values(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"the header `.*` is not valid") as problem:
        EndpointSpec("mine", "https://host", headers=headers)
    assert KEY not in f"{problem.value} {problem.value.hint}"


async def test_two_keys_at_one_url_are_two_customers(chain: Chain) -> None:
    async with DevNode(chain) as node, Providers() as providers:
        specs = [EndpointSpec(name, node.url, headers={"Key": name}) for name in "ab"]
        async with Pool(specs, QUERIES, providers=providers) as pool:
            assert pool.names == {"a", "b"}
