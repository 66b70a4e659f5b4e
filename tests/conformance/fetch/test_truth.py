"""No lie is stored at the default level, and no chain other than the intended one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.session import open_fetch
from gapless.chains import Level, network_of_chain
from gapless.chains.opening import open_sink
from gapless.config import Config
from gapless.core.backfill import State
from gapless.core.errors import Orphaned, UsageError
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Chain, DevNode, Parameters, simulated
from gapless.devnode.wire import Reply
from gapless.ledger import Ledger
from gapless.sinks import Access
from gapless.verification import Report, Verification
from tests.conformance.fetch.stage import contents, truth
from tests.conformance.sink.conftest import target_of
from tests.evm import checks_of
from tests.unit.rpc.nodes import Outspoken

Fetch = Callable[..., Any]
Lie = Callable[[dict[str, Any]], None]
LIED_ABOUT = 33


class Liar(Chain):
    """A chain whose node lies about one block, however often it is asked."""

    def __init__(self, honest: Chain, lie: Lie) -> None:
        self.__dict__.update(vars(honest))
        self._lie = lie

    def block(self, height: int) -> bytes:
        answer = super().block(height)
        if height != LIED_ABOUT:
            return answer
        block = json.loads(answer)
        self._lie(block)
        return json.dumps(block).encode()


def cut_withdrawals(block: dict[str, Any]) -> None:
    assert block["withdrawals"].pop()


def another_recipient(block: dict[str, Any]) -> None:
    for each in block["transactions"]:
        each["to"] = "0x" + "77" * 20


def another_value(block: dict[str, Any]) -> None:
    for each in block["transactions"]:
        each["value"] = "0x77"


def another_input(block: dict[str, Any]) -> None:
    for each in block["transactions"]:
        each["input"] = "0x77"


def an_unknown_type(block: dict[str, Any]) -> None:
    block["transactions"][0]["type"] = "0x76"


@pytest.fixture(scope="session")
def parameters() -> Parameters:
    return Parameters(blocks=300, txs=4, fewest=2, seed=11)


@pytest.mark.parametrize(
    "lie",
    [cut_withdrawals, another_recipient, another_value, another_input, an_unknown_type],
    ids=lambda lie: lie.__name__,
)
async def test_a_lie_is_refused_and_its_block_named(
    chain: Chain, fetch: Fetch, stored: Fetch, lie: Lie
) -> None:
    async with DevNode(Liar(chain, lie)) as liar, DevNode(chain) as honest:
        alone = await fetch(liar, heights="30:39", retry="halt")
        assert (alone.state, alone.gaps) == (State.FAILED, RangeSet.of((LIED_ABOUT, LIED_ABOUT)))
        both = await fetch(liar, honest, heights="30:39")
    assert (both.state, both.gaps) == (State.SUCCEEDED, RangeSet())
    assert await stored() == truth(chain, Span(30, 39))


class Forgetful(Chain):
    """A chain whose node omits fields that follow from others, as old nodes do."""

    def __init__(self, honest: Chain) -> None:
        self.__dict__.update(vars(honest))

    def receipts(self, height: int) -> bytes:
        receipts = json.loads(super().receipts(height))
        for each in receipts:
            for name in ("effectiveGasPrice", "blobGasUsed", "gasUsed", "type"):
                each.pop(name, None)
        return json.dumps(receipts).encode()


@pytest.mark.parametrize("verify", ["auto", "roots"])
async def test_omitted_fields_are_stored_as_if_they_were_sent(
    chain: Chain, fetch: Fetch, stored: Fetch, verify: str
) -> None:
    async with DevNode(Forgetful(chain)) as node:
        result = await fetch(node, heights="0:60", verify=verify)
    assert (result.state, result.not_proven) == (State.SUCCEEDED, frozenset())
    assert await stored() == truth(chain, Span(0, 60))


async def report_of(target: str, **known: Any) -> Report:
    async with await open_sink(target, Access.READ) as sink:
        looking = Verification(sink, 1337, network_of_chain(1337), known.get("anchors", {}), True)
        found = await looking.report()
    assert found is not None
    return found


@pytest.fixture(params=["sqlite", "parquet", "duckdb", "postgres"])
def every_target(request: pytest.FixtureRequest) -> str:
    return target_of(request, request.param)


async def test_missing_proofs_are_made_from_rows_in_every_sink(
    chain: Chain, node: DevNode, fetch: Fetch, every_target: str
) -> None:
    await fetch(node, heights="0:120", to=every_target, verify="receipts")
    before = node.calls["eth_getBlockReceipts"]
    again = await fetch(node, heights="0:120", to=every_target)
    assert (again.reproven, again.fetched, again.not_proven) == (121, 0, frozenset())
    assert node.calls["eth_getBlockReceipts"] == before
    report = await report_of(every_target)
    assert report.complete
    assert report.not_proven == {}


async def test_rows_that_prove_nothing_are_fetched_again(
    chain: Chain, node: DevNode, fetch: Fetch, tmp_path: Path
) -> None:
    target = f"{tmp_path}/weak.db"
    await fetch(node, heights="0:60", to=target, verify="receipts")
    sql = apsw.Connection(target)
    sql.execute("UPDATE transactions SET value = zeroblob(32) WHERE block_number = 7")
    assert sql.changes()
    sql.close()
    again = await fetch(node, heights="0:60", to=target)
    assert (again.reproven, again.fetched) == (60, 1)
    assert await contents(target) == truth(chain, Span(0, 60))


@pytest.mark.parametrize(
    ("before", "verify", "datasets"),
    [("links", "auto", "blocks,transactions"), ("off", "links", None)],
    ids=["receipts without their logs", "the blooms of receipts"],
)
async def test_proofs_that_stored_rows_cannot_give_are_fetched(
    node: DevNode, fetch: Fetch, tmp_path: Path, before: str, verify: str, datasets: str | None
) -> None:
    some = {"heights": "0:40", "to": f"{tmp_path}/weak.db", "datasets": datasets}
    await fetch(node, **some, verify=before)
    again = await fetch(node, **some, verify=verify)
    assert (again.reproven, again.fetched) == (0, 41)
    assert not again.not_proven & {*again.spec.checks}


async def test_refetching_replaces_stored_rows(
    chain: Chain, node: DevNode, fetch: Fetch, tmp_path: Path
) -> None:
    target = f"{tmp_path}/again.db"
    await fetch(node, heights="0:60", to=target)
    sql = apsw.Connection(target)
    sql.execute("DELETE FROM logs WHERE block_number BETWEEN 10 AND 20")
    sql.close()
    assert (await fetch(node, heights="0:60", to=target)).fetched == 0
    for _ in range(2):  # each time from scratch
        assert (await fetch(node, heights="10:20", to=target, refetch=True)).fetched == 11
    assert await contents(target) == truth(chain, Span(0, 60))


async def test_refetching_with_a_new_ledger_replaces_stored_rows(
    chain: Chain, node: DevNode, fetch: Fetch, tmp_path: Path
) -> None:
    """Its fences continue above those that the sink has seen, or nothing would be replaced."""
    target = f"{tmp_path}/again.db"
    await fetch(node, heights="0:99", to=target)
    sql = apsw.Connection(target)
    sql.execute("DELETE FROM logs WHERE block_number BETWEEN 60 AND 80")
    assert sql.changes()
    sql.close()
    other = f"sqlite:///{tmp_path}/other.db"
    await fetch(node, heights="60:80", to=target, refetch=True, ledger=other)
    assert await contents(target) == truth(chain, Span(0, 99))


async def test_a_refetch_never_counts_stored_rows_as_replaced(
    chain: Chain, node: DevNode, fetch: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If its fences are lower than the sink's, it is retried until they are not."""
    target = f"{tmp_path}/again.db"
    await fetch(node, heights="0:99", to=target, chunk_size=50)
    sql = apsw.Connection(target)
    sql.execute("DELETE FROM logs WHERE block_number BETWEEN 60 AND 80")
    assert sql.changes()
    sql.close()
    monkeypatch.setattr(Ledger, "raise_fence", lambda *_: asyncio.sleep(0))
    (tmp_path / "gapless.toml").write_text("[retry]\nbase = 0.01\nmax_delay = 0.02\n")
    monkeypatch.setenv("GAPLESS_CONFIG", f"{tmp_path}/gapless.toml")
    other = f"sqlite:///{tmp_path}/other.db"
    await fetch(node, heights="60:80", to=target, refetch=True, ledger=other)
    assert await contents(target) == truth(chain, Span(0, 99))


