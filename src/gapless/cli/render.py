"""Text for people from the runtime's values. Pure: nothing here prints, asks or reads a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.core.backfill import State, describe
from gapless.core.redaction import redact
from gapless.core.retry import RetryKind
from gapless.core.text import plain
from gapless.views.figures import counted, cut, duration, plain_lines, short, time_text

if TYPE_CHECKING:
    from gapless.cli.suggestions import Commands
    from gapless.ledger.records import Backfill
    from gapless.views.backfills import (
        AttemptView,
        BackfillDetails,
        BackfillView,
        ExplanationView,
        RetryView,
    )
    from gapless.views.chunks import ChunkView, DeadLetterView

BAR = 24
FETCH = "blocks"  # the job of a fetch
WIDEST_CELL = 60
WIDEST_END = 200


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned to the left; the first row is the head."""
    limits = [WIDEST_CELL] * (len(rows[0]) - 1) + [WIDEST_END]
    shown = [
        [cut(plain(cell), limit) for cell, limit in zip(row, limits, strict=True)] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    )


def backfill_table(backfills: Sequence[BackfillView]) -> str:
    head = ("id", "state", "progress", "chunks", "failing", "created", "what")
    return table([head, *(_row(backfill) for backfill in backfills)])


def _row(backfill: BackfillView) -> tuple[str, ...]:
    chunks = backfill.chunks
    return (
        backfill.id,
        backfill.phase,
        f"{backfill.progress_pct:.1f}%",
        f"{chunks.complete:,}/{chunks.total:,}",
        f"{chunks.failed + chunks.abandoned:,}",
        time_text(backfill.created_at),
        subject(backfill),
    )


def subject(backfill: BackfillView) -> str:
    """What a backfill is about: the blocks of a fetch and where they go, or a job's partitions."""
    sink = redact(str(backfill.spec.get("sink", "")))
    if backfill.job == FETCH:
        return f"{backfill.spec.get('network')} {_heights(backfill.selector)} → {sink}"
    if backfill.job == "finish":
        return f"indexes of {sink}"
    return f"{backfill.job} {selector_text(backfill.selector)}"


def _heights(selector: dict[str, Any]) -> str:
    if selector["kind"] != "range":
        return selector_text(selector)
    return f"{int(selector['start']):,}:{int(selector['end']):,}"


def backfill_page(backfill: BackfillDetails, now: float, *, hidden: int = 0) -> str:
    """Everything about one backfill, and what its chunks wait for, but for some hidden ones.

    `now` is the ledger's time.
    """
    facts = {"fetch": subject(backfill)} if backfill.job == FETCH else {}
    facts |= {
        "job": f"{backfill.job} (version {backfill.job_version})",
        "selection": f"{selector_text(backfill.selector)} ({_partitions(backfill)})",
        "chunks": _plan_text(backfill),
        "done": _counts_text(backfill),
        "retry": retry_text(backfill.retry),
        "created": time_text(backfill.created_at),
    }
    if backfill.timeout is not None:
        facts["timeout"] = f"{duration(backfill.timeout)} for a run"
    if backfill.ended_at is not None:
        took = backfill.ended_at - (backfill.started_at or backfill.created_at)
        facts["ended"] = f"{time_text(backfill.ended_at)} after {_whole(took.total_seconds())}"
    if backfill.group:
        facts["group"] = backfill.group
    if backfill.parent_backfill_id:
        facts["retry of"] = backfill.parent_backfill_id
    if backfill.drift:
        facts["drift"] = backfill.drift
    if backfill.error:
        facts["error"] = backfill.error
    lines = [f"{backfill.id}  {backfill.phase}  {backfill.progress_pct:.1f}%", ""]
    lines += _fact_lines(facts)
    if backfill.waiting:
        lines += ["", *_explained(backfill.waiting, now)]
    if hidden:
        lines.append(f"  … and {hidden:,} more")
    return "\n".join(lines)


def attempts(found: Sequence[AttemptView]) -> str:
    """The failed runs of a chunk, one a line, and the traceback of the last."""
    lines = ["  failed runs"]
    for each in found:
        error = plain(f"{each.error_class}: {each.error_message}")
        lines.append(f"  {time_text(each.at)}  attempt {each.attempt} by {each.worker}: {error}")
    if found[-1].traceback is not None:
        lines += ["", *(f"  {line}".rstrip() for line in plain_lines(found[-1].traceback.rstrip()))]
    return "\n".join(lines)


