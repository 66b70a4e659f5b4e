"""Runs that follow a live chain, with crashes, pauses, reorganisations and bad endpoints.

Few of them, so that the tests stay quick: `make simulate`, which CI runs too, makes two hundred.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from gapless.devnode import ReorgSchedule
from tests.simulation.follow_scenario import drawn_follow
from tests.simulation.machine import Disk
from tests.simulation.network import Provider
from tests.simulation.run import run_follow
from tests.simulation.subjects import SUBJECTS

SEEDS = (0, 4)  # of an EVM chain and of a TRON chain
DRAWN = 20
BLOCKS = 300  # that a follow must at least have seen

REORGS = ReorgSchedule(every=20, depth=3)
COMMAND = [sys.executable, "-m", "tests.simulation", "--follow", "--runs", "1", "--seed", "9"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sink_becomes_the_chain_whatever_goes_wrong(seed: int) -> None:
    outcome = run_follow(seed)
    assert outcome.problem is None, str(outcome)


def test_without_incidents_every_change_of_the_chain_is_followed() -> None:
    """So that a run in which nothing is followed until the end cannot pass for a good one."""
    drawn = drawn_follow(0)
    honest = Provider("alpha", 0.005, 0.02, limits=drawn.providers[0].limits)
    calm = replace(drawn, providers=(honest,), incidents=(), disk=Disk(), reorgs=REORGS)
    outcome = run_follow(0, calm)
    assert outcome.problem is None, str(outcome)
    assert sum("chain_reorganised" in line for line in outcome.trace) >= 0.8 * BLOCKS / REORGS.every
    assert sum("chunk_completed" in line for line in outcome.trace) >= 0.9 * BLOCKS


def test_the_runs_cover_what_a_chain_can_do() -> None:
    drawn = [drawn_follow(seed) for seed in range(DRAWN)]
    assert all(each.steps >= BLOCKS for each in drawn)
    assert {each.followers for each in drawn} == {1, 2, 3}
    assert {each.subject.family.name for each in drawn} == {*SUBJECTS}
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