async def test_the_request_is_in_the_sink_before_any_row(
    chain: Chain, fetch: Fetch, target: str
) -> None:
    async with DevNode(Liar(chain, cut_withdrawals)) as liar:
        await fetch(liar, heights=f"{LIED_ABOUT}:{LIED_ABOUT}", retry="halt")
    async with await open_sink(target, Access.READ) as sink:
        assert await sink.stored(1337) == []
        (asked,) = await sink.requests(1337)
    assert asked.span == Span(LIED_ABOUT, LIED_ABOUT)
    assert asked.datasets == {"blocks", "transactions", "logs", "withdrawals"}
    assert asked.checks == checks_of(Level.AUTO)
    assert (await report_of(target)).gaps == RangeSet.of((LIED_ABOUT, LIED_ABOUT))


async def test_a_table_that_ends_early_is_not_complete(
    chain: Chain, node: DevNode, fetch: Fetch, every_target: str
) -> None:
    """Its last block is missing, so only the request shows that it should continue."""
    heights = f"0:{LIED_ABOUT}"
    await fetch(node, heights=heights, datasets="blocks", to=every_target)
    async with DevNode(Liar(chain, another_value)) as liar:
        await fetch(liar, heights=heights, to=every_target, retry="halt")
    gaps = {it.dataset: it.gaps for it in (await report_of(every_target)).coverage}
    assert gaps == {
        "blocks": RangeSet(),
        **dict.fromkeys(
            ("transactions", "logs", "withdrawals"), RangeSet.of((LIED_ABOUT, LIED_ABOUT))
        ),
    }


