"""What must hold at every moment while a chain is followed.

order       of all that is due, new blocks are taken before history, and the newest ones first
patience    a new block that failed is tried again after the delays of the schedule, not before
durable     a new block that counts as done is stored, with the hash that it was planned with
leader      one step of the cursor at a time, by the process that leads; its fence never falls
fences      the fence of a height in the sink never falls, and no recorded height vanishes
retraction  blocks are removed under the fence that was drawn when that was decided
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gapless.core.retry import RetryPolicy
from gapless.following.spec import LiveChunk
from gapless.following.state import FollowState
from tests.simulation.machine import Machine, Watch, unwrapped
from tests.simulation.observed import COMMITS, SeenFile

_COLUMNS = (
    "backfill_id, chunk_index, standing, precedence, rank, first, last, status, attempts, lost,"
    " due, fence, payload, write_fence"
)
_OF_WALLETS = "('wallets', 'classify')"  # jobs whose chunks are no business of a follow
_OPEN = " UNION ALL ".join(
    f"SELECT {_COLUMNS} FROM chunks INDEXED BY chunks_{status} "
    f"JOIN backfills ON id = backfill_id WHERE status = '{status.upper()}'"
    f" AND job NOT IN {_OF_WALLETS}"
    for status in ("pending", "failed", "running")
)
_ENDED = "SELECT status FROM chunks WHERE backfill_id = ? AND chunk_index = ?"
_CURSOR = "SELECT backfill_id, owner, fence, version, state FROM cursors"
_LEFT = f"""
SELECT (SELECT count(*) FROM backfills WHERE job NOT IN {_OF_WALLETS}
        AND NOT standing AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED')),
       (SELECT count(*) FROM chunks JOIN backfills ON id = backfill_id
        WHERE job NOT IN {_OF_WALLETS} AND status = 'ABANDONED')
"""
_RANGES = "SELECT first, last, fence, kind FROM _gapless_ranges WHERE dataset IN (?, '*')"
_HASH = "SELECT hash FROM {} WHERE block_number = ?"
_SCHEDULE = RetryPolicy.schedule()


class LiveSeen(NamedTuple):
    """What the ledger says about an unfinished chunk."""

    backfill_id: str
    chunk_index: int
    standing: bool  # whether it is of new blocks
    precedence: int
    rank: int
    first: int
    last: int
    status: str
    attempts: int
    lost: int
    due: float | None
    fence: int | None
    payload: str | None
    write_fence: int | None

    @property
    def order(self) -> tuple[int, int]:
        """Its place among the chunks of the follow."""
        return -self.precedence, self.rank


class CursorSeen(NamedTuple):
    """What the ledger says about the follow."""

    backfill_id: str
    owner: str | None
    fence: int
    version: int
    state: str


class FollowLaws(Watch):
    """Examines the ledger and the sink after every step of any process."""

    def __init__(self, ledger: Path, sink: Path, anchor: str, say: Callable[..., None]) -> None:
        self._ledger = ChangedFile(ledger, "cursors")
        self._sink = ChangedFile(sink, "_gapless_ranges")
        self._anchor = anchor  # the table of blocks
        self._say = say
        self._open: dict[tuple[str, int], LiveSeen] = {}
        self._cursor: CursorSeen | None = None
        self._ranges: set[tuple[int, int, int, str]] = set()
        self._decided: set[int] = set()  # the fences under which blocks are to be removed

    def close(self) -> None:
        self._ledger.close()
        self._sink.close()

    def done(self, machine: Machine, thread: str, call: partial[Any], outcome: str) -> None:
        self._say(f"{thread} {unwrapped(call)[0]} {outcome}", machine.process)
        if thread != "ledger":
            if self._sink.has_changed():
                self._look_at_sink()
        elif self._ledger.has_changed():
            self._look_at_cursor(machine)
            self._look_at_chunks(machine.now())

    # The end of a run

    @property
    def state(self) -> FollowState | None:
        found = self._cursor
        return None if found is None else msgspec.json.decode(found.state, type=FollowState)

    def is_done(self, head: int, hash_: str) -> bool:
        """Whether everything up to this block was planned, and nothing is left to do."""
        state = self.state
        if state is not None and state.alarm is not None:
            self._break(f"the follow has stopped: {state.alarm}")
        if state is None or state.retraction is not None or self._open:
            return False
        known = bytes.fromhex(hash_.removeprefix("0x"))
        return state.last == head and state.hash(head) == known and not any(self._left())

    def left(self) -> str:
        """What is not done."""
        state, (history, dead) = self.state, self._left()
        opened = [
            f"{it.backfill_id} {it.first}-{it.last} {it.status}" for it in self._open.values()
        ]
        planned = "nothing" if state is None else f"up to {state.last}, {state.retraction=}"
        return f"planned {planned}, {opened=}, {history} backfills, {dead} dead letters"

    def _left(self) -> tuple[int, int]:
        ((history, dead),) = self._ledger.rows(_LEFT)
        return history, dead

    # The ledger

    def _look_at_cursor(self, machine: Machine) -> None:
        before, self._cursor = self._cursor, None
        for row in self._ledger.rows(_CURSOR):
            self._cursor = CursorSeen(*row)
        now = self._cursor
        if before is None or now is None or before == now:
            return
        if now.fence < before.fence:
            self._break(f"the fence of the leader fell from {before.fence} to {now.fence}")
        if now.owner not in (None, before.owner) and now.fence == before.fence:
            self._break(f"{now.owner} leads under the fence of {before.owner}")
        if now.version == before.version and now.state == before.state:
            return
        identity = machine.identity
        stepper = f"{identity.host.split('/')[0]}:{identity.pid}:"
        taken = (now.version - before.version, now.owner, now.fence)
        if taken != (1, before.owner, before.fence) or not (now.owner or "").startswith(stepper):
            self._break(f"{machine.process} took a step from {before} to {now}")

    def _look_at_chunks(self, now: float) -> None:
        if self._cursor is None:
            return
        rows = [LiveSeen(*row) for row in self._ledger.rows(_OPEN)]
        before, self._open = self._open, {row[:2]: row for row in rows}
        if before == self._open:
            return
        self._require_newest_first([it for it in rows if _is_taken(before.get(it[:2]), it)], now)
        for chunk in rows:
            if chunk.write_fence is not None:
                self._decided.add(chunk.write_fence)
            was = before.get(chunk[:2])
            if was is not None and was != chunk and chunk.standing:
                self._require_patience(was, chunk, now)
        for key in sorted(before.keys() - self._open.keys()):
            if before[key].standing and self._ledger.rows(_ENDED, *key) == [("COMPLETE",)]:
                self._require_stored(before[key])

    def _require_newest_first(self, taken: Iterable[LiveSeen], now: float) -> None:
        due = [it for it in self._open.values() if _is_due(it, now)]
        if not due:
            return
        first = min(due, key=lambda it: it.order)
        for chunk in taken:
            if chunk.order > first.order:
                self._break(f"block {chunk.first} was taken before block {first.first}")

    def _require_patience(self, was: LiveSeen, now: LiveSeen, clock: float) -> None:
        if was.status == "FAILED" and now.status == "RUNNING" and not _is_due(was, clock):
            self._break(f"block {now.first} was tried {(was.due or 0) - clock:.3f} s too early")
        if now.status != "FAILED" or was.status != "RUNNING":
            return
        failed = now.attempts > was.attempts
        delay = (now.due or 0) - clock
        wanted = _SCHEDULE.delay(now.attempts, 0) if failed else _shortest_after_loss(now.lost)
        if wanted is None or delay < wanted - 0.001 or (failed and delay > wanted + 0.001):
            self._break(f"block {now.first} waits {delay:.3f} s after {now.attempts} failures")

    def _require_stored(self, chunk: LiveSeen) -> None:
        wanted = LiveChunk.decode(chunk.payload)
        if not wanted.retracts:
            found = self._sink.rows(_HASH.format(self._anchor), chunk.first)
            if len(found) != 1 or wanted.hash not in (None, found[0][0].hex()):
                self._break(f"block {chunk.first} counts as done, but {wanted.hash} is not stored")
            return
        for first, last, fence, kind in self._sink.rows(_RANGES, self._anchor):
            old = kind == "written" and fence <= (chunk.write_fence or 0)
            if old and first <= chunk.last and chunk.first <= last:
                self._break(f"blocks {first} to {last} of a former branch are still stored")

    # The sink

    def _look_at_sink(self) -> None:
        before, self._ranges = self._ranges, {*self._sink.rows(_RANGES, self._anchor)}
        fences = {}
        for first, last, fence, kind in sorted(self._ranges - before):
            fences.update(dict.fromkeys(range(first, last + 1), fence))
            if kind == "retracted" and fence not in self._decided:
                self._break(f"blocks {first} to {last} were removed under fence {fence}")
        for first, last, fence, _ in sorted(before - self._ranges):
            for height in range(first, last + 1):
                now = fences.get(height)
                if now is None:
                    self._break(f"height {height} is not recorded any more")
                elif now < fence:
                    self._break(f"the fence of {height} fell from {fence} to {now}")

    def _break(self, law: str) -> None:
        self._say(f"BROKEN {law}")
        self.broken = self.broken or law


class ChangedFile(SeenFile):
    """A SQLite file that is read again only after another connection has changed it."""

    _seen = 0

    def has_changed(self) -> bool:
        before, self._seen = self._seen, COMMITS[str(self._path)]
        return self._seen != before

    def rows(self, query: str, *values: Any) -> list[Any]:
        connection = self.connection
        return [] if connection is None else connection.execute(query, values).fetchall()


def _is_taken(was: LiveSeen | None, now: LiveSeen) -> bool:
    """Whether it was taken in its order."""
    if now.status != "RUNNING" or (was is not None and was.fence == now.fence):
        return False
    return now.standing or was is None or was.status == "PENDING"


def _is_due(chunk: LiveSeen, now: float) -> bool:
    """Whether it is next in its order; failed chunks of history are taken before all others."""
    if chunk.status != "FAILED":
        return chunk.status == "PENDING"
    due = chunk.due or 0.0
    return chunk.standing and (due <= now or due > now + _SCHEDULE.longest + 1)


def _shortest_after_loss(lost: int) -> float | None:
    return _SCHEDULE.delay_after_loss(lost, 0)
