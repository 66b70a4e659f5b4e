"""The processes of a run: started, restarted whenever they die, and stopped at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from traceback import format_exception
from typing import Any

from gapless.core.errors import GaplessError
from gapless.system import Process as Identity
from tests.simulation.incidents import Incidents
from tests.simulation.laws import Broken
from tests.simulation.loop import Process, VirtualLoop
from tests.simulation.machine import Disk, Machine, Watch
from tests.simulation.programs import Member
from tests.simulation.trace import Trace

HOSTS = 3
_STOPPING_SECONDS = 300.0

Program = Callable[[Member], Coroutine[Any, Any, None]]


class Unexpected(Exception):
    """A process ended with an error that is not one of ours."""


class Stage:
    """The processes of one run, and what goes wrong around them."""

    incidents: Incidents

    def __init__(self, seed: int, disk: Disk, laws: Watch, loop: VirtualLoop, trace: Trace) -> None:
        self.laws = laws
        self.members: list[Member] = []
        self.everyone: list[Process] = []  # including ended ones
        self.quiet = False
        self.over = False
        self._seed, self._disk = seed, disk
        self._loop = loop
        self._say = trace.say
        self._chance = Random(f"world {seed}")
        self._supervisors: list[asyncio.Task[None]] = []
        self._unexpected: BaseException | None = None
        loop.set_exception_handler(self._note_unhandled)

    async def run(self) -> None:
        """Runs to the end; raises if something is wrong there."""
        raise NotImplementedError

    def supervise(self, name: str, program: Program) -> None:
        """Starts a process, and starts it again until it has done its work."""
        keeping = self._keep_running(name, program)
        self._supervisors.append(asyncio.create_task(keeping, name=f"supervisor-{name}"))

    def machine(self, name: str, disk: Disk) -> Machine:
        """A machine for a process of this name."""
        process, number = Process(name), len(self.everyone)
        self.everyone.append(process)
        return Machine(
            process=process,
            identity=Identity(f"host{number % HOSTS}/boot", 100 + number, "then"),
            chance=Random(f"{name} {self._seed}"),
            clock=self._loop.time,
            disk=disk,
            is_alive=self._is_alive,
            watch=self.laws,
        )

    def calm(self) -> None:
        """From now on, nothing goes wrong any more."""
        self.quiet = True
        self.incidents.end()

    def require_expected(self) -> None:
        if self._unexpected is not None:
            raise Unexpected("".join(format_exception(self._unexpected)))
        if self.laws.broken:
            raise Broken(self.laws.broken)

    async def stop_all(self) -> None:
        self.over = True
        for member in self.members:
            member.stop.set()
        mains = [each.main for each in self.members if each.main and each.process.alive]
        if mains:
            _, left = await asyncio.wait(mains, timeout=_STOPPING_SECONDS)
            if left:
                raise Broken(f"{len(left)} processes do not stop")
        self.require_expected()

    def dispose(self) -> None:
        """Closes what crashed processes left open."""
        self._loop.set_exception_handler(lambda *_: None)
        for supervisor in self._supervisors:
            supervisor._log_destroy_pending = False  # type: ignore[attr-defined]
        for process in self.everyone:
            if process.alive:
                process.crash()
            process.dispose()
        self.laws.close()

    async def _keep_running(self, name: str, program: Program) -> None:
        """Restarts a process whenever it has died or failed, as a supervisor does."""
        attempt, done = 0, False
        while not done:
            member = self._start(f"{name}.{attempt}", program)
            assert member.main is not None
            death = asyncio.create_task(member.process.death.wait())
            await asyncio.wait([member.main, death], return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
            done = self.over or (member.main.done() and not self._failed(member))
            self._say(f"{member.process} is gone")
            self.members.remove(member)
            attempt += 1
            if not done:
                await asyncio.sleep(self._chance.uniform(0.1, 10.0))

    def _start(self, name: str, program: Program) -> Member:
        machine = self.machine(name, Disk() if self.quiet else self._disk)
        machine.offset = self.incidents.offset(machine.identity.host)
        member = Member(machine.process, machine)
        self.members.append(member)
        self._say(f"{member.process} starts")
        member.main = member.process.start(program(member))
        return member

    def _failed(self, member: Member) -> bool:
        """Whether to restart it: it failed, or was drained before its work was done."""
        assert member.main is not None
        error = None if member.main.cancelled() else member.main.exception()
        if error is None:
            return member.stop.is_set() and not self.over
        if not _is_ours(error):
            self._unexpected = self._unexpected or error
        self._say(f"{member.process} failed: {error!r}")
        return True

    def _is_alive(self, wanted: Identity) -> bool:
        return any(each.machine.identity == wanted and each.process.alive for each in self.members)

    def _note_unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Treats an error that nobody awaits as what it is: a bug, here or in the engine."""
        error = context.get("exception") or RuntimeError(context["message"])
        self._say(f"unhandled: {context['message']} {error!r}")
        self._unexpected = self._unexpected or error


def _is_ours(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_ours, error.exceptions))
    return isinstance(error, GaplessError)
