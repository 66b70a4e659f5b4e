"""For every refusal seen from a real provider, the pool reacts as it should."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import pytest

from gapless.core.errors import MissingHistory, Unavailable
from gapless.devnode import Chain, DevNode
from gapless.devnode.wire import Reply
from gapless.providers import Call, Pool, Refused
from gapless.providers.provider_errors import Reaction, classify
from tests.data.test_rpc_errors import RECORDED, of, recorded
from tests.unit.rpc.nodes import Outspoken, block_calls, error, first, pool_of, truth

HEIGHTS = range(5, 9)
RAISED = {Reaction.SMALLER_RANGE, Reaction.GIVE_UP}  # the caller has to react


def refusing(found: dict[str, Any]) -> Reply:
    """The provider's recorded answer, as one error object."""
    code = found["code"] if isinstance(found["code"], int) else -32000
    status = found["http_status"] if isinstance(found["http_status"], int) else 200
    data = found["suggested_range_rule"] if found["message"] == "invalid params" else ""
    body = {"id": None, "error": {"code": code, "message": found["message"], "data": data}}
    return Reply(json.dumps(body).encode(), status)


@pytest.mark.skipif(not RECORDED.exists(), reason="there are no recorded provider errors")
@pytest.mark.parametrize("found", recorded(), ids=lambda each: f"{each['provider']}-{each['kind']}")
async def test_another_endpoint_answers_or_the_caller_gets_the_error(
    chain: Chain, found: dict[str, Any]
) -> None:
    """A call to an endpoint that refuses once, beside one that does not."""
    reaction = of(found).reaction
    call = Call("eth_getBlockByNumber", (hex(5), True), 5)
    async with (
        Outspoken(chain, first(1, refusing(found))) as bad,
        DevNode(chain) as good,
        pool_of(bad, good, patience=1) as pool,
    ):
        asking = pool.ask([call])  # both are idle: the first one is asked first
        if reaction in RAISED:
            with pytest.raises(Refused) as refused:
                await asking
            assert refused.value.refusal.reaction is reaction
            assert "`a` refuses eth_getBlockByNumber at 5" in str(refused.value)
            return
        answers = await asking
        if reaction is Reaction.ABSENT:
            assert bytes(answers.results[0]) == b"null"
            return
        assert bytes(answers.results[0]) == chain.block(5)
        assert len(bad.asked) >= 2, "it was asked, in addition to first contact"
        assert answers.endpoint == ("b" if _leaves(reaction) else answers.endpoint)


def _leaves(reaction: Reaction) -> bool:
    """Whether this endpoint is of no use for now."""
    return reaction in (Reaction.SWITCH, Reaction.ELSEWHERE, Reaction.OTHER_METHOD)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("rate limit exceeded", 200),
        ("batch too large", 200),
        ("response too large", 200),
        ("internal error", 200),
        ("payload too large", 413),
        ("too many requests", 429),
    ],
)
async def test_recoverable_refusals_are_retried(chain: Chain, words: str, status: int) -> None:
    """A refusal of a whole batch, from the only endpoint."""
    once = first(1, error(words, -32005, status))
    async with Outspoken(chain, once) as node, pool_of(node) as pool:
        answers = await pool.ask(block_calls(HEIGHTS))
        assert [*map(bytes, answers.results)] == truth(chain, HEIGHTS)


async def raised(pool: Pool, call: Call | None = None) -> Exception:
    with pytest.raises((Refused, MissingHistory, Unavailable)) as found:
        await pool.ask([call or Call("eth_getBlockByNumber", (hex(5), True), 5)])
    return found.value


async def test_an_exhausted_quota_fails_at_once_and_sends_no_more_requests(chain: Chain) -> None:
    words = "Monthly capacity limit exceeded. Visit https://dashboard.example/settings/billing"
    spent = first(9, error(words, -32600, 403))
    async with Outspoken(chain, spent) as node, pool_of(node, patience=30) as pool:
        start = monotonic()
        assert "Monthly capacity" in str(await raised(pool))
        asked = len(node.asked)
        assert "Monthly capacity" in str(await raised(pool))
        assert len(node.asked) == asked, "a resting endpoint is left alone"
        assert monotonic() - start < 5


async def test_a_wrong_key_ends_soon(chain: Chain) -> None:
    denied = Reply(b'{"message":"no such project"}', 401)
    async with Outspoken(chain, lambda _: denied) as node, pool_of(node, patience=2) as pool:
        start = monotonic()
        assert "HTTP 401" in str(await raised(pool))
        assert monotonic() - start < 2


async def test_a_key_that_is_revoked_later_ends_soon(chain: Chain) -> None:
    denied = Reply(b'{"message":"no such project"}', 401)
    async with Outspoken(chain, lambda _: None) as node, pool_of(node, patience=2) as pool:
        await pool.ask(block_calls(range(10)))
        node.answering = lambda _: denied
        asked = len(node.asked)
        with pytest.raises(Unavailable, match="HTTP 401"):
            await pool.ask(block_calls(range(10)))
        assert len(node.asked) - asked < 40


async def test_a_missing_method_is_not_requested_again(chain: Chain) -> None:
    missing = error("the method eth_getBlockByNumber does not exist/is not available", -32601)
    async with Outspoken(chain, first(9, missing)) as node, pool_of(node) as pool:
        for _ in range(3):
            refused = await raised(pool)
            assert isinstance(refused, Refused)
            assert refused.refusal.reaction is Reaction.OTHER_METHOD
        assert len(node.asked) == 2
        assert pool.profiles()["a"].lacks.keys() == {"eth_getBlockByNumber"}
        node.answering = lambda _: None
        await pool.ask([Call("eth_blockNumber")])  # others are still offered


async def test_a_temporary_refusal_is_retried_and_then_reported(chain: Chain) -> None:
    beyond = error("block range extends beyond current head block", -32602)
    async with Outspoken(chain, first(2, beyond)) as node, pool_of(node) as pool:
        call = Call("eth_getLogs", ({"fromBlock": "0x5", "toBlock": "0x5"},), 5)
        await pool.ask([call])
        node.answering = first(99, beyond)
        refused = await raised(pool, call)
        assert isinstance(refused, Refused)
        assert refused.refusal.reaction is Reaction.LATER


async def test_the_suggestion_reaches_the_caller(chain: Chain) -> None:
    words = "query returned more than 10000 results. Try with this block range [0x5, 0x9]."
    async with Outspoken(chain, first(1, error(words, -32005))) as node, pool_of(node) as pool:
        refused = await raised(pool)
        assert isinstance(refused, Refused)
        assert refused.refusal.suggested == (5, 9)


def test_an_unknown_block_is_absent() -> None:
    assert classify("Unknown block", -39001).reaction is Reaction.ABSENT
    tag = "'finalized' tag not supported on pre-merge network"
    assert classify(tag, -32000).reaction is Reaction.GIVE_UP
