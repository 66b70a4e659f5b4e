"""Where records go: each sink replaces ranges of blocks atomically, under a fence.

`sink` is the contract; a module for each kind of sink keeps it, and one conformance suite proves
that. Nothing here knows of nodes or of the ledger.
"""

from gapless.sinks.sink import Batch, Sink, Stored

__all__ = ["Batch", "Sink", "Stored"]
