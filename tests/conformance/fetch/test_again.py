"""A fetch repeated, extended, run twice at once or into another sink requests no block twice."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gapless
from gapless.chains.opening import open_sink
from gapless.core.backfill import State
from gapless.core.errors import UsageError
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Chain, DevNode, Limits, Pace
from gapless.devnode.wire import HttpRequest, Reply
from tests.conformance.fetch.stage import LAST, contents, truth
from tests.waiting import eventually

Fetch = Callable[..., Any]


def asked(node: DevNode) -> int:
    return node.calls["eth_getBlockReceipts"]


def remove(target: str) -> None:
    for path in Path(target).parent.glob(f"{Path(target).name}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


async def test_a_finished_range_is_not_requested_again(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch
) -> None:
    assert (await fetch(node)).fetched == LAST + 1
    before = asked(node)
    again = await fetch(node)
    assert (again.fetched, again.state, asked(node)) == (0, State.SUCCEEDED, before)
    assert await stored() == truth(chain, Span(0, LAST))


@pytest.mark.parametrize("target", ["sqlite", "duckdb", "postgres"], indirect=True)
async def test_expired_blocks_are_not_requested_again(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch, target: str
) -> None:
    await fetch(node, heights="0:199", verify="links")
    async with await open_sink(target) as sink:
        assert await sink.expire(chain.chain_id, 150) == 150
    before = asked(node)
    again = await fetch(node, heights="0:209")  # with more checks, for which rows would be needed
    assert (again.fetched, again.gaps, asked(node)) == (10, RangeSet(), before + 10)
    assert again.reproven == 50
    assert await stored() == truth(chain, Span(150, 209))
    report = await gapless.verify(target, deep=True)
    assert report.complete
    assert report.expired == RangeSet.of((0, 149))


async def test_extending_a_range_requests_only_the_difference(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch
) -> None:
    await fetch(node, heights="100:150")
    assert (await fetch(node, heights="90:160")).fetched == 20
    assert (await fetch(node, heights="0:200")).fetched == 201 - 71
    assert asked(node) == 201
    assert await stored() == truth(chain, Span(0, 200))


async def test_another_or_a_deleted_sink_is_filled_from_scratch(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch, target: str, tmp_path: Path
) -> None:
    await fetch(node, heights="0:99")
    other = f"{tmp_path}/other.db"
    assert (await fetch(node, heights="0:99", to=other)).fetched == 100
    assert await contents(other) == truth(chain, Span(0, 99))
    remove(target)
    assert (await fetch(node, heights="0:99")).fetched == 100
    assert await stored() == truth(chain, Span(0, 99))


async def test_deleting_the_ledger_loses_nothing(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch, tmp_path: Path
) -> None:
    await fetch(node, heights="0:99")
    remove(f"{tmp_path}/ledger.db")
    assert (await fetch(node, heights="0:149")).fetched == 50
    assert await stored() == truth(chain, Span(0, 149))


@pytest.mark.parametrize("target", ["sqlite", "parquet", "postgres"], indirect=True)
async def test_two_overlapping_fetches_at_once_store_each_block_once(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch
) -> None:
    one, two = await asyncio.gather(
        fetch(node, heights="0:150"), fetch(node, heights="70:220", chunk_size=33)
    )
    assert (one.state, two.state) == (State.SUCCEEDED, State.SUCCEEDED)
    assert await stored() == truth(chain, Span(0, 220))


async def test_an_interrupted_fetch_resumes_with_what_the_sink_lacks(
    chain: Chain, fetch: Fetch, stored: Fetch
) -> None:
    async with DevNode(chain, pace=Pace(latency=0.02)) as node:
        running = asyncio.create_task(fetch(node, batch_size=10))
        await eventually(lambda: asked(node) > 120)
        running.cancel()
        await asyncio.wait([running])
        before = len((await stored())["blocks"])
        assert 0 < before < LAST
        assert (await fetch(node, batch_size=10)).fetched == LAST + 1 - before
    assert await stored() == truth(chain, Span(0, LAST))


@pytest.mark.parametrize("level", ["off", "links", "receipts"])
async def test_stronger_checks_run_on_stored_rows(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch, level: str
) -> None:
    first = await fetch(node, heights="0:60", verify=level)
    assert first.fetched == 61
    assert "transactions_root" in first.not_proven
    assert (await fetch(node, heights="0:60", verify=level)).fetched == 0
    before = node.calls["eth_getBlockReceipts"]
    again = await fetch(node, heights="0:60")
    assert (again.state, again.fetched, again.reproven) == (State.SUCCEEDED, 0, 61)
    assert again.not_proven == frozenset()
    assert node.calls["eth_getBlockReceipts"] == before
    assert (await fetch(node, heights="0:60", verify="roots")).reproven == 61
    once_more = await fetch(node, heights="0:60", verify="auto")
    assert (once_more.fetched, once_more.reproven) == (0, 0)
    assert await stored() == truth(chain, Span(0, 60))


async def test_missing_datasets_are_added(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch
) -> None:
    only = await fetch(node, heights="0:60", datasets="blocks")
    assert (only.fetched, asked(node)) == (61, 0)
    found = await stored()
    assert {name for name, rows in found.items() if len(rows)} == {"blocks"}
    assert (await fetch(node, heights="0:60")).fetched == 61
    assert (await fetch(node, heights="0:60", datasets="blocks,logs")).fetched == 0
    assert await stored() == truth(chain, Span(0, 60))


async def test_the_next_fetch_requests_only_what_failed(
    chain: Chain, fetch: Fetch, stored: Fetch
) -> None:
    async with DevNode(chain, faults="wrong-block@77*1000") as node:
        assert (await fetch(node, heights="0:120")).gaps == RangeSet.of((77, 77))
    async with DevNode(chain) as node:
        assert (await fetch(node, heights="0:120")).fetched == 1
    assert await stored() == truth(chain, Span(0, 120))


@pytest.mark.parametrize(
    "limits",
    [
        Limits(missing=frozenset({"eth_getBlockReceipts"})),
        Limits(max_batch=3),
        Limits(max_batch=1),
        Limits(rps=2000),
    ],
    ids=["by-transaction", "batches-of-3", "no-batches", "rate-limited"],
)
async def test_a_method_that_the_provider_lacks_is_replaced_by_another(
    chain: Chain, fetch: Fetch, stored: Fetch, limits: Limits
) -> None:
    async with DevNode(chain, limits=limits) as node:
        result = await fetch(node, heights="0:120")
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
    assert await stored() == truth(chain, Span(0, 120))


class Declining(DevNode):
    """A node that refuses some methods with an error message of its own, and answers all others."""

    def __init__(self, chain: Chain, methods: set[str], words: str, code: int) -> None:
        super().__init__(chain)
        self._methods, self._error = methods, {"code": code, "message": words}

    def respond(self, request: HttpRequest) -> Reply:
        asked = json.loads(request.body)
        reply = super().respond(request)
        answers = json.loads(reply.body)
        calls, found = (asked, answers) if isinstance(asked, list) else ([asked], [answers])
        declined = {each["id"] for each in calls if each["method"] in self._methods}
        for each in found:
            if each["id"] in declined:
                each.pop("result", None)
                each["error"] = self._error
        return Reply(json.dumps(answers).encode())


BY_BLOCK, BY_TRANSACTION = "eth_getBlockReceipts", "eth_getTransactionReceipt"


@pytest.mark.parametrize("methods", [{BY_BLOCK}, {BY_BLOCK, BY_TRANSACTION}], ids=len)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("this method is not supported", -32604),
        ("rpc method is not whitelisted", -32000),
        ("not available on the Free tier", -32001),
        ("Bitte wenden Sie sich an den Vertrieb", -32099),
    ],
)
@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
async def test_a_method_declined_with_any_message_is_replaced_by_another(
    chain: Chain, fetch: Fetch, stored: Fetch, methods: set[str], words: str, code: int
) -> None:
    """Receipts by transaction; without these too, logs by range."""
    async with Declining(chain, methods, words, code) as node:
        await fetch(node, heights="0:120")
        before = node.calls[BY_BLOCK]
        result = await fetch(node, heights="0:236")
        assert node.calls[BY_BLOCK] == before, "what was learned is kept"
    assert (result.state, result.gaps, result.fetched) == (State.SUCCEEDED, RangeSet(), 116)
    assert ("receipts_root" in result.not_proven) is (BY_TRANSACTION in methods)
    assert (await stored())["logs"] == truth(chain, Span(0, 236))["logs"]


async def test_pruned_history_is_a_gap_with_a_reason(
    chain: Chain, fetch: Fetch, stored: Fetch
) -> None:
    async with DevNode(chain, limits=Limits(pruned_below=100)) as node:
        result = await fetch(node, heights="60:150")
        assert result.state is State.FAILED
        assert result.gaps == RangeSet.of((60, 99))
    async with (
        DevNode(chain, limits=Limits(pruned_below=100)) as pruned,
        DevNode(chain) as archive,
    ):
        assert not (await fetch(pruned, archive, heights="60:150")).gaps
    assert await stored() == truth(chain, Span(60, 150))


async def test_a_node_of_another_chain_is_refused_before_anything_is_created(
    fetch: Fetch, chain: Chain, target: str, tmp_path: Path
) -> None:
    async with DevNode(chain, faults="wrong-chain=1") as other, DevNode(chain) as node:
        with pytest.raises(UsageError, match="chain"):
            await fetch(node, other, heights="0:200")
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - at once
