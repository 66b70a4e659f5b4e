"""How a follow stands, from what the ledger knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gapless.chains import Level
from gapless.cli.render_follow import page, table_of
from gapless.core.errors import NotFound
from gapless.core.ranges import RangeSet, Span
from gapless.following import control
from gapless.following.spec import FollowSpec, LiveChunk, history, standing
from gapless.following.state import FollowState, Retraction
from gapless.following.status import FollowStatus, all_follows, follow_status
from gapless.ledger import Ledger
from gapless.ledger.cursor import HeadSeen
from gapless.ledger.records import Append, NewChunk
from gapless.views.follows import follow_view
from gapless.views.moments import utc
from tests.support import Clock, SqliteHome, Wish, complete, fail, open_at

SPEC = FollowSpec(
    network="celo",
    chain_id=42_220,
    endpoints=("node",),
    sink="chain",
    sink_id="",
    datasets=("blocks",),
    verify=Level.AUTO,
    checks=(),
    batch_size=10,
    name="mine",
    start=100,
    chunk_size=10,
)
LIVE = Wish(queues=("priority",), jobs=(("follow", 1),))


class Follow:
    """A follow whose blocks are planned and stored by the test."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self.ledger, self.clock = ledger, clock
        self.state = FollowState(start=100, next=100)

    async def create(self) -> None:
        await self.ledger.create(standing("follow-mine", SPEC, self.state))

    async def plan(self, last: int, older: Span | None = None, **changed: object) -> None:
        """Plans the next blocks, and older ones as history."""
        led = await self.ledger.lead("mine", "me", 10.0)
        assert led is not None
        cursor, _ = led
        first = self.state.next if older is None else older.last + 1
        blocks = range(first, last + 1)
        hashes = tuple(b"%d".hex() for _ in blocks) or self.state.hashes
        known = {"next": last + 1, "final": first - 1, "hashes": hashes}
        self.state = msgspec.structs.replace(self.state, **known | changed)
        await self.ledger.append(
            Append(
                follow="mine",
                owner="me",
                fence=cursor.fence,
                version=cursor.version,
                state=msgspec.to_builtins(self.state),
                chunks=tuple(NewChunk(it, it, LiveChunk().encode()) for it in blocks),
                backfills=() if older is None else (history("follow-mine", SPEC, older),),
            )
        )

    async def store(self, blocks: int) -> None:
        """Stores the newest blocks."""
        await complete(self.ledger, *await self.ledger.claim(LIVE.request(blocks)))

    async def status(self) -> FollowStatus:
        return await follow_status(self.ledger, "mine")

    async def phase(self) -> str:
        return (await self.status()).phase


@pytest.fixture
async def follow(tmp_path: Path) -> AsyncIterator[Follow]:
    clock = Clock()
    ledger = await open_at(SqliteHome(tmp_path / "ledger.db"), clock)
    found = Follow(ledger, clock)
    await found.create()
    yield found
    await ledger.close()


async def test_before_anyone_has_looked(follow: Follow) -> None:
    status = await follow.status()
    assert (status.phase, status.head, status.stored, status.leader) == (
        "starting",
        None,
        None,
        None,
    )


async def test_it_is_live_once_all_but_a_few_blocks_are_stored(follow: Follow) -> None:
    await follow.plan(109)
    assert await follow.phase() == "behind"
    await follow.store(1)
    status = await follow.status()
    assert (status.phase, status.head, status.stored, status.unstored) == ("behind", 109, 109, 9)
    await follow.store(6)
    status = await follow.status()
    assert (status.phase, status.lag_blocks, status.unstored) == ("live", 0, 3)


async def test_the_lag(follow: Follow) -> None:
    await follow.plan(102)
    await follow.store(3)
    follow.clock.now += 5
    await follow.plan(104)
    follow.clock.now += 7
    status = await follow.status()
    assert (status.lag_blocks, status.lag_seconds, status.leader) == (2, 7, "me")
    follow.clock.now += 60
    assert (await follow.status()).leader is None


async def test_the_lag_grows_while_no_endpoint_answers(follow: Follow) -> None:
    await follow.plan(102)
    await follow.store(3)
    poll = SPEC.poll_seconds
    await follow.ledger.lead("mine", "me", 10.0, HeadSeen(ago=0.0, time=7.0))
    seen_at = follow.clock.now
    follow.clock.now += 3 * poll
    status = await follow.status()
    assert (status.phase, status.lag_seconds) == ("live", 0), "nobody said that it sees no head"
    await follow.ledger.lead("mine", "me", 10.0, HeadSeen(trouble="no endpoint answers: HTTP 503"))
    for _ in range(2):
        follow.clock.now += 100
        status = await follow.status()
        assert (status.phase, status.lag_blocks) == ("behind", 0)
        assert status.lag_seconds == follow.clock.now - seen_at
    view = follow_view(status)
    assert view.trouble == "no endpoint answers: HTTP 503"
    assert (view.head_time, view.lag_seconds) == (utc(7.0), view.silent_seconds)
    since = f"{utc(seen_at):%H:%M} UTC (3m23s)"
    assert f"  no endpoint answers since {since}: HTTP 503\n" in f"{page(view)}\n"
    assert "lag 0 blocks (3m23s); no endpoint answers " in table_of([view])
    await follow.ledger.lead("mine", "me", 10.0, HeadSeen(ago=0.0))
    assert (await follow.status()).lag_seconds == 0


async def test_a_trouble_of_another_kind_is_no_lag(follow: Follow) -> None:
    await follow.plan(100)
    await follow.store(1)
    told = HeadSeen(ago=0.5, trouble="the disk is full")
    await follow.ledger.lead("mine", "me", 10.0, told)
    view = follow_view(await follow.status())
    assert (view.phase, view.lag_seconds) == ("live", 0)
    assert "  the disk is full\n" in f"{page(view)}\n"


async def test_history(follow: Follow) -> None:
    await follow.plan(140, Span(100, 138))
    await follow.store(2)
    status = await follow.status()
    assert (status.phase, status.history_blocks, status.history_pct) == ("backfilling", 39, 0)
    wish = Wish(queues=("backlog",), jobs=(("blocks", 2),))
    await complete(follow.ledger, *await follow.ledger.claim(wish.request(2)))
    assert (await follow.status()).history_pct == pytest.approx(50, abs=2)
    await complete(follow.ledger, *await follow.ledger.claim(wish.request(9)))
    assert await follow.phase() == "live"


async def test_a_dead_letter_is_a_gap(follow: Follow) -> None:
    await follow.plan(101)
    newest, oldest = await follow.ledger.claim(LIVE.request(2))
    await complete(follow.ledger, newest)
    await fail(follow.ledger, oldest, permanent=True)
    status = await follow.status()
    assert (status.gaps, status.stored) == (RangeSet.of((100, 100)), 101)


async def test_what_stops_it(follow: Follow) -> None:
    await follow.plan(101, retraction=Retraction(0, 100, 101))
    assert await follow.phase() == "retracting"
    await follow.plan(101, retraction=None, alarm="a change")
    assert await follow.phase() == "stopped"
    await follow.plan(101, alarm=None)
    await control.pause(follow.ledger, "mine")
    assert await follow.phase() == "paused"
    assert [each.name for each in await all_follows(follow.ledger)] == ["mine"]
    await control.remove(follow.ledger, "mine")
    with pytest.raises(NotFound):
        await follow.status()
