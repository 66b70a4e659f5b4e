"""Sinks store rows. Each one replaces ranges of blocks atomically, under a fence.

`sink` defines the contract. Each kind of sink is a package that implements it, and one conformance
suite tests them all. The decisions that all sinks share are pure: `admission` (is this batch
valid), `records` (fences, seams and the parts of a range that survive), `revision` (what to keep of
stored blocks), `requests` (which blocks were requested) and `changes` (what publishers read). `sql`
holds what all databases share, `feed` their tables of changes, and `companion` lets other tables
change together with the rows. `location` opens a sink by its
path or URL. Nothing here depends on nodes or on the ledger.
"""

from gapless.sinks.changes import Change, ChangeReader
from gapless.sinks.companion import AccompaniedSink, Companion, CompanionTransaction
from gapless.sinks.location import open_sink
from gapless.sinks.sink import Access, Batch, Damage, JoiningSink, Request, Sink, Stored

__all__ = [
    "Access",
    "AccompaniedSink",
    "Batch",
    "Change",
    "ChangeReader",
    "Companion",
    "CompanionTransaction",
    "Damage",
    "JoiningSink",
    "Request",
    "Sink",
    "Stored",
    "open_sink",
]
