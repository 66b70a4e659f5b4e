"""Chaos in a fleet: a seed decides what happens to which worker.

The events are spread over the work, not over time: each waits for a number of effects. A stopped
worker sleeps until its leases have expired and its chunks were finished by others, so that it wakes
as a zombie.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tests.acceptance.fleet import Fleet, WorkerProcess, until
from tests.acceptance.stage import Lease, Stage

DRAINS = ("0s", "10s")
UNUSABLE, INTERRUPTED = 2, 130


@dataclass(frozen=True)
class Plan:
    """How many events of each kind, over how many effects."""

    workers: int
    effects: int
    kills: int = 0
    stops: int = 0
    drains: int = 0
    crashes: int = 0
    longest_sleep: float = 4.0

    def schedule(self, chance: random.Random) -> list[tuple[int, str]]:
        """Which event happens after how many effects."""
        kinds = ["kill"] * self.kills + ["stop"] * self.stops
        kinds += ["drain"] * self.drains + ["crash"] * self.crashes
        chance.shuffle(kinds)
        low, high = self.effects // 20, self.effects * 8 // 10
        return list(zip(sorted(chance.sample(range(low, high), len(kinds))), kinds, strict=True))


@dataclass(frozen=True)
class Sleeper:
    """A stopped worker, and the leases it had."""

    worker: WorkerProcess
    held: list[Lease]
    since: float = field(default_factory=time.monotonic)


class Storm:
    """Carries out a plan; afterwards, all workers are awake and as many as at first."""

    def __init__(self, fleet: Fleet, stage: Stage, plan: Plan, chance: random.Random) -> None:
        self._fleet = fleet
        self._stage = stage
        self._plan = plan
        self._chance = chance
        self._sleepers: list[Sleeper] = []
        self.workers = [self._new_worker() for _ in range(plan.workers)]
        self.happened: Counter[str] = Counter()

    async def rage(self, crash: Callable[[], None] | None) -> None:
        """`crash` takes the database down and up again."""
        for at, kind in self._plan.schedule(self._chance):
            await until(partial(self._reached, at), f"{at} effects, then {kind}")
            if kind == "crash":
                assert crash is not None
                await asyncio.to_thread(crash)
            else:
                await self._strike(await self._victim(), kind)
            self.happened[kind] += 1
        await until(self._is_over, "all workers up and awake")

    def _new_worker(self) -> WorkerProcess:
        return self._fleet.worker("--drain", self._chance.choice(DRAINS))

    async def _reached(self, effects: int) -> bool:
        await self._revive()
        return await self._stage.has_effects(effects)

    async def _is_over(self) -> bool:
        await self._revive()
        return not self._sleepers and all(worker.is_up for worker in self.workers)

    async def _victim(self) -> WorkerProcess:
        """A worker that holds leases and is awake."""
        found: list[WorkerProcess] = []

        async def at_work() -> bool:
            await self._revive()
            asleep = [sleeper.worker for sleeper in self._sleepers]
            owners = {lease.owner for lease in await self._stage.leases()}
            found[:] = [w for w in self.workers if w.id in owners and w not in asleep]
            return bool(found)

        await until(at_work, "a worker at work")
        return self._chance.choice(found)

    async def _strike(self, victim: WorkerProcess, kind: str) -> None:
        if kind == "stop":
            victim.stop()
            held = [lease for lease in await self._stage.leases() if lease.owner == victim.id]
            self._sleepers.append(Sleeper(victim, held))
            return
        self.workers[self.workers.index(victim)] = self._new_worker()
        if kind == "kill":
            victim.kill()
        else:
            victim.send(signal.SIGTERM)
            await until(partial(self._is_gone, victim), f"the end of process {victim.pid}")
            assert victim.forked.returncode in (0, INTERRUPTED), victim

    async def _is_gone(self, worker: WorkerProcess) -> bool:
        """Whether it has ended; a sleeper that it waits for must wake meanwhile."""
        await self._revive()
        return not worker.running

    async def _revive(self) -> None:
        """Wakes those that slept long enough, and replaces those that found no database."""
        for nth, worker in enumerate(self.workers):
            if not worker.running:  # a supervisor would do the same
                assert (worker.forked.returncode, worker.id) == (UNUSABLE, ""), worker
                self.workers[nth] = self._new_worker()
                self.happened["restart"] += 1
        completions = await self._stage.completions() if self._sleepers else {}
        for sleeper in list(self._sleepers):
            replaced = [
                completions.get((lease.backfill_id, lease.chunk_index), 0) > lease.fence
                for lease in sleeper.held
            ]
            # A worker that was stopped in a transaction keeps its successors waiting.
            overslept = time.monotonic() - sleeper.since > self._plan.longest_sleep
            if overslept or (replaced and all(replaced)):
                sleeper.worker.wake()
                self._sleepers.remove(sleeper)
                self.happened["zombie" if any(replaced) else "long sleep"] += 1
