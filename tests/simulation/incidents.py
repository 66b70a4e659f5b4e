"""What goes wrong around the processes of a run until the quiet phase."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw

from gapless.devnode import Chain
from tests.simulation.machine import Disk
from tests.simulation.network import Node
from tests.simulation.programs import Member
from tests.simulation.scenario import Incident, Kind

_DEEPEST_REORG = 40  # blocks below the head: none of them is final


class Incidents:
    """Applies the incidents of a scenario to whatever is running."""

    def __init__(
        self,
        members: Sequence[Member],
        nodes: Sequence[Node],
        chain: Chain,
        files: tuple[Path, Path],
        say: Callable[[str], None],
    ) -> None:
        self._members = members
        self._nodes = nodes
        self._chain = chain
        self._ledger, self._sink = files
        self._say = say
        self._offsets: dict[str, float] = {}  # offsets of wall clocks, by host

    def offset(self, host: str) -> float:
        return self._offsets.get(host, 0.0)

    async def bring(self, incidents: Sequence[Incident]) -> None:
        """Applies each at its time, counted from now."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for incident in incidents:
            await asyncio.sleep(max(0.0, began + incident.at - loop.time()))
            self._say(f"{incident.kind} {incident.victim} {incident.seconds:.3f}")
            self._bring(incident)

    def end(self) -> None:
        """From now on, nothing goes wrong any more."""
        self._say("quiet")
        for node in self._nodes:
            node.heal()
        self._offsets.clear()
        for each in self._members:
            each.machine.offset, each.machine.disk = 0.0, Disk()
            each.machine.cut_off_until = 0.0

    def _bring(self, incident: Incident) -> None:
        running = [each for each in self._members if each.process.alive]
        if running and incident.kind in _OF_PROCESSES:
            self._strike(running[incident.victim % len(running)], incident)
        later, seconds = asyncio.get_running_loop().call_later, incident.seconds
        match incident.kind:
            case Kind.LEDGER_LOCK:
                _lock(self._ledger, seconds)
            case Kind.SINK_LOCK:
                _lock(self._sink, seconds)
            case Kind.OUTAGE:
                node = self._nodes[incident.victim % len(self._nodes)]
                node.up = False
                later(seconds, setattr, node, "up", True)
            case Kind.REORG:
                self._chain.grow(2)
                self._chain.reorg(self._chain.head - min(_DEEPEST_REORG, int(seconds)))

    def _strike(self, victim: Member, incident: Incident) -> None:
        match incident.kind:
            case Kind.CRASH:
                victim.process.crash()
            case Kind.PAUSE:
                victim.process.pause(incident.seconds)
            case Kind.DRAIN:
                victim.stop.set()
            case Kind.CUT_OFF:
                machine = victim.machine
                machine.cut_off_until = machine.clock() + incident.seconds
            case Kind.CLOCK:
                self._jump(victim.machine.identity.host, incident.seconds)

    def _jump(self, host: str, seconds: float) -> None:
        self._offsets[host] = self.offset(host) + seconds
        for each in self._members:
            if each.machine.identity.host == host:
                each.machine.offset = self._offsets[host]


_OF_PROCESSES = (Kind.CRASH, Kind.PAUSE, Kind.DRAIN, Kind.CUT_OFF, Kind.CLOCK)


def _lock(path: Path, seconds: float) -> None:
    """Holds a transaction open, as another program may."""
    if not path.is_file():  # it does not exist yet, or is a folder that nobody locks for long
        return
    holder = apsw.Connection(str(path))
    try:
        holder.execute("BEGIN IMMEDIATE")
    except apsw.BusyError:
        holder.close()
    else:
        asyncio.get_running_loop().call_later(seconds, holder.close)