def dead_page(letter: DeadLetterView) -> str:
    """Everything about one dead letter, except for its failed runs."""
    facts = {
        "job": letter.job,
        "missing": f"{', '.join(letter.partitions)} ({counted(letter.missing, 'partition')})",
        "tries": str(letter.attempts + letter.lost),
        "since": time_text(letter.ended_at),
    }
    return "\n".join([letter.chunk_id, "", *_fact_lines(facts)])


def plan(backfill: BackfillView) -> str:
    """What a new backfill is going to do, in one line."""
    selection = f"{selector_text(backfill.selector)}: {_partitions(backfill)}"
    chunks = f"{counted(backfill.chunks.total, 'chunk')}, {backfill.max_concurrent_runs} at once"
    return plain(f"{backfill.job} {selection} in {chunks}, queue `{backfill.queue}`")


def selector_text(selector: dict[str, Any]) -> str:
    match selector["kind"]:
        case "range":
            return f"{selector['start']}:{selector['end']}"
        case "filter":
            return " ".join(f"{name}={value}" for name, value in selector["tags"].items())
        case _:
            more = [f"{selector['more']:,} more"] if selector["more"] else []
            return ", ".join([*selector["keys"], *more])


def retry_text(policy: RetryView) -> str:
    """A policy and the numbers that it uses."""
    if policy.kind is RetryKind.HALT:
        return "halt at the first failure"
    if policy.kind is RetryKind.SCHEDULE:
        return f"schedule of {', '.join(map(duration, policy.delays))}, then abandoned"
    delays = f"{duration(policy.base)} doubling to {duration(policy.max_delay)}"
    end = "never abandoned"
    if policy.kind is RetryKind.BACKOFF:
        end = f"abandoned after {counted(policy.retries, 'retry', 'retries')}"
    return f"{policy.kind} of {delays}, up to {policy.jitter:.0%} more, {end}"


def _fact_lines(facts: Mapping[str, str]) -> list[str]:
    return [f"  {name:<10}  {plain(value)}" for name, value in facts.items()]


def _partitions(backfill: BackfillView) -> str:
    return counted(backfill.partitions, "partition")


def _plan_text(backfill: BackfillView) -> str:
    up_to = "up to " if backfill.chunk_size > 1 else ""
    size = f"{backfill.chunks.total:,} of {up_to}{counted(backfill.chunk_size, 'partition')}"
    at_once = f"{backfill.max_concurrent_runs} at once"
    return f"{size}, {backfill.order} first, {at_once}, queue `{backfill.queue}`"


def _counts_text(backfill: BackfillView) -> str:
    chunks = backfill.chunks
    names = ("complete", "running", "pending", "failed", "abandoned", "cancelled")
    unplanned = chunks.total - chunks.planned
    counts = {name: getattr(chunks, name) for name in names}
    parts = [f"{count:,} {name}" for name, count in counts.items() if count or name == "complete"]
    if unplanned:
        parts.append(f"{unplanned:,} {'never planned' if backfill.state.ended else 'unplanned'}")
    return ", ".join(parts)


def _explained(explanations: Sequence[ExplanationView], now: float) -> list[str]:
    rows = [("chunk", "partitions", "status", "why", "")]
    for each in explanations:
        until = ""
        if each.until:
            until = f"until {time_text(each.until)} ({duration(each.until.timestamp() - now)})"
        index = "" if each.chunk_index is None else str(each.chunk_index)
        detail = f"{each.detail} {until}".strip()
        rows.append((index, each.partitions or "", each.status, each.reason, detail))
    return ["  " + line for line in table(rows).splitlines()]


def progress_line(backfill: Backfill, rate: float, why: str = "", width: int = 120) -> str:
    """One line that fits the width: bar, chunks, partitions a second, time left, what fails.

    `rate` is in chunks a second; `why` says what it waits for if nothing runs.
    """
    chunks = backfill.chunks
    left = chunks.total - chunks.complete - chunks.abandoned - chunks.cancelled
    parts = [f"{backfill.progress_pct:.1f}%", f"{chunks.complete:,}/{chunks.total:,} chunks"]
    if rate and chunks.total:
        parts.append(f"{short(rate * backfill.partitions / chunks.total)} partitions/s")
        if left:
            parts.append(f"eta {duration(left / rate)}")
    parts += [
        f"{count:,} {what}"
        for count, what in ((chunks.failed, "retrying"), (chunks.abandoned, "abandoned"))
        if count
    ]
    if backfill.state is not State.RUNNING or backfill.lifecycle.stopping:
        parts.append(describe(backfill.lifecycle))
    if why:
        parts.append(plain(why))
    room = width - len("  ".join([backfill.id, *parts])) - 2
    done = chunks.complete / max(chunks.total, 1)
    drawn = [bar(done, min(room, BAR))] if room >= BAR // 3 else []
    return cut("  ".join([backfill.id, *drawn, *parts]), width)


