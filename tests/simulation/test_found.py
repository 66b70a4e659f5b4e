"""Seeds that found a bug. They are kept, although changes to the engine change what they do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.devnode import ReorgSchedule
from tests.simulation.follow_scenario import FollowScenario, drawn_follow
from tests.simulation.run import run, run_follow
from tests.simulation.scenario import Incident, Kind

FOUND = {
    1138: "a run kept writing, because the heartbeat of a newer claim on its chunk renewed it",
    3905: "the same, in a worker with other slots",
}


@pytest.mark.parametrize("seed", FOUND)
def test_a_bug_that_was_found_stays_fixed(seed: int) -> None:
    outcome = run(seed)
    assert outcome.problem is None, str(outcome)


def with_outages(scenario: FollowScenario) -> FollowScenario:
    """Many reorganisations, and an endpoint that cannot be reached at almost any time."""
    outages = tuple(Incident(1.0 + 4 * nth, Kind.OUTAGE, nth, 6.0) for nth in range(80))
    reorgs = ReorgSchedule(every=6, depth=3, seed=scenario.seed)
    return replace(scenario, followers=1, reorgs=reorgs, incidents=outages)


FOUND_IN_FOLLOWS = {
    "a follow stopped for good, because an endpoint fell silent while the fork was looked for": (
        with_outages(drawn_follow(3))
    ),
    "a process that died with many runs kept the others from the head": drawn_follow(3036),
    "who was about to create a follow removed what another process stored": drawn_follow(6120),
    "a worker ended, because a backfill that it had settled was deleted by its follow": (
        drawn_follow(20488)
    ),
}


@pytest.mark.parametrize("scenario", FOUND_IN_FOLLOWS.values(), ids=lambda it: str(it.seed))
def test_a_bug_that_was_found_in_a_follow_stays_fixed(scenario: FollowScenario) -> None:
    outcome = run_follow(scenario.seed, scenario)
    assert outcome.problem is None, str(outcome)
