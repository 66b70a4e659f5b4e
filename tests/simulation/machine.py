"""The machine of a simulated process: its clocks, randomness, threads and disk.

Threads and executors run inline, as callbacks of the virtual loop: each function is one atomic
step, after a delay that the seed decides. Around that step the disk may fail: the function does not
run at all (its commit is lost), or it runs and its result never arrives (the reply is lost). The
process may die just before or just after it, or be paused with a write to the sink pending. A lock
that another process holds is a real SQLite lock; with a busy timeout of zero it is found at once,
and waited for on the virtual clock.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeVar

import apsw

from gapless.lanes import LaneQueue, current_lane
from gapless.sinks.parquet import ParquetSink
from gapless.sinks.sqlite import SqliteSink
from gapless.system import Process as Identity
from gapless.system import System
from gapless.threads import LockWaiting, SerialThread, Unstoppable
from tests.simulation.loop import PROCESS, Process

T = TypeVar("T")

NOON = 1_700_000_000.0
_LOCK_PAUSE = 0.05  # seconds between two attempts to get a lock
_PAUSE = (5.0, 200.0)  # seconds: shorter than a lease, or longer
_CLOSING = ("close", "_close")  # unless closed, they would stay open longer than their process
_WRITING = "_write"  # to a sink
_OPENING = "<lambda>"  # of a sink, which reports its own failures in its own way


@dataclass(frozen=True)
class Disk:
    """How long a step of a thread takes in seconds, and how often it fails."""

    fastest: float = 0.0005
    slowest: float = 0.01
    lost: float = 0.0
    reply_lost: float = 0.0
    crash_before: float = 0.0
    crash_after: float = 0.0
    pause: float = 0.0  # the whole process stops just before a write to the sink


@dataclass
class Machine:
    """One process's machine. `offset` is the error of its wall clock; disk and offset change."""

    process: Process
    identity: Identity
    chance: Random
    clock: Callable[[], float]
    disk: Disk
    is_alive: Callable[[Identity], bool]
    watch: Watch
    offset: float = 0.0
    cut_off_until: float = 0.0  # until when it cannot reach the ledger

    @property
    def system(self) -> System:
        return System(
            clock=self.clock,
            wall_clock=self.now,
            database_clock=self.now,
            chance=self.chance.random,
            random_bytes=self.chance.randbytes,
            serial_thread=lambda name: InlineThread(name, self),
            executor=lambda _, __: InlineExecutor(self),
            process=lambda: self.identity,
            is_alive=self.is_alive,
        )

    def now(self) -> float:
        """The time of day on this machine."""
        return NOON + self.clock() + self.offset

    def delay(self) -> float:
        """How long the next step of a thread takes."""
        low, high = self.disk.fastest, self.disk.slowest
        return low * float((high / low) ** self.chance.random())


class Watch:
    """Observes a run while it continues; see `laws`."""

    broken: str | None = None  # the first law that did not hold

    def begun(self, machine: Machine, thread: str, call: partial[Any]) -> None:
        """A process has asked a thread to call this."""

    def done(self, machine: Machine, thread: str, call: partial[Any], outcome: str) -> None:
        """A thread has run this, or failed to."""

    def close(self) -> None:
        """The run is over."""