def bar(done: float, width: int) -> str:
    """A share from 0 to 1, drawn."""
    filled = int(done * width)
    head = "╸" if filled < width else ""
    return "━" * filled + head + "─" * (width - filled - len(head))


def outcome(backfill: Backfill) -> str:
    """What came of a backfill, or how far it is, in one line."""
    chunks = backfill.chunks
    since = backfill.started_at or backfill.created_at
    took = duration((backfill.ended_at or backfill.now) - since)
    ended = "in" if backfill.state.ended else "after"
    done = f"{chunks.complete:,} of {counted(chunks.total, 'chunk')} complete"
    return f"{backfill.id} {describe(backfill.lifecycle)} {ended} {took}: {done}"


def failure(backfill: BackfillView) -> str:
    """What went wrong with a backfill that has failed."""
    chunks = backfill.chunks
    undone = chunks.total - chunks.complete - chunks.abandoned
    parts = [f"{counted(chunks.abandoned, 'chunk')} failed"]
    parts += [f"{undone:,} never completed"] if undone else []
    return ", ".join(parts) + (f": {plain(backfill.error)}" if backfill.error else "")


def next_step(
    backfill: BackfillView, explanations: Sequence[ExplanationView], commands: Commands
) -> str | None:
    """What a person may want to do about a backfill, as a hint."""
    its = backfill.id
    if backfill.state is State.FAILED:
        listed = f"{commands('dead', 'ls', its)} lists what failed"
        return f"{listed}, {commands('backfill', 'retry-failed', its)} retries it"
    if backfill.state is State.CANCELLED and backfill.chunks.complete < backfill.chunks.total:
        return f"{commands('backfill', 'retry-failed', its)} runs what is left"
    if backfill.state is State.PAUSED and not backfill.stopping:
        return f"{commands('backfill', 'resume', its)} resumes it"
    if backfill.phase == "cancelling":
        forced = commands("backfill", "cancel", "--force", its)
        return f"running chunks may finish; {forced} ends them now"
    if any(each.reason == "no_worker" for each in explanations):
        return worker_needed(backfill, commands)
    return None


def worker_needed(backfill: BackfillView, commands: Commands) -> str:
    """The worker that would run this backfill, as a hint."""
    slots = ("--slots", f"{backfill.queue}={backfill.max_concurrent_runs}")
    return f"{commands('worker', *(() if backfill.queue == 'default' else slots))} runs it"


def chunk_table(chunks: Sequence[ChunkView], now: float) -> str:
    """Chunks; `now` is the ledger's time."""
    head = ("chunk", "partitions", "status", "tries", "done", "owner", "due", "error")
    rows = [
        (
            chunk.chunk_id,
            ", ".join(chunk.partitions),
            chunk.status,
            str(chunk.attempts + chunk.lost),
            f"{chunk.progress_pct:g}%",
            chunk.owner or "",
            _due(chunk.due, now),
            f"{chunk.error_class}: {chunk.error_message}" if chunk.error_class else "",
        )
        for chunk in chunks
    ]
    return table([head, *rows])


def _due(due: datetime | None, now: float) -> str:
    if due is None:
        return ""
    left = due.timestamp() - now
    return f"in {duration(left)}" if left > 0 else "now"


def _whole(seconds: float) -> str:
    """A difference of times that are known to the second."""
    return duration(seconds) if seconds >= 10 else f"{seconds:.0f}s"


def dead_table(letters: Sequence[DeadLetterView]) -> str:
    head = ("chunk", "partitions", "tries", "since", "error")
    rows = [
        (
            letter.chunk_id,
            ", ".join(letter.partitions),
            str(letter.attempts + letter.lost),
            time_text(letter.ended_at),
            f"{letter.error_class}: {letter.error_message}",
        )
        for letter in letters
    ]
    return table([head, *rows])
