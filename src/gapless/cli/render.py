"""Text and JSON from the runtime's values. Pure: nothing here prints or asks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from gapless.core.backfill import describe
from gapless.ledger.records import Backfill, DeadLetter
from gapless.runtime.explain import Explanation


def to_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def moment(seconds: float | None) -> str | None:
    """A time in UTC, to the second."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float) -> str:
    """A length of time as people say it: `0.4s`, `12s`, `3m05s`, `2h10m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m"


def backfill_json(backfill: Backfill) -> dict[str, Any]:
    return {
        "id": backfill.id,
        "state": backfill.state,
        "state_version": backfill.lifecycle.state_version,
        "stopping": backfill.lifecycle.stopping,
        "job": backfill.job,
        "job_version": backfill.job_version,
        "parent_backfill_id": backfill.parent_backfill_id,
        "retry_request_id": backfill.retry_request_id,
        "group": backfill.group,
        "selector": backfill.selector,
        "partitions": backfill.partitions,
        "chunk_size": backfill.chunk_size,
        "max_concurrent_runs": backfill.max_concurrent_runs,
        "queue": backfill.queue,
        "order": backfill.order,
        "retry": msgspec.structs.asdict(backfill.retry),
        "chunks": backfill.chunks,
        "progress_pct": backfill.progress_pct,
        "error": backfill.error,
        "drift": backfill.drift,
        "created_at": moment(backfill.created_at),
        "started_at": moment(backfill.started_at),
        "ended_at": moment(backfill.ended_at),
    }


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    return {**msgspec.to_builtins(explanation), "until": moment(explanation.until)}


def dead_json(letter: DeadLetter) -> dict[str, Any]:
    return {
        "chunk_id": letter.chunk_id,
        "backfill_id": letter.backfill_id,
        "job": letter.job,
        "partitions": letter.partitions,
        "missing": len(letter.missing),
        "attempts": letter.attempts,
        "lost": letter.lost,
        "error_class": letter.error_class,
        "error_message": letter.error_message,
        "ended_at": moment(letter.ended_at),
    }


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned to the left; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def backfill_table(backfills: Sequence[Backfill]) -> str:
    head = ("id", "state", "progress", "chunks", "failing", "job", "created")
    return table([head, *(_row(backfill) for backfill in backfills)])


def _row(backfill: Backfill) -> tuple[str, ...]:
    chunks = backfill.chunks
    return (
        backfill.id,
        describe(backfill.lifecycle),
        f"{backfill.progress_pct:.1f}%",
        f"{chunks.complete:,}/{chunks.total:,}",
        f"{chunks.failed + chunks.abandoned:,}",
        backfill.job,
        moment(backfill.created_at) or "",
    )


def backfill_page(backfill: Backfill, explanations: Sequence[Explanation]) -> str:
    """All about one backfill, ending with what its chunks wait for."""
    lines = [
        f"{backfill.id}  {describe(backfill.lifecycle)}  {backfill.progress_pct:.1f}%",
        "",
        f"  job         {backfill.job} (version {backfill.job_version})",
        f"  selection   {selector_text(backfill.selector)}: {backfill.partitions:,} partitions",
        f"  chunks      {_plan_text(backfill)}",
        f"  done        {_counts_text(backfill)}",
        f"  retry       {backfill.retry.kind}",
        f"  created     {moment(backfill.created_at)}",
    ]
    if backfill.ended_at is not None:
        took = duration(backfill.ended_at - (backfill.started_at or backfill.created_at))
        lines.append(f"  ended       {moment(backfill.ended_at)} after {took}")
    if backfill.parent_backfill_id:
        lines.append(f"  retries     {backfill.parent_backfill_id}")
    if backfill.drift:
        lines.append(f"  drift       {backfill.drift}")
    if backfill.error:
        lines.append(f"  error       {backfill.error}")
    if explanations:
        lines += ["", *_explained(explanations, backfill.now)]
    return "\n".join(lines)


def _plan_text(backfill: Backfill) -> str:
    size = f"{backfill.chunks.total:,} of up to {backfill.chunk_size:,} partitions"
    at_once = f"{backfill.max_concurrent_runs} at once"
    return f"{size}, {backfill.order} first, {at_once}, queue `{backfill.queue}`"


def _counts_text(backfill: Backfill) -> str:
    counts = msgspec.to_builtins(backfill.chunks)
    names = ("complete", "running", "pending", "failed", "abandoned", "cancelled")
    unplanned = counts["total"] - counts["planned"]
    parts = [f"{counts[name]:,} {name}" for name in names if counts[name] or name == "complete"]
    return ", ".join([*parts, f"{unplanned:,} not planned yet"] if unplanned else parts)


def _explained(explanations: Sequence[Explanation], now: float) -> list[str]:
    rows = [("chunk", "status", "why", "")]
    for each in explanations:
        until = f"until {moment(each.until)} ({duration(each.until - now)})" if each.until else ""
        index = "" if each.chunk_index is None else str(each.chunk_index)
        rows.append((index, each.status, each.reason, f"{each.detail} {until}".strip()))
    return ["  " + line for line in table(rows).splitlines()]


def selector_text(selector: dict[str, Any]) -> str:
    match selector["kind"]:
        case "range":
            return f"{selector['start']}:{selector['end']}"
        case "filter":
            return " ".join(f"{name}={value}" for name, value in selector["tags"].items())
        case _:
            more = f", … {selector['more']:,} more" if selector["more"] else ""
            return ", ".join(selector["keys"]) + more


def progress_line(backfill: Backfill, elapsed: float, width: int = 24) -> str:
    """One line: bar, chunks, rate, time left, what fails."""
    chunks = backfill.chunks
    done = chunks.complete / chunks.total
    bar = "━" * int(done * width) + "─" * (width - int(done * width))
    rate = chunks.complete * backfill.chunk_size / elapsed if elapsed else 0.0
    left = (chunks.total - chunks.complete) * backfill.chunk_size
    parts = [
        f"{backfill.id} {bar} {backfill.progress_pct:5.1f}%",
        f"{chunks.complete:,}/{chunks.total:,} chunks",
        f"{rate:,.0f} partitions/s",
    ]
    if rate and left:
        parts.append(f"eta {duration(left / rate)}")
    if chunks.failed:
        parts.append(f"{chunks.failed:,} retrying")
    if chunks.abandoned:
        parts.append(f"{chunks.abandoned:,} abandoned")
    if backfill.state != "RUNNING":
        parts.append(describe(backfill.lifecycle))
    return "  ".join(parts)


def summary(backfill: Backfill, ledger_url: str) -> str:
    """What came of a backfill, and what to do next."""
    chunks = backfill.chunks
    took = (backfill.ended_at or backfill.now) - (backfill.started_at or backfill.created_at)
    done = f"{chunks.complete:,} of {chunks.total:,} chunks complete"
    lines = [
        f"{backfill.id} {describe(backfill.lifecycle)} in {duration(took)}: {done}",
        f"ledger: {ledger_url}",
    ]
    if backfill.error:
        lines.append(f"error: {backfill.error}")
    if backfill.state in ("FAILED", "CANCELLED"):
        lines += ["", f"hint: run `gapless backfill retry-failed {backfill.id}`"]
    return "\n".join(lines)


def dead_table(letters: Sequence[DeadLetter]) -> str:
    head = ("chunk", "partitions", "attempts", "error", "since")
    rows = [
        (
            letter.chunk_id,
            ", ".join(letter.partitions),
            str(letter.attempts + letter.lost),
            f"{letter.error_class}: {letter.error_message}"[:80],
            moment(letter.ended_at) or "",
        )
        for letter in letters
    ]
    return table([head, *rows])
