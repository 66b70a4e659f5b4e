"""One run of the simulation, from one seed: of a fetch, a follow, a publisher, or of wallets.

outcome = run(4711)
assert outcome.problem is None, str(outcome)
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import apsw

from tests.simulation.follow_scenario import FollowScenario, drawn_follow
from tests.simulation.follow_world import FollowWorld
from tests.simulation.laws import Broken
from tests.simulation.loop import START, Stuck, VirtualLoop
from tests.simulation.machine import close_with_process
from tests.simulation.observed import count_commits
from tests.simulation.publish_servers import SimulatedServer
from tests.simulation.publish_world import run_publish
from tests.simulation.scenario import Scenario, drawn
from tests.simulation.stage import Stage, Unexpected
from tests.simulation.subjects import SUBJECTS
from tests.simulation.trace import Trace
from tests.simulation.wallet_scenario import WalletScenario, drawn_wallets
from tests.simulation.wallet_world import WalletWorld
from tests.simulation.world import World

_SHOWN = 40
_OF_CONNECTIONS = (close_with_process, count_commits)


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    seed: int
    problem: str | None
    trace: tuple[str, ...]
    seconds: float  # of virtual time
    option: str = ""  # that selects what is simulated

    def __str__(self) -> str:
        lines = "\n".join(self.trace[-_SHOWN:])
        which = f" {self.option}" if self.option else ""
        command = f"python -m tests.simulation{which} --seed {self.seed} --runs 1 --trace"
        return f"seed {self.seed}: {self.problem}\n{lines}\nto reproduce it: {command}"


def run(seed: int, scenario: Scenario | None = None, family: str | None = None) -> Outcome:
    """Runs the scenario of a seed, or another one with the randomness of this seed."""
    chosen = scenario or drawn(seed, SUBJECTS[family] if family else None)
    outcome = _outcome(seed, lambda *place: World(chosen, *place))
    return replace(outcome, option=f"--family {chosen.subject.family.name}")


def run_follow(
    seed: int, scenario: FollowScenario | None = None, family: str | None = None
) -> Outcome:
    """The same for a process that follows the head of a chain."""
    chosen = scenario or drawn_follow(seed, SUBJECTS[family] if family else None)
    outcome = _outcome(seed, lambda *place: FollowWorld(chosen, *place))
    return replace(outcome, option=f"--follow --family {chosen.subject.family.name}")


def run_wallets(seed: int, scenario: WalletScenario | None = None) -> Outcome:
    """The same for wallets on a chain that is followed."""
    chosen = scenario or drawn_wallets(seed)
    outcome = _outcome(seed, lambda *place: WalletWorld(chosen, *place))
    return replace(outcome, option="--wallets")


def run_published(seed: int) -> Outcome:
    """The same for publishers, on a model of a stream; nothing in it takes time."""
    world = run_publish(seed, SimulatedServer)
    return Outcome(seed, world.problem, tuple(world.trace), 0.0, option="--publish")


def _outcome(seed: int, world_in: Callable[[Path, VirtualLoop, Trace], Stage]) -> Outcome:
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    folder = Path(tempfile.mkdtemp(prefix="gapless-simulation-", dir=_memory()))
    trace = Trace(loop.time, str(folder))
    problem: str | None = None
    with _surroundings(folder), trace.of_log():
        world = world_in(folder, loop, trace)
        try:
            loop.run_until_complete(world.run())
            problem = world.laws.broken
        except (Broken, Stuck, Unexpected) as error:
            problem = world.laws.broken or f"{type(error).__name__}: {error}"
        finally:
            outcome = Outcome(seed, problem, tuple(trace.lines), loop.time() - START)
            with _unraisable_ignored():
                world.dispose()
                loop.close()
                del world
                gc.collect()
            asyncio.set_event_loop(None)
            shutil.rmtree(folder)
    return outcome


def _memory() -> str | None:
    """A folder that needs no disk, if there is one: its files are synced thousands of times."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def _surroundings(folder: Path) -> Iterator[None]:
    """Configuration from this folder alone, connections that die with their process, no GC."""
    before = os.environ.get("GAPLESS_CONFIG")
    os.environ["GAPLESS_CONFIG"] = str(folder / "gapless.toml")
    apsw.connection_hooks.extend(_OF_CONNECTIONS)
    if not gc.get_freeze_count():
        gc.freeze()  # modules are not scanned again: a collection after each run is cheap
    gc.disable()  # it would close abandoned coroutines in the middle of a run
    try:
        yield
    finally:
        gc.enable()
        for each in _OF_CONNECTIONS:
            apsw.connection_hooks.remove(each)
        del os.environ["GAPLESS_CONFIG"]
        if before is not None:
            os.environ["GAPLESS_CONFIG"] = before


@contextmanager
def _unraisable_ignored() -> Iterator[None]:
    """For coroutines that a crash interrupted: closing them may fail, which means nothing."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = before
