"""What a follow asks of the ledger."""

from __future__ import annotations

from pathlib import Path

from gapless.chains import Level
from gapless.following.spec import SLOTS, FollowSpec, standing
from gapless.following.state import FollowState
from gapless.ledger import open_ledger
from tests.follows import append
from tests.support import claim

PROCESS = sum(SLOTS.values())


async def test_a_process_that_died_with_all_its_runs_does_not_hold_up_the_head(
    tmp_path: Path,
) -> None:
    spec = FollowSpec(
        network="custom",
        chain_id=1337,
        endpoints=("node",),
        sink="sink",
        sink_id="id",
        datasets=("blocks",),
        verify=Level.AUTO,
        checks=(),
        batch_size=100,
        name="eth",
        start=0,
        chunk_size=10,
    )
    ledger = await open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    try:
        await ledger.create(standing("follow-eth", spec, FollowState(start=0, next=0)))
        led = await ledger.lead("eth", "leader", 10.0)
        assert led is not None
        await append(ledger, led[0], *range(2 * PROCESS))
        for owner in ("dead", "alive"):
            taken = await claim(
                ledger, PROCESS, owner=owner, queues=("priority",), jobs=(("follow", 1),)
            )
            assert len(taken) == PROCESS
    finally:
        await ledger.close()
