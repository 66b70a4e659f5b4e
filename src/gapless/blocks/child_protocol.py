"""The messages between a command and its child processes: one line of JSON each.

command -> child   a task, then news; the end of the stream means stop
child -> command   reports
"""

from __future__ import annotations

from typing import Any

import msgspec

from gapless.blocks.counts import Counts
from gapless.config import Config
from gapless.providers.registry import Rests, Share
from gapless.telemetry.metrics import Snapshot


class FetchTask(msgspec.Struct, frozen=True, tag="fetch"):
    """Run chunks of one fetch."""

    ledger: str
    backfill: str
    slots: dict[str, int]
    spec: dict[str, Any]
    config: Config
    workers: int  # requests in flight to each endpoint, over all processes
    share: Share
    max_calls: int | None
    as_json: bool  # log format


class WorkTask(msgspec.Struct, frozen=True, tag="work"):
    """Run the backfills of a ledger."""

    ledger: str
    slots: dict[str, int]
    config: Config
    poll: float
    drain: float
    as_json: bool
    verbose: bool
    share: Share


ChildTask = FetchTask | WorkTask


class ChildReport(msgspec.Struct, frozen=True):
    """What a child process has done since its start."""

    counts: Counts = Counts()
    ended: dict[str, int] = {}  # number of runs by outcome
    metrics: Snapshot = {}
    rests: Rests = {}


class News(msgspec.Struct, frozen=True):
    """What the command sends to its child processes while they work."""

    rests: Rests
