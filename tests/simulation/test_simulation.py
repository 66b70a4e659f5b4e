"""Runs with crashes, pauses, clock jumps, bad providers and lost commits.

Few of them, so that the tests stay quick: `make simulate`, which CI runs too, makes two hundred.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.run import run

SHARDS, RUNS = 5, 4


@pytest.mark.parametrize("shard", range(SHARDS))
def test_everything_is_stored_once_whatever_goes_wrong(shard: int) -> None:
    for seed in range(shard * RUNS, shard * RUNS + RUNS):
        outcome = run(seed)
        assert outcome.problem is None, str(outcome)


@pytest.mark.parametrize("seed", [1, 36])
def test_a_seed_repeats_a_run_to_the_byte(seed: int) -> None:
    first, second = run(seed), run(seed)
    assert "\n".join(first.trace) == "\n".join(second.trace)


def test_a_seed_repeats_a_run_in_another_process() -> None:
    """Even if Python hashes strings differently, so that sets have another order."""
    command = [sys.executable, "-m", "tests.simulation", "--runs", "1", "--seed", "7", "--trace"]
    traces = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.rpartition("\n1 runs in")[0]
        for hash_seed in ("1", "2")
    ]
    assert traces[0]
    assert traces[0] == traces[1]
