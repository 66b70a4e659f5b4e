"""The backfill's state machine: `decide` turns a command into events, `apply` folds them.

    PENDING ──> RUNNING ──> SUCCEEDED    every chunk complete
                 │  ^ └───> FAILED       all chunks ended, some abandoned; or halted by policy
                 v  │
                PAUSED                   nothing new is claimed or planned; active chunks finish
    PENDING | RUNNING | PAUSED ──> CANCELLED

Cancel and halt first *request* the stop: unstarted chunks end at once, and the state changes when
no active chunk is left. Until then a cancelled backfill is "cancelling". Repeating a command causes
no events and no error; the error of an illegal command names the state and the possible commands.
A standing backfill gets more chunks for as long as it exists, so it never ends for lack of work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from gapless.core.errors import WrongState
from gapless.core.events import BackfillStateChanged, BackfillStopRequested, Event
from gapless.core.remedies import ChooseCommand


class State(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        return self in (State.SUCCEEDED, State.FAILED, State.CANCELLED)


class Stop(StrEnum):
    CANCEL = "cancel"
    HALT = "halt"


@dataclass(frozen=True)
class Lifecycle:
    """The part of a backfill that commands change."""

    backfill_id: str
    state: State = State.PENDING
    state_version: int = 0
    stopping: Stop | None = None


class Command(StrEnum):
    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    HALT = "halt"


@dataclass(frozen=True)
class OpenWork:
    """What is left to do in a backfill, counted under its lock."""

    running: int
    waiting: int
    unplanned: int
    abandoned: int
    standing: int = 0  # 1 if more may be appended at any time


def decide(backfill: Lifecycle, command: Command) -> tuple[Event, ...]:
    """The events that a command causes; none if the backfill is in that state already."""
    state, stopping = backfill.state, backfill.stopping
    match command:
        case Command.START if state is State.PENDING:
            return (_change(backfill, State.RUNNING),)
        case Command.PAUSE if state in (State.PENDING, State.RUNNING) and not stopping:
            return (_change(backfill, State.PAUSED),)
        case Command.RESUME if state is State.PAUSED and stopping is not Stop.CANCEL:
            return (_change(backfill, State.RUNNING),)
        case Command.CANCEL if not state.ended and stopping is not Stop.CANCEL:
            return (BackfillStopRequested(backfill.backfill_id, Stop.CANCEL),)
        case Command.HALT if not state.ended and not stopping:
            return (BackfillStopRequested(backfill.backfill_id, Stop.HALT),)
    if _already(backfill, command):
        return ()
    raise WrongState(
        f"backfill `{backfill.backfill_id}` is {describe(backfill)}: cannot {command} it",
        remedy=ChooseCommand(_possible(backfill)),
    )


def settle(backfill: Lifecycle, open_work: OpenWork) -> tuple[Event, ...]:
    """The event that ends the backfill, if nothing is left to do."""
    if backfill.state.ended or open_work.running:
        return ()
    if backfill.stopping is Stop.CANCEL:
        return (_change(backfill, State.CANCELLED),)
    if backfill.state is not State.RUNNING:
        return ()
    if backfill.stopping is Stop.HALT:
        return (_change(backfill, State.FAILED),)
    if open_work.waiting or open_work.unplanned or open_work.standing:
        return ()
    return (_change(backfill, State.FAILED if open_work.abandoned else State.SUCCEEDED),)


def apply(backfill: Lifecycle, event: Event) -> Lifecycle:
    """The backfill after the event; events of its chunks do not change it."""
    match event:
        case BackfillStateChanged():
            return replace(backfill, state=State(event.to_state), state_version=event.state_version)
        case BackfillStopRequested():
            return replace(backfill, stopping=Stop(event.reason))
        case _:
            return backfill


def describe(backfill: Lifecycle) -> str:
    """The state as it is shown to people."""
    if backfill.stopping is Stop.CANCEL and not backfill.state.ended:
        return "cancelling"
    if backfill.stopping is Stop.HALT and not backfill.state.ended:
        return f"{backfill.state}, halting"
    return str(backfill.state)


def _change(backfill: Lifecycle, to: State) -> BackfillStateChanged:
    return BackfillStateChanged(
        backfill.backfill_id, backfill.state, to, backfill.state_version + 1
    )


def _already(backfill: Lifecycle, command: Command) -> bool:
    state, stopping = backfill.state, backfill.stopping
    match command:
        case Command.PAUSE:
            return state is State.PAUSED and stopping is not Stop.CANCEL
        case Command.RESUME:
            return state in (State.PENDING, State.RUNNING) and stopping is not Stop.CANCEL
        case Command.CANCEL:
            return state is State.CANCELLED or (not state.ended and stopping is Stop.CANCEL)
        case Command.START | Command.HALT:
            return True


def _possible(backfill: Lifecycle) -> tuple[str, ...]:
    """The commands that a person may give now."""
    if backfill.state is State.SUCCEEDED:
        return ("show",)
    if backfill.state.ended:
        return ("show", "retry_failed")
    if backfill.stopping is Stop.CANCEL:
        return ("wait", "force_cancel")
    return ("wait", "cancel") if backfill.stopping else ("pause", "cancel")
