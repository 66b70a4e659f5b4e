"""Where an endpoint's history begins. A single refusal proves nothing."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from gapless.core.errors import MissingHistory
from gapless.devnode import Chain, DevNode, Limits
from gapless.devnode.wire import Reply
from gapless.providers import Call
from tests.unit.rpc.nodes import Answering, Outspoken, block_calls, pool_of, truth

WORDS = "missing trie node 5ab1 (path 0a) state is not available"


def gone(chain: Chain, is_gone: Any) -> Answering:
    """Refuses single calls about some blocks, as a node that has lost them, or in other words."""

    def answering(asked: Any) -> Reply | None:
        calls = asked if isinstance(asked, list) else [asked]
        if any(each["method"] not in _ANSWERS for each in calls):
            return None
        answers = []
        for each in calls:
            height = int(each["params"][0], 16)
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": each["id"]}
            if said := is_gone(each["method"], height):
                answer["error"] = {"code": -32000, "message": WORDS if said is True else said}
            else:
                answer["result"] = json.loads(_ANSWERS[each["method"]](chain, height))
            answers.append(answer)
        return Reply(json.dumps(answers if isinstance(asked, list) else answers[0]).encode())

    return answering


_ANSWERS = {"eth_getBlockByNumber": Chain.block, "eth_getBlockReceipts": Chain.receipts}


async def test_a_single_stray_refusal_has_no_effect(chain: Chain) -> None:
    left = 1

    def once(method: str, height: int) -> bool:
        nonlocal left
        hit = height == 100 and left > 0
        left -= hit
        return hit

    async with Outspoken(chain, gone(chain, once)) as node, pool_of(node) as pool:
        for heights in (range(95, 105), range(10)):
            answers = await pool.ask(block_calls(heights))
            assert len(answers.results) == 20
        assert pool.profiles()["a"].earliest == {}


async def test_occasional_stray_refusals_have_no_effect(chain: Chain) -> None:
    chance = Random(5)

    def now_and_then(method: str, height: int) -> bool:
        return chance.random() < 0.05

    async with Outspoken(chain, gone(chain, now_and_then)) as node, pool_of(node) as pool:
        for at in range(0, 120, 10):
            answers = await pool.ask(block_calls(range(at, at + 10)))
            assert len(answers.results) == 20
        assert pool.profiles()["a"].earliest == {}


async def test_a_pruned_node_behind_a_balancer_does_not_hide_the_others(chain: Chain) -> None:
    """Every second request goes to it, so one probe finds all lower blocks missing."""
    requests = 0
    pruned = gone(chain, lambda _, height: requests % 2 == 0 and height < 100)

    def in_turns(asked: Any) -> Reply | None:
        nonlocal requests
        requests += 1
        return pruned(asked)

    async with Outspoken(chain, in_turns) as node, pool_of(node) as pool:
        answers = await pool.ask(block_calls(range(40, 50)))
        assert len(answers.results) == 20
        assert pool.profiles()["a"].earliest == {}


async def test_one_lost_block_makes_no_other_missing(chain: Chain) -> None:
    def lost(method: str, height: int) -> bool:
        return height == 100

    async with Outspoken(chain, gone(chain, lost)) as node, pool_of(node) as pool:
        with pytest.raises(MissingHistory, match=r"no endpoint has block 100: `a` refuses it"):
            await pool.ask(block_calls(range(95, 105)))
        assert pool.profiles()["a"].earliest == {}
        assert len((await pool.ask(block_calls(range(10)))).results) == 20


async def test_a_node_that_reports_every_block_missing_has_not_pruned_them(chain: Chain) -> None:
    """Only a block above that is answered shows where the history begins."""
    async with Outspoken(chain, gone(chain, lambda *_: True)) as node, pool_of(node) as pool:
        with pytest.raises(MissingHistory):
            await pool.ask(block_calls([50]))
        assert pool.profiles()["a"].earliest == {}


async def test_blocks_below_that_only_fail_are_not_missing(chain: Chain) -> None:
    def lost(method: str, height: int) -> bool | str:
        return height == 100 or (height < 100 and "internal error")

    async with Outspoken(chain, gone(chain, lost)) as node, pool_of(node) as pool:
        with pytest.raises(MissingHistory):
            await pool.ask(block_calls([100]))
        assert pool.profiles()["a"].earliest == {}


async def test_pruned_history_is_learned_and_not_requested_again(chain: Chain) -> None:
    async with DevNode(chain, limits=Limits(pruned_below=50)) as node, pool_of(node) as pool:
        with pytest.raises(MissingHistory, match="`a` has no blocks below") as missing:
            await pool.ask(block_calls([20, 21]))
        assert missing.value.height == 20
        asked = node.requests
        with pytest.raises(MissingHistory):
            await pool.ask(block_calls([10, 11]))
        assert node.requests == asked
        answers = await pool.ask(block_calls([60]))
        assert [*map(bytes, answers.results)] == truth(chain, [60])


async def test_receipts_may_be_pruned_where_blocks_are_not(chain: Chain) -> None:
    def pruned(method: str, height: int) -> bool:
        return method == "eth_getBlockReceipts" and height < 50

    async with Outspoken(chain, gone(chain, pruned)) as node, pool_of(node) as pool:
        with pytest.raises(MissingHistory):
            await pool.ask(block_calls([20]))
        assert pool.profiles()["a"].earliest.keys() == {"eth_getBlockReceipts"}
        only = [Call("eth_getBlockByNumber", (hex(20), True), 20)]
        assert len((await pool.ask(only)).results) == 1


async def test_what_another_process_learned_expires(chain: Chain) -> None:
    async with DevNode(chain, limits=Limits(pruned_below=50)) as node, pool_of(node) as pool:
        with pytest.raises(MissingHistory):
            await pool.ask(block_calls([20]))
        learned = pool.profiles()
    async with DevNode(chain) as whole:
        for _ in range(2):  # each run saves what it was given
            async with pool_of(whole, profiles=learned) as pool:
                with pytest.raises(MissingHistory):
                    await pool.ask(block_calls([20]))
                again = pool.profiles()
                assert again["a"].earliest.keys() == learned["a"].earliest.keys()
                for method, found in again["a"].earliest.items():
                    assert found.at == pytest.approx(learned["a"].earliest[method].at, abs=0.1)
                learned = again
