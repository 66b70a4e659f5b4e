"""Where records go: each sink replaces ranges of blocks atomically, under a fence.

`sink` is the contract; a package for each kind of sink keeps it, and one conformance suite proves
that. What all of them decide alike is pure: `admission` (may this batch come in), `records` (whose
fence, which seams, what is left of a range), `revision` (what stays of stored blocks) and
`requests` (what was asked for). `sql` is what databases do alike.
`location` opens the sink that a person names. Nothing here knows of nodes or of the ledger.
"""

from gapless.sinks.location import open_sink
from gapless.sinks.sink import Access, Batch, Damage, JoiningSink, Request, Sink, Stored

__all__ = ["Access", "Batch", "Damage", "JoiningSink", "Request", "Sink", "Stored", "open_sink"]
