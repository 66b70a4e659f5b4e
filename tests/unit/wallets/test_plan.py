"""Which passes are planned, given what is planned already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gapless.config import Config, EndpointSettings, SinkTarget
from gapless.core.errors import UsageError
from gapless.core.ranges import RangeSet, Span
from gapless.core.retry import RetryKind
from gapless.ledger.syncs import MOST_SEGMENTS, PlannedHeights, SyncKey, WalletPlan
from gapless.wallets.plan import LEASE_SECONDS, WalletChain, planner, segment_size
from gapless.wallets.request import WalletOptions, build_wallets

CONFIG = Config(
    endpoints={"node": EndpointSettings("http://node", network="ethereum")},
    sinks={"main": SinkTarget("main.db")},
)
ALICE, BOB = (f"0x{digit * 40}" for digit in "12")
FINAL = 20_000_000


def planned(
    known: Mapping[SyncKey, Span],
    *addresses: str,
    start: int | None = None,
    final: int = FINAL,
    stored: RangeSet | None = None,
    finds_events: bool = True,
    detached: bool = True,
    way: str = "events",
    **options: Any,
) -> WalletPlan:
    """The plan for wallets whose known heights were searched in one way."""
    wanted = WalletOptions(**options)  # type: ignore[typeddict-item]
    request, _ = build_wallets(CONFIG, addresses or (ALICE,), ["ethereum"], (), None, wanted)
    chain = WalletChain(
        request.networks[0], 1, "sink-1", start, final, stored or RangeSet(), finds_events
    )
    ids = map("pass-{}".format, count(1))
    before = {it: PlannedHeights(its, {way: RangeSet.of(its)}) for it, its in known.items()}
    return planner(request, [chain], "default", lambda: next(ids), detached=detached)(before)


def key(address: str = ALICE) -> SyncKey:
    return SyncKey("default", address, 1, "sink-1")


def spans(plan: WalletPlan) -> list[tuple[Span, tuple[str, ...]]]:
    return [(each.heights, each.addresses.addresses) for each in plan.passes]


def test_another_way_is_one_more_pass_over_the_same_heights() -> None:
    known = {key(): Span(100, 500)}
    assert spans(planned(known, final=500, scan=True)) == [(Span(100, 500), (ALICE,))]
    assert spans(planned(known, final=600, scan=True)) == [(Span(100, 600), (ALICE,))]
    assert spans(planned(known, final=600, way="scan", scan=True)) == [(Span(501, 600), (ALICE,))]
    assert spans(planned(known, final=500, way="scan", traces=True)) == [(Span(100, 500), (ALICE,))]
    assert planned(known, final=500, way="traces", scan=True).passes == ()
    assert planned(known, final=500, way="scan").passes == ()


def test_wallets_that_are_added_together_share_a_pass() -> None:
    plan = planned({}, ALICE, BOB)
    assert spans(plan) == [(Span(0, FINAL), (ALICE, BOB))]
    (wanted,) = plan.passes
    request = wanted.backfill
    assert request.chunk_total <= MOST_SEGMENTS
    assert request.lease_seconds == LEASE_SECONDS == 180
    assert request.retry.kind is RetryKind.UNBOUNDED
    assert request.group == "wallets-default-1-sink-1"
    assert request.spec["endpoints"] == ["node"]
    assert "http" not in str(request.spec)


def test_a_pass_of_one_segment_gives_up_after_five_retries() -> None:
    (wanted,) = planned({}, final=999).passes
    assert wanted.backfill.chunk_total == 1
    assert (wanted.backfill.retry.kind, wanted.backfill.retry.retries) == (RetryKind.BACKOFF, 5)
    (waited,) = planned({}, final=999, detached=False).passes
    assert (waited.backfill.retry.base, waited.backfill.retry.retries) == (2.0, 5)


def test_what_is_planned_is_only_renewed() -> None:
    plan = planned({key(): Span(0, FINAL)})
    assert (plan.passes, plan.renewed) == ((), (key(),))


def test_each_wallet_gets_what_it_lacks() -> None:
    known = {key(ALICE): Span(100, FINAL - 10), key(BOB): Span(50, FINAL - 10)}
    plan = planned(known, ALICE, BOB, start=50)
    assert spans(plan) == [
        (Span(50, 99), (ALICE,)),
        (Span(FINAL - 9, FINAL), (ALICE, BOB)),
    ]
    assert plan.renewed == (key(ALICE), key(BOB))


def test_without_a_start_the_first_height_stays() -> None:
    assert spans(planned({key(): Span(100, FINAL - 1)})) == [(Span(FINAL, FINAL), (ALICE,))]


def test_a_start_after_what_is_planned_leaves_no_hole() -> None:
    found = spans(planned({key(): Span(0, 99)}, start=500, final=600))
    assert found == [(Span(100, 600), (ALICE,))]


def test_a_chain_that_went_back_plans_nothing() -> None:
    assert planned({key(): Span(0, FINAL)}, final=10).passes == ()


def test_a_node_that_lags_cannot_search_what_another_called_final() -> None:
    with pytest.raises(UsageError, match="block 99 of `ethereum` is not final yet"):
        planned({key(): Span(100, 200)}, start=0, final=50)


def test_without_events_a_pass_ends_where_tables_end() -> None:
    stored = RangeSet.of((0, 500), (700, FINAL))
    assert spans(planned({}, stored=stored, finds_events=False)) == [(Span(0, 500), (ALICE,))]
    assert planned({key(): Span(0, 500)}, stored=stored, finds_events=False).passes == ()
    more = planned({key(): Span(0, 500)}, stored=RangeSet.of((0, 800)), finds_events=False)
    assert spans(more) == [(Span(501, 800), (ALICE,))]
    with pytest.raises(UsageError, match="from block 600 on"):
        planned({}, stored=stored, finds_events=False, start=600)
    with pytest.raises(UsageError, match="from block 600 on"):
        planned({key(): Span(700, 800)}, stored=stored, finds_events=False, start=600)
    assert spans(planned({}, finds_events=False, scan=True)) == [(Span(0, FINAL), (ALICE,))]


@given(st.integers(1, 10**9), st.integers(1, 10**5))
def test_a_plan_is_never_too_long(blocks: int, smallest: int) -> None:
    size = segment_size(blocks, smallest)
    assert size >= smallest
    assert -(-blocks // size) <= MOST_SEGMENTS
    assert size == smallest or -(-blocks // (size - 1)) > MOST_SEGMENTS


heights = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda it: Span(*sorted(it)))


@given(st.dictionaries(st.sampled_from([ALICE, BOB]), heights), heights)
def test_plans_cover_what_was_asked_without_a_hole_or_an_overlap(
    before: dict[str, Span], wanted: Span
) -> None:
    assume(all(wanted.last >= it.first - 1 for it in before.values()))
    known = {key(address): span for address, span in before.items()}
    plan = planned(known, ALICE, BOB, start=wanted.first, final=wanted.last)
    for address in (ALICE, BOB):
        new = [each.heights for each in plan.passes if address in each.addresses.addresses]
        covered = RangeSet([*new, *([before[address]] if address in before else [])])
        assert len(covered.spans) == 1
        assert sum(it.size for it in new) + before.get(address, Span(0, -1)).size == len(covered)
        assert not RangeSet.of(wanted) - covered


def test_a_queue_of_names_that_others_cannot_look_up_is_not_shared() -> None:
    request, _ = build_wallets(CONFIG, [ALICE], ["ethereum"], ["http://x"], None, {})
    chain = WalletChain(request.networks[0], 1, "0123456789abcdef", None, 5, RangeSet(), True)
    assert chain.queue(request, "default") == "foreground-1-0123456789ab"
    assert chain.queue(replace(request, shared=True), "default") == "default"
