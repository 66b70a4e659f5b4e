"""Seeds that found a bug. They are kept, although changes to the engine change what they do."""

from __future__ import annotations

import pytest

from tests.simulation.run import run, run_follow

FOUND = {
    1138: "a run kept writing, because the heartbeat of a newer claim on its chunk renewed it",
    3905: "the same, in a worker with other slots",
}


@pytest.mark.parametrize("seed", FOUND)
def test_a_bug_that_was_found_stays_fixed(seed: int) -> None:
    outcome = run(seed)
    assert outcome.problem is None, str(outcome)


FOUND_IN_FOLLOWS = {
    13: "a follow stopped for good, because an endpoint fell silent while the fork was looked for",
}


@pytest.mark.parametrize("seed", FOUND_IN_FOLLOWS)
def test_a_bug_that_was_found_in_a_follow_stays_fixed(seed: int) -> None:
    outcome = run_follow(seed)
    assert outcome.problem is None, str(outcome)
