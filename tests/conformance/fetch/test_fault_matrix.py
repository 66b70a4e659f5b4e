"""The fault matrix: whatever a node does, the tables equal those from an honest node.

If a fault cannot be repaired, the gap must be named: never silence.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import pytest

from gapless.chains.family import Family
from gapless.chains.opening import open_sink
from gapless.chains.tron.check_names import TronCheck
from gapless.core.backfill import State
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Chain, DevNode, Limits
from gapless.sinks import Access
from tests.conformance.fetch.stage import LAST, Contents, truth_of
from tests.examples import EXAMPLES

# Shares of requests, of which there are few, and of calls.
MATRIX = {
    "429": "429=0.2",
    "429-bare": "429-bare=0.2",
    "limited": "limited=0.05",
    "500": "500=0.2",
    "null": "null=0.02",
    "empty": "empty=0.02",
    "truncated": "truncated=0.02",
    "malformed": "malformed=0.2",
    "drop": "drop=0.2",
    "wrong-block": "wrong-block=0.02",
    "stale-head": "stale-head@150*3",
    "omit": "omit=0.2",
    "lone-error": "lone-error=0.2",
    "shuffle": "shuffle=0.5",
    "null-third": "null=0.33",
    "gone": "gone=0.02",
    "call-429": "call-429=0.03",
    "whole-batch": "call-500=0.03,call-drop=0.01,call-malformed=0.01",
}
ALL = (
    "429=0.05,500=0.05,malformed=0.05,drop=0.05,omit=0.05,lone-error=0.05,shuffle=0.2,"
    "null=0.01,empty=0.01,truncated=0.01,wrong-block=0.01,stale-head=0.01,limited=0.01"
)
# What a node does meets the sink only in what is written: each fault meets SQLite and one other
# sink, in turn, and all faults at once meet every sink. In soak runs, each fault meets every sink.
OTHERS = ("parquet", "duckdb", "postgres")
IN_TURN = [*zip(cycle(OTHERS), MATRIX, strict=False)]
CELLS = [("evm", "sqlite", cell) for cell in MATRIX]
CELLS += [("evm", *pair) for pair in (product(OTHERS, MATRIX) if EXAMPLES else IN_TURN)]
CELLS += [("evm", kind, "all") for kind in ("sqlite", *OTHERS)]
# Nothing on a TRON chain covers logs: one endpoint can leave them out, and two are compared.
CELLS += [("tron", "sqlite", cell) for cell in MATRIX if cell != "truncated"]
LIES = ("empty", "wrong-block", "null", "gone")
LIARS = pytest.mark.parametrize(
    ("family", "target", "fault"),
    [
        *(("evm", kind, fault) for kind in ("sqlite", "parquet") for fault in ("truncated", *LIES)),
        *(("tron", "sqlite", fault) for fault in LIES),
    ],
    indirect=["family", "target"],
)
QUICK = Limits(retry_after=0)
Fetch = Callable[..., Any]


@pytest.mark.parametrize(("family", "target", "cell"), CELLS, indirect=["family", "target"])
async def test_no_fault_costs_a_row(
    chain: Chain, family: Family, fetch: Fetch, stored: Fetch, cell: str
) -> None:
    async with DevNode(chain, faults=MATRIX.get(cell, ALL), limits=QUICK) as node:
        result = await fetch(node)
        assert node.injected, "the node was honest: the test proves nothing"
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
    assert await stored() == truth_of(chain, Span(0, LAST), family)


@pytest.mark.parametrize(("family", "target"), [("tron", "sqlite")], indirect=True)
async def test_logs_that_nothing_proves_are_compared_between_endpoints(
    chain: Chain, family: Family, fetch: Fetch, stored: Fetch
) -> None:
    async with (
        DevNode(chain, faults=MATRIX["truncated"], limits=QUICK) as liar,
        DevNode(chain, limits=QUICK) as honest,
    ):
        result = await fetch(liar, honest, verify="roots")
        assert liar.injected, "the node was honest: the test proves nothing"
    assert (result.state, result.gaps, result.not_proven) == (State.SUCCEEDED, RangeSet(), set())
    assert await stored() == truth_of(chain, Span(0, LAST), family)


@pytest.mark.parametrize(("family", "target"), [("tron", "sqlite")], indirect=True)
async def test_what_one_endpoint_left_out_unnoticed_is_recorded_as_unproven(
    chain: Chain, family: Family, fetch: Fetch, stored: Fetch, target: str
) -> None:
    async with DevNode(chain, faults="truncated=0.05", limits=QUICK) as node:
        result = await fetch(node)
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
    found, honest = await stored(), truth_of(chain, Span(0, LAST), family)
    assert found["tron_logs"].num_rows < honest["tron_logs"].num_rows
    lost = _signed(honest) - _signed(found)
    assert not _signed(found) - _signed(honest)
    # A transaction is lost only if its info is left out as well, by chance.
    assert result.not_proven == {TronCheck.LOGS, *[TronCheck.TRANSACTIONS_ROOT][: len(lost)]}
    async with await open_sink(target, Access.READ) as sink:
        records = await sink.records(chain.chain_id, Span(0, LAST))
    assert all(TronCheck.LOGS in it.unproven for it in records if it.dataset == "tron_logs")
    for height, _ in lost:
        concerned = [it for it in records if it.span.first <= height <= it.span.last]
        assert all(TronCheck.TRANSACTIONS_ROOT in it.unproven for it in concerned)


def _signed(tables: Contents) -> set[tuple[int, bytes]]:
    """The heights of all transactions, and what their owners signed."""
    rows = tables["tron_transactions"]
    return {*zip(rows["block_number"].to_pylist(), rows["raw_data"].to_pylist(), strict=True)}


@LIARS
async def test_a_block_that_no_endpoint_can_serve_is_named_and_nothing_else_is_lost(
    chain: Chain, family: Family, fetch: Fetch, stored: Fetch, fault: str
) -> None:
    async with DevNode(chain, faults=f"{fault}@113*1000") as node:
        result = await fetch(node)
        assert result.state is State.FAILED
        assert result.gaps == RangeSet.of((113, 113))
        assert "113" in (result.error or "")
    found, honest = await stored(), truth_of(chain, Span(0, LAST), family)
    for name, rows in honest.items():
        kept = rows.filter([height != 113 for height in rows["block_number"].to_pylist()])
        assert found[name] == kept.combine_chunks()


@LIARS
async def test_a_second_endpoint_answers_for_one_that_lies(
    chain: Chain, family: Family, fetch: Fetch, stored: Fetch, fault: str
) -> None:
    async with DevNode(chain, faults=f"{fault}@113*1000") as liar, DevNode(chain) as honest:
        result = await fetch(liar, honest)
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
    assert await stored() == truth_of(chain, Span(0, LAST), family)