@pytest.mark.parametrize(
    "datasets",
    [
        *("blocks", "blocks,logs", "blocks,transactions", "blocks,withdrawals"),
        *("blocks,transactions,logs", "blocks,logs,withdrawals", "blocks,transactions,withdrawals"),
    ],
)
async def test_a_subset_of_the_tables_can_be_complete(
    node: DevNode, fetch: Fetch, target: str, datasets: str
) -> None:
    for verify in ("auto", "roots"):
        await fetch(node, heights="0:20", datasets=datasets, verify=verify)
        report = await report_of(target)
        assert (report.findings, report.gaps) == ((), RangeSet())


async def test_requests_for_different_tables_coexist(
    node: DevNode, fetch: Fetch, target: str
) -> None:
    await fetch(node, heights="0:20", datasets="blocks,logs")
    await fetch(node, heights="5:9")
    async with await open_sink(target, Access.READ) as sink:
        asked = {it.span: it.datasets for it in await sink.requests(1337)}
    assert (await report_of(target)).complete
    assert asked == {
        (0, 20): {"blocks", "logs"},
        (5, 9): {"blocks", "transactions", "logs", "withdrawals"},
    }


def exists(target: str) -> bool:
    return Path(target).exists()


def anchor(chain: Chain, height: int) -> str:
    return f"{height}:{chain.hash(height)}"


async def test_blocks_below_an_anchor_are_shown_as_part_of_its_chain(
    chain: Chain, node: DevNode, fetch: Fetch, target: str
) -> None:
    await fetch(node, heights="10:60", anchors=[anchor(chain, 50)])
    async with await open_sink(target, Access.READ) as sink:
        asked = {it for each in await sink.requests(1337) for it in each.anchors}
    report = await report_of(target, anchors={it.height: it.hash for it in asked})
    assert [(it.height, it.heights) for it in report.anchored] == [(50, RangeSet.of((10, 50)))]


async def test_a_node_that_contradicts_an_anchor_is_refused_before_anything_is_stored(
    chain: Chain, node: DevNode, fetch: Fetch, target: str
) -> None:
    wrong = f"50:{chain.hash(51)}"
    with pytest.raises(UsageError, match="is not on the chain `custom`: its block 50 is 0x"):
        await fetch(node, heights="10:60", anchors=[wrong])
    assert not exists(target)


def unrelated(_: Parameters) -> Chain:
    return simulated(Parameters(blocks=300, txs=4, seed=12))


def shorter(_: Parameters) -> Chain:
    """It is too short for the final blocks of the others."""
    return simulated(Parameters(blocks=150, txs=4, seed=12))


def forked(parameters: Parameters) -> Chain:
    """It starts like the others."""
    chain = simulated(parameters)
    chain.reorg(200)
    return chain


@pytest.mark.parametrize(
    ("made", "height"),
    [(unrelated, 236), (shorter, 0), (forked, 236)],
    ids=["unrelated", "shorter", "forked"],
)
async def test_endpoints_of_different_chains_are_refused_before_anything_is_stored(
    parameters: Parameters,
    node: DevNode,
    fetch: Fetch,
    target: str,
    made: Callable[[Parameters], Chain],
    height: int,
) -> None:
    """They share a chain id, but not the chain."""
    async with DevNode(made(parameters)) as stranger:
        with pytest.raises(UsageError, match=f"are on different chains: block {height} is 0x"):
            await fetch(node, stranger, heights="10:60")
    assert not exists(target)
    assert node.calls["eth_getBlockReceipts"] == 0


