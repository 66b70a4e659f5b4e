"""The state machine, whole: what every command does in every state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.backfill import (
    Command,
    Lifecycle,
    OpenWork,
    State,
    Stop,
    apply,
    decide,
    describe,
    settle,
)
from gapless.core.chunk import Status
from gapless.core.errors import WrongState
from gapless.core.events import BackfillStateChanged, BackfillStopRequested, ChunkEnded, Event

# A state: it changes to that. `stop:…`: the stop is requested. `=`: already so. `!`: refused.
TABLE = """
state      stopping  start    pause   resume   cancel       halt
PENDING    -         RUNNING  PAUSED  =        stop:cancel  stop:halt
PENDING    cancel    RUNNING  !       !        =            =
PENDING    halt      RUNNING  !       =        stop:cancel  =
RUNNING    -         =        PAUSED  =        stop:cancel  stop:halt
RUNNING    cancel    =        !       !        =            =
RUNNING    halt      =        !       =        stop:cancel  =
PAUSED     -         =        =       RUNNING  stop:cancel  stop:halt
PAUSED     cancel    =        !       !        =            =
PAUSED     halt      =        =       RUNNING  stop:cancel  =
SUCCEEDED  -         =        !       !        !            =
SUCCEEDED  cancel    =        !       !        !            =
SUCCEEDED  halt      =        !       !        !            =
FAILED     -         =        !       !        !            =
FAILED     cancel    =        !       !        !            =
FAILED     halt      =        !       !        !            =
CANCELLED  -         =        !       !        =            =
CANCELLED  cancel    =        !       !        =            =
CANCELLED  halt      =        !       !        =            =
"""
STOPS = {"-": None, "cancel": Stop.CANCEL, "halt": Stop.HALT}


def rows() -> Iterator[tuple[Lifecycle, Command, str]]:
    head, *lines = (line.split() for line in TABLE.strip().splitlines())
    for state, stopping, *outcomes in lines:
        for command, outcome in zip(head[2:], outcomes, strict=True):
            yield Lifecycle("bf", State(state), 7, STOPS[stopping]), Command(command), outcome


def outcome_of(backfill: Lifecycle, command: Command) -> str:
    try:
        events = decide(backfill, command)
    except WrongState:
        return "!"
    match events:
        case ():
            return "="
        case (BackfillStateChanged(_, from_state, to_state, 8),) if from_state == backfill.state:
            return to_state
        case (BackfillStopRequested(_, reason),):
            return f"stop:{reason}"
    return f"unexpected {events}"


@pytest.mark.parametrize(("backfill", "command", "expected"), list(rows()))
def test_every_command_in_every_state(backfill: Lifecycle, command: Command, expected: str) -> None:
    assert outcome_of(backfill, command) == expected


def test_the_table_leaves_out_no_combination() -> None:
    every = {
        (state, stop, command) for state in State for stop in STOPS.values() for command in Command
    }
    assert {(row.state, row.stopping, command) for row, command, _ in rows()} == every


# What `settle` makes of a backfill without and with something left of each kind.
SETTLING = """
state      stopping  nothing    abandoned  waiting    unplanned  running
PENDING    -         =          =          =          =          =
PENDING    cancel    CANCELLED  CANCELLED  CANCELLED  CANCELLED  =
RUNNING    -         SUCCEEDED  FAILED     =          =          =
RUNNING    cancel    CANCELLED  CANCELLED  CANCELLED  CANCELLED  =
RUNNING    halt      FAILED     FAILED     FAILED     FAILED     =
PAUSED     -         =          =          =          =          =
PAUSED     cancel    CANCELLED  CANCELLED  CANCELLED  CANCELLED  =
PAUSED     halt      =          =          =          =          =
SUCCEEDED  -         =          =          =          =          =
FAILED     -         =          =          =          =          =
FAILED     halt      =          =          =          =          =
CANCELLED  cancel    =          =          =          =          =
"""


def settlings() -> Iterator[tuple[Lifecycle, str, str]]:
    head, *lines = (line.split() for line in SETTLING.strip().splitlines())
    for state, stopping, *outcomes in lines:
        for left, outcome in zip(head[2:], outcomes, strict=True):
            yield Lifecycle("bf", State(state), 7, STOPS[stopping]), left, outcome


@pytest.mark.parametrize(("backfill", "left", "expected"), list(settlings()))
def test_a_backfill_ends_when_nothing_is_left(
    backfill: Lifecycle, left: str, expected: str
) -> None:
    names = ("running", "waiting", "unplanned", "abandoned")
    events = settle(backfill, OpenWork(*(int(name == left) for name in names)))
    assert [apply(backfill, event).state for event in events] == (
        [] if expected == "=" else [expected]
    )


@pytest.mark.parametrize(("backfill", "left", "expected"), list(settlings()))
def test_a_standing_backfill_ends_only_when_it_is_told_to(
    backfill: Lifecycle, left: str, expected: str
) -> None:
    names = ("running", "waiting", "unplanned", "abandoned", "standing")
    open_work = OpenWork(*(int(name in (left, "standing")) for name in names))
    ended = [apply(backfill, event).state for event in settle(backfill, open_work)]
    assert ended == ([] if expected == "=" or not backfill.stopping else [expected])


Step = Command | OpenWork
steps = st.lists(
    st.sampled_from(Command)
    | st.builds(
        OpenWork, *(st.integers(0, 1) for _ in ("running", "waiting", "unplanned", "abandoned"))
    ),
    max_size=30,
)


def taken(backfill: Lifecycle, step: Step) -> tuple[Event, ...]:
    if isinstance(step, OpenWork):
        return settle(backfill, step)
    try:
        return decide(backfill, step)
    except WrongState:
        return ()


@given(steps)
def test_the_version_counts_the_changes_of_state(history: list[Step]) -> None:
    backfill, changes = Lifecycle("bf"), []
    for step in history:
        for event in taken(backfill, step):
            before, backfill = backfill, apply(backfill, event)
            if isinstance(event, BackfillStateChanged):
                changes.append(event.state_version)
                assert (event.from_state, event.to_state) == (before.state, backfill.state)
                assert before.state is not backfill.state
            else:
                assert backfill.state_version == before.state_version
    assert changes == list(range(1, len(changes) + 1))
    assert backfill.state_version == len(changes)


@given(steps)
def test_what_has_ended_stays_as_it_ended(history: list[Step]) -> None:
    backfill = Lifecycle("bf")
    for step in history:
        events = taken(backfill, step)
        assert not (events and backfill.state.ended)
        for event in events:
            backfill = apply(backfill, event)


@pytest.mark.parametrize(("backfill", "command", "expected"), list(rows()))
def test_a_command_repeated_causes_no_events(
    backfill: Lifecycle, command: Command, expected: str
) -> None:
    for event in taken(backfill, command):
        assert decide(apply(backfill, event), command) == ()


@pytest.mark.parametrize(
    ("backfill", "command", "message", "hint"),
    [
        (Lifecycle("bf", State.SUCCEEDED), Command.PAUSE, "is SUCCEEDED: cannot pause it", "show"),
        (Lifecycle("bf", State.FAILED), Command.CANCEL, "is FAILED", "show, retry failed"),
        (Lifecycle("bf", State.CANCELLED), Command.RESUME, "is CANCELLED", "show, retry failed"),
        (
            Lifecycle("bf", State.RUNNING, 1, Stop.CANCEL),
            Command.PAUSE,
            "is cancelling: cannot pause it",
            "wait, force cancel",
        ),
        (
            Lifecycle("bf", State.RUNNING, 1, Stop.HALT),
            Command.PAUSE,
            "is RUNNING, halting: cannot pause it",
            "wait, cancel",
        ),
    ],
)
def test_an_illegal_command_names_the_state_and_what_is_possible(
    backfill: Lifecycle, command: Command, message: str, hint: str
) -> None:
    with pytest.raises(WrongState, match=message) as error:
        decide(backfill, command)
    assert error.value.hint == f"possible now: {hint}"


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("stopping", STOPS.values())
def test_what_is_called_possible_is_not_refused(state: State, stopping: Stop | None) -> None:
    backfill = Lifecycle("bf", state, 1, stopping)
    for command in (Command.PAUSE, Command.RESUME, Command.CANCEL):
        try:
            decide(backfill, command)
        except WrongState as error:
            hint = (error.hint or "").removeprefix("possible now: ").split(", ")
            for named in {"pause", "resume", "cancel"} & set(hint):
                decide(backfill, Command(named))


def test_a_state_is_described_as_people_read_it() -> None:
    assert describe(Lifecycle("bf", State.RUNNING)) == "RUNNING"
    assert describe(Lifecycle("bf", State.RUNNING, 1, Stop.CANCEL)) == "cancelling"
    assert describe(Lifecycle("bf", State.CANCELLED, 2, Stop.CANCEL)) == "CANCELLED"
    assert describe(Lifecycle("bf", State.FAILED, 2, Stop.HALT)) == "FAILED"


def test_events_of_chunks_leave_the_backfill_as_it_is() -> None:
    backfill = Lifecycle("bf", State.RUNNING, 3)
    assert apply(backfill, ChunkEnded("bf", 0, Status.COMPLETE)) == backfill
