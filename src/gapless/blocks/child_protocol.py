"""What a command and its child processes tell each other, a line of JSON at a time.

command -> child   a task first, then news; the end of the stream means: stop
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
    workers: int  # requests in flight to each endpoint, of all processes together
    share: Share
    max_calls: int | None
    as_json: bool  # what it logs


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


class Report(msgspec.Struct, frozen=True):
    """What a child process has done since its start."""

    counts: Counts = Counts()
    ended: dict[str, int] = {}  # runs, by how
    metrics: Snapshot = {}
    rests: Rests = {}


class News(msgspec.Struct, frozen=True):
    """What the command tells its child processes while they work."""

    rests: Rests
