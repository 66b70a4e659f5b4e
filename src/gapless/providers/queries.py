"""What a pool asks on its own, as one kind of node expects it.

A pool checks which chain an endpoint is on, tracks its head, and finds out where its history
begins. All other calls, and the meaning of their answers, are up to the caller.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Raw

from gapless.providers.envelope import Call


class NodeQueries(Protocol):
    """Calls that ask a node about itself, and how to read their answers."""

    chain: Call
    head: Call

    def chain_id(self, answer: Raw) -> int | None:
        """Return the chain id that the node reports; None if the answer has none."""

    def height(self, answer: Raw) -> int | None:
        """Return the height of the node's latest block; None if the answer has none."""

    def about(self, call: Call, height: int) -> Call | None:
        """Return the same call for another block; None if it is not for a block or a range."""