class InlineThread(SerialThread):
    """Calls functions one after the other, each as one step of the virtual loop."""

    def __init__(self, name: str, machine: Machine) -> None:
        self._name = name.removeprefix("gapless-")
        self._machine = machine
        self._running: tuple[asyncio.Future[Any], partial[Any]] | None = None
        self._waiting: LaneQueue[tuple[asyncio.Future[Any], partial[Any]]] = LaneQueue()
        self._patience = 0.0
        self._waiting_since: float | None = None

    async def run(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        loop = asyncio.get_running_loop()
        done: Unstoppable[T] = Unstoppable(loop=loop)
        call = partial(function, *arguments, **named)
        self._machine.watch.begun(self._machine, self._name, call)
        self._waiting.append((done, call), current_lane())
        if self._running is None:
            self._take_next()
        return await done

    def wait_for_locks(self, connection: LockWaiting, seconds: float) -> None:
        connection.set_busy_timeout(0)
        self._patience = seconds

    def end(self) -> None:
        assert self._running is None or not self._machine.process.alive, (
            "a thread that ends has nothing left to do"
        )

    def _take_next(self) -> None:
        self._running = self._waiting.popleft()
        asyncio.get_running_loop().call_later(self._machine.delay(), self._step)

    def _step(self) -> None:
        loop, machine = asyncio.get_running_loop(), self._machine
        assert self._running is not None
        done, call = self._running
        fate = self._fate(call)
        if fate == "crash before":
            self._die(call, fate)
            return
        if fate == "pause":
            machine.watch.done(machine, self._name, call, fate)
            machine.process.pause(machine.chance.uniform(*_PAUSE))
            loop.call_soon(self._step)
            return
        result, error = None, None
        try:
            if fate == "lost":
                raise self._failure()
            result = call()
            if isinstance(result, ParquetSink):
                machine.process.at_death.append(result._folder.close)
        except Exception as raised:  # noqa: BLE001 - the caller gets it
            error = raised
            if _is_locked(raised) and self._may_wait(loop.time()):
                loop.call_later(_LOCK_PAUSE, self._step)
                return
        self._waiting_since = None
        if fate == "crash after":
            self._die(call, fate)
            return
        if fate == "reply lost" and error is None:
            error = self._failure()
        outcome = fate or ("ok" if error is None else type(error).__name__)
        machine.watch.done(machine, self._name, call, outcome)
        loop.call_later(machine.delay() / 4, self._answer, done, result, error)

    def _answer(self, done: asyncio.Future[Any], result: object, error: Exception | None) -> None:
        self._running = None
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)
        if self._waiting:
            self._take_next()

    def _fate(self, call: partial[Any]) -> str:
        """What goes wrong with a step; an empty text means nothing."""
        machine, name = self._machine, unwrapped(call)[0]
        if name in _CLOSING or self._waiting_since is not None:
            return ""
        if self._name == "ledger" and machine.clock() < machine.cut_off_until:
            return "lost"
        fates = ["crash before", "crash after"]
        if name != _OPENING:
            fates += ["lost", "reply lost"]
        if name == _WRITING:
            fates.append("pause")
        lot = machine.chance.random()
        for fate in fates:
            chance: float = getattr(machine.disk, fate.replace(" ", "_"))
            if lot < chance:
                return fate
            lot -= chance
        return ""

    def _die(self, call: partial[Any], fate: str) -> None:
        self._machine.watch.done(self._machine, self._name, call, fate)
        self._machine.process.crash()

    def _failure(self) -> Exception:
        if self._name == "parquet-sink":
            return OSError(errno.EIO, "input/output error")
        return apsw.IOError("IOError: disk I/O error")

    def _may_wait(self, now: float) -> bool:
        if self._waiting_since is None:
            self._waiting_since = now
        return now + _LOCK_PAUSE - self._waiting_since <= self._patience


class InlineExecutor(Executor):
    """Calls functions where they are submitted; the virtual loop adds the time that they take."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def delay(self) -> float:
        return self._machine.chance.uniform(0.0001, 0.02)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            done.set_exception(error)
        return done


def close_with_process(connection: apsw.Connection) -> None:
    """Closes a new SQLite connection when its process crashes, without a checkpoint.

    What it has not committed is rolled back, by itself or by whoever opens the file next.
    """
    process = PROCESS.get()

    def close() -> None:
        with suppress(apsw.ConnectionClosedError):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close(True)

    if process is not None:
        process.at_death.append(close)


def unwrapped(call: partial[Any]) -> tuple[str, tuple[Any, ...]]:
    """The name and the arguments of what a thread really does."""
    inner = call.args[0] if call.args else None
    if call.func.__name__ == SqliteSink._run_on_one_state.__name__ and isinstance(inner, partial):
        return inner.func.__name__, inner.args
    return call.func.__name__, call.args


def _is_locked(error: BaseException) -> bool:
    return isinstance(error, apsw.BusyError) or isinstance(error.__cause__, apsw.BusyError)
