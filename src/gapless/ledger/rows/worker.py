"""Rows of `workers`, and of the `endpoints` that they have learned about."""

from __future__ import annotations

import msgspec

from gapless.ledger.records import WorkerRow


class StoredProfile(msgspec.Struct, frozen=True):
    """What was learned of an endpoint, as JSON."""

    name: str
    profile: str


class StoredWorker(msgspec.Struct, frozen=True):
    id: str
    host: str
    pid: int
    process_started: str
    library: str
    slots: str
    unresolved: str
    started_at: float
    seen_at: float

    def worker(self) -> WorkerRow:
        texts = {name: msgspec.json.decode(getattr(self, name)) for name in ("slots", "unresolved")}
        return WorkerRow(**(msgspec.structs.asdict(self) | texts))


class HostedProcess(msgspec.Struct, frozen=True):
    """A worker's process on its host."""

    id: str
    pid: int
    process_started: str
