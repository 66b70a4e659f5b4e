"""Runs that follow a live chain, with crashes, pauses, reorganisations and bad endpoints."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.follow_scenario import drawn_follow
from tests.simulation.run import run_follow

SHARDS, RUNS = 40, 2
BLOCKS = 300  # that a follow must at least have seen

COMMAND = [sys.executable, "-m", "tests.simulation", "--follow", "--runs", "1", "--seed", "9"]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_sink_becomes_the_chain_whatever_goes_wrong(shard: int) -> None:
    for seed in range(shard * RUNS, shard * RUNS + RUNS):
        outcome = run_follow(seed)
        assert outcome.problem is None, str(outcome)


def test_the_runs_cover_what_a_chain_can_do() -> None:
    drawn = [drawn_follow(seed) for seed in range(SHARDS * RUNS)]
    assert all(each.steps >= BLOCKS for each in drawn)
    assert {each.followers for each in drawn} == {1, 2, 3}
    assert max(each.reorgs.depth for each in drawn) >= 60  # the network's limit is 64
    seen = [provider.visibility for each in drawn for provider in each.providers]
    assert all(any(getattr(it, name) for it in seen) for name in ("lag", "cache", "flap", "null"))
    assert {each.start is None for each in drawn} == {True, False}


def test_a_seed_repeats_a_follow_in_another_process() -> None:
    """Even if Python hashes strings differently, so that sets have another order."""
    traces = [
        subprocess.run(
            [*COMMAND, "--trace"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.rpartition("\n1 runs in")[0]
        for hash_seed in ("1", "2")
    ]
    assert traces[0]
    assert traces[0] == traces[1]