def whimsical(chain: Chain, height: int, times: int) -> Outspoken:
    """A node that returns a wrong hash for one header, a given number of times."""
    left = times

    def answering(asked: Any) -> Reply | None:
        nonlocal left
        if left == 0 or isinstance(asked, list) or asked["params"] != [hex(height), False]:
            return None
        left -= 1
        header = {**json.loads(chain.block(height)), "hash": f"0x{'77' * 32}"}
        return Reply(json.dumps({"id": asked["id"], "result": header}).encode())

    return Outspoken(chain, answering)


async def test_one_wrong_answer_is_not_a_wrong_chain(
    chain: Chain, node: DevNode, fetch: Fetch
) -> None:
    async with whimsical(chain, 236, 2) as other:
        result = await fetch(node, other, heights="10:60", anchors=[anchor(chain, 236)])
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())


async def test_one_wrong_answer_does_not_condemn_a_stored_branch(
    chain: Chain, node: DevNode, fetch: Fetch
) -> None:
    await fetch(node, heights="0:60")
    async with whimsical(chain, 60, 1) as other:
        assert (await fetch(other, heights="0:60")).fetched == 0
        assert len([it for it in other.asked if hex(60) in str(it)]) > 1


async def test_another_chain_never_replaces_a_stored_one(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch
) -> None:
    """However few blocks are stored: a reorganisation leaves common blocks."""
    await fetch(node, heights="0:9")
    other = simulated(Parameters(blocks=300, txs=4, seed=12))
    async with DevNode(other) as stranger:
        for heights in ("0:9", "0:40"):
            with pytest.raises(Orphaned, match="stored blocks 0 to 9 of "):
                await fetch(stranger, heights=heights)
    assert await stored() == truth(chain, Span(0, 9))


async def test_every_trusted_hash_is_compared_before_anything_is_stored(
    chain: Chain, node: DevNode, fetch: Fetch, target: str
) -> None:
    """A correct higher one says nothing about a lower one that was mistyped."""
    with pytest.raises(UsageError, match="its block 30 is 0x"):
        await fetch(node, heights="40:60", anchors=[f"30:{chain.hash(31)}", anchor(chain, 50)])
    assert not exists(target)


async def test_an_anchor_binds_later_fetches_into_the_same_sink(
    chain: Chain, node: DevNode, fetch: Fetch, stored: Fetch
) -> None:
    await fetch(node, heights="40:60", anchors=[anchor(chain, 50)])
    chain.reorg(45)
    async with DevNode(chain) as reorganised:
        with pytest.raises(UsageError, match="its block 50 is 0x"):
            await fetch(reorganised, heights="100:110", confirmations=0)
    assert (await stored())["blocks"].num_rows == 21


async def test_a_branch_abandoned_deeper_than_the_limit_is_reported(
    chain: Chain, fetch: Fetch, stored: Fetch
) -> None:
    async with DevNode(chain) as node:
        await fetch(node, heights="0:200", confirmations=0)
    chain.reorg(100)
    async with DevNode(chain) as node:
        for heights in ("0:200", "201:220", "150:210"):
            with pytest.raises(Orphaned, match="stored blocks 100 to 200 of ") as refused:
                await fetch(node, heights=heights, confirmations=0)
            assert refused.value.stale == RangeSet.of((100, 200))
            assert "repair" in str(refused.value.hint)
    assert (await stored())["blocks"].num_rows == 201, "nothing is lost before a person decides"


async def test_a_branch_that_is_replaced_takes_its_anchors_along(
    chain: Chain, fetch: Fetch, stored: Fetch, target: str, ledger: str
) -> None:
    fetched = {"heights": "0:200", "confirmations": 0}
    async with DevNode(chain) as node:
        await fetch(node, **fetched, anchors=[anchor(chain, 150)])
    chain.reorg(100)
    async with DevNode(chain) as node:
        options = FetchOptions(confirmations=0)
        request, found = build_request(Config(), "custom", "0:200", [node.url], target, options)
        async with open_fetch(replace(request, replace_branch=True), found.config, ledger) as it:
            assert it.missing == RangeSet.of((100, 200))
        assert (await fetch(node, **fetched)).fetched == 101
    assert await stored() == truth(chain, Span(0, 200))


async def test_a_shallow_reorganisation_is_repaired_even_if_all_is_stored(
    chain: Chain, fetch: Fetch, stored: Fetch
) -> None:
    async with DevNode(chain) as node:
        await fetch(node, heights="0:200", confirmations=0)
    chain.reorg(190)
    async with DevNode(chain) as node:
        again = await fetch(node, heights="0:200", confirmations=0)
    assert (again.state, again.fetched) == (State.SUCCEEDED, 11)
    assert await stored() == truth(chain, Span(0, 200))
