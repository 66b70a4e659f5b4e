"""Batches that are refused as a whole, with messages that are not in the list."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gapless.devnode import Chain, DevNode, Limits, Metering
from gapless.devnode.wire import Ending, Reply
from gapless.providers import Refused, Timeouts
from gapless.providers.provider_errors import Reaction
from tests.unit.rpc.nodes import Outspoken, block_calls, error, pool_of, truth

HEIGHTS = range(30)
Refusing = Callable[[list[Any]], Reply]


def per_item(words: str, code: int = -32000) -> Refusing:
    """The same error for each call, inside HTTP 200."""

    def refusing(asked: list[Any]) -> Reply:
        said = {"code": code, "message": words}
        return Reply(json.dumps([{"id": each["id"], "error": said} for each in asked]).encode())

    return refusing


def whole(reply: Reply) -> Refusing:
    return lambda _: reply


REFUSALS = {
    "listed, HTTP 500": whole(error("Batch of more than 3 requests are not allowed", status=500)),
    "listed, per item": per_item("Batch of more than 3 requests are not allowed"),
    "unlisted, HTTP 500": whole(error("Keine Stapel mit mehr als drei Anfragen", status=500)),
    "unlisted, per item": per_item("Keine Stapel mit mehr als drei Anfragen"),
    "not supported": whole(error("Batch calls are not supported")),
    "bare 429": whole(Reply(b"", 429)),
    "HTML 400": whole(Reply(b"<html><h1>Bad Request</h1></html>", 400)),
    "HTML 403": whole(Reply(b"<html><h1>Forbidden</h1></html>", 403)),
    "HTTP 404": whole(Reply(b"", 404)),
    "empty body": whole(Reply(b"")),
    "half an answer": whole(Reply(b'[{"jsonrpc":"2.0","id":0,"result":')),
    "dropped": whole(Reply(b"", ending=Ending.CUT, share=0.0)),
}


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("name", REFUSALS)
async def test_smaller_batches_are_tried(chain: Chain, name: str, most: int) -> None:
    def answering(asked: Any) -> Reply | None:
        large = isinstance(asked, list) and len(asked) > most
        return REFUSALS[name](asked) if large else None

    async with Outspoken(chain, answering) as node, pool_of(node, patience=10) as pool:
        for _ in range(2):
            answers = await pool.ask(block_calls(HEIGHTS))
            assert [*map(bytes, answers.results)] == truth(chain, HEIGHTS)
        sizes = [len(each) if isinstance(each, list) else 1 for each in node.asked]
        refused = [size for size in sizes if size > most]
        assert len(refused) < 60, "it was not sent repeatedly"
        assert len(refused) < 0.4 * len(sizes)


async def test_a_batch_that_is_not_answered_in_time_is_made_smaller(chain: Chain) -> None:
    def answering(asked: Any) -> Reply | None:
        large = isinstance(asked, list) and len(asked) > 5
        return Reply(b"", ending=Ending.HANGING) if large else None

    timeouts = Timeouts(connect=0.05, read=0.1)
    async with Outspoken(chain, answering) as node, pool_of(node, timeouts=timeouts) as pool:
        answers = await pool.ask(block_calls(range(10)))
        assert [*map(bytes, answers.results)] == truth(chain, range(10))
        assert [len(each) for each in node.asked if isinstance(each, list)][:3] == [20, 10, 10]


async def test_batches_grow_again_after_successes(chain: Chain) -> None:
    left = 15

    def answering(asked: Any) -> Reply | None:
        nonlocal left
        if left == 0 or (isinstance(asked, dict) and asked["method"] == "eth_chainId"):
            return None
        left -= 1
        return Reply(b"", 502)

    async with Outspoken(chain, answering) as node, pool_of(node, patience=30) as pool:
        await pool.ask(block_calls(range(10)))
        assert pool._endpoints[0].calls.value < 20
        for _ in range(8):
            await pool.ask(block_calls(HEIGHTS))
        assert max(len(each) for each in node.asked[-3:]) >= 20
        assert pool.profiles()["a"].batch_calls is None


# Methods


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("the method eth_getBlockReceipts is not supported", -32604),
        ("rpc method is not whitelisted", -32000),
        ("eth_getBlockReceipts is not available on the Free tier", -32001),
        ("Bitte wenden Sie sich an den Vertrieb", -32099),
    ],
)
async def test_a_method_that_is_refused_while_others_are_answered(
    chain: Chain, words: str, code: int
) -> None:
    def answering(asked: Any) -> Reply | None:
        calls = asked if isinstance(asked, list) else [asked]
        if all(each["method"] != "eth_getBlockReceipts" for each in calls):
            return None
        answers = []
        for each in calls:
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": each["id"]}
            if each["method"] == "eth_getBlockReceipts":
                answer["error"] = {"code": code, "message": words}
            else:
                answer["result"] = json.loads(chain.block(int(each["params"][0], 16)))
            answers.append(answer)
        return Reply(json.dumps(answers if isinstance(asked, list) else answers[0]).encode())

    async with Outspoken(chain, answering) as node, pool_of(node) as pool:
        with pytest.raises(Refused) as refused:
            await pool.ask(block_calls(range(10)))
        assert refused.value.refusal.reaction is Reaction.OTHER_METHOD
        assert pool.profiles()["a"].lacks.keys() == {"eth_getBlockReceipts"}
        assert pool.profiles()["a"].batch_calls is None
        assert len(node.asked) < 8


async def test_a_node_in_trouble_does_not_lose_methods(chain: Chain) -> None:
    """Every call about a block is refused with an unknown message, for a while."""
    left = 12

    def answering(asked: Any) -> Reply | None:
        nonlocal left
        if left == 0 or (isinstance(asked, dict) and asked["method"] == "eth_chainId"):
            return None
        left -= 1
        return per_item("der Knoten wird gerade gewartet")(
            asked if isinstance(asked, list) else [asked]
        )

    async with Outspoken(chain, answering) as node, pool_of(node, patience=10) as pool:
        answers = await pool.ask(block_calls(range(10)))
        assert [*map(bytes, answers.results)] == truth(chain, range(10))
        assert not pool.profiles()["a"].lacks


# Budgets


async def test_a_batch_larger_than_the_budget_is_not_sent_forever(chain: Chain) -> None:
    limits = Limits(rps=15, metering=Metering.WHOLE, retry_after=None)
    async with DevNode(chain, limits=limits) as node, pool_of(node) as pool:
        answers = await pool.ask(block_calls(range(10)))
        assert [*map(bytes, answers.results)] == truth(chain, range(10))
        assert node.refused < 15


async def test_the_budget_of_a_metered_provider_is_learned(chain: Chain) -> None:
    limits = Limits(rps=60, metering=Metering.WHOLE, retry_after=None)
    async with DevNode(chain, limits=limits) as node, pool_of(node, patience=30) as pool:
        for _ in range(5):
            await pool.ask(block_calls(range(20)))
        learned = pool.profiles()["a"].rate
        assert learned is not None
        assert 30 < learned.value < 120
