"""The dataset `transfers`: fetched with the others, alone, or derived later from stored rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

import gapless
from gapless.chains.family import Family
from gapless.chains.opening import open_sink
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Chain, DevNode, Parameters
from gapless.sinks import Access
from tests.conformance.fetch.stage import contents, truth_of
from tests.conformance.sink.conftest import ALL

LAST = 40
WHOLE = RangeSet.of((0, LAST))
HEIGHTS = f"0:{LAST}"
Fetch = Callable[..., Awaitable[gapless.FetchResult]]

every_family = pytest.mark.parametrize("family", ["evm", "tron"], indirect=True)
every_sink = pytest.mark.parametrize("target", ALL, indirect=True)
one_sink = pytest.mark.parametrize("target", ["sqlite"], indirect=True)


@pytest.fixture(scope="module")
def parameters() -> Parameters:
    return Parameters(blocks=LAST + 64, txs=4, fewest=0, seed=11)


def names(family: Family, *, derived: bool = True) -> list[str]:
    return [table.name for table in family.tables if derived or not table.derived_from]


def transfers_of(family: Family) -> str:
    return names(family)[-1]


async def test_it_is_not_fetched_unless_it_is_listed(fetch: Fetch, node: DevNode) -> None:
    done = await fetch(node, heights=HEIGHTS)
    assert "transfers" not in done.rows


@every_family
@every_sink
async def test_it_is_stored_with_its_logs(
    fetch: Fetch, node: DevNode, chain: Chain, family: Family, target: str
) -> None:
    done = await fetch(node, heights=HEIGHTS, datasets=",".join(names(family)))
    expected = truth_of(chain, Span(0, LAST), family, names(family))
    assert expected[transfers_of(family)].num_rows > LAST
    assert done.rows[transfers_of(family)] == expected[transfers_of(family)].num_rows
    assert await contents(target, chain.chain_id, family, derived=True) == expected
    report = await gapless.verify(target, deep=True)
    assert (report.complete, report.findings) == (True, ())


@every_family
@every_sink
async def test_it_is_derived_later_without_a_request_for_a_block(
    fetch: Fetch, node: DevNode, chain: Chain, family: Family, target: str
) -> None:
    await fetch(node, heights=HEIGHTS)
    before = await contents(target, chain.chain_id, family)
    again = await fetch(node, heights=HEIGHTS, datasets=",".join(names(family)))
    assert (again.state, again.fetched, again.reproven) == ("SUCCEEDED", 0, LAST + 1)
    expected = truth_of(chain, Span(0, LAST), family, names(family))
    found = await contents(target, chain.chain_id, family, derived=True)
    assert found == expected
    unchanged = names(family, derived=False)[1:]
    assert {name: found[name] for name in unchanged} == {name: before[name] for name in unchanged}
    async with await open_sink(target, Access.READ) as sink:
        records = await sink.stored(chain.chain_id)
    assert len({(it.proven, it.unproven) for it in records}) == 1, "it has the proofs of its logs"
    report = await gapless.verify(target, deep=True)
    assert (report.complete, report.findings) == (True, ())
    assert (await fetch(node, heights=HEIGHTS, datasets=",".join(names(family)))).reproven == 0


@one_sink
async def test_nothing_is_derived_from_rows_that_were_altered(
    fetch: Fetch, node: DevNode, chain: Chain, family: Family, target: str
) -> None:
    await fetch(node, heights=HEIGHTS)
    file = apsw.Connection(str(Path(target)))
    altered = file.execute("SELECT max(block_number) FROM logs").get
    file.execute("UPDATE logs SET data = x'' WHERE block_number = ?", (altered,))
    file.close()
    again = await fetch(node, heights=HEIGHTS, datasets=",".join(names(family)))
    assert (again.fetched, again.reproven) == (1, LAST)
    expected = truth_of(chain, Span(0, LAST), family, names(family))
    assert await contents(target, chain.chain_id, family, derived=True) == expected


@one_sink
async def test_without_logs_it_is_proven_when_it_is_fetched(
    fetch: Fetch, node: DevNode, chain: Chain, family: Family, target: str
) -> None:
    done = await fetch(node, heights=HEIGHTS, datasets="transfers")
    assert (done.state, done.not_proven) == ("SUCCEEDED", frozenset())
    assert {*done.rows} == {"blocks", "transfers"}
    assert done.calls["eth_getBlockReceipts"] == LAST + 1
    expected = truth_of(chain, Span(0, LAST), family, names(family))
    found = await contents(target, chain.chain_id, family, derived=True)
    assert found["transfers"] == expected["transfers"]
    report = await gapless.verify(target, deep=True)
    assert report.complete
    assert report.reproven is not None
    assert report.reproven.not_again["receipts_root"] == WHOLE


@one_sink
@pytest.mark.parametrize(
    ("deed", "check"),
    [
        ("DELETE FROM transfers WHERE rowid = 5", "count"),
        ("UPDATE transfers SET amount = zeroblob(32) WHERE rowid = 5", "digest"),
    ],
)
async def test_without_logs_counts_and_digests_show_changes(
    fetch: Fetch, node: DevNode, target: str, deed: str, check: str
) -> None:
    await fetch(node, heights=HEIGHTS, datasets="transfers")
    file = apsw.Connection(str(Path(target)))
    file.execute(deed)
    file.close()
    report = await gapless.verify(target, deep=True)
    assert ("transfers", check) in {(it.dataset, it.check) for it in report.findings}
