"""What a pool asks by itself, in the words of one kind of node.

A pool makes sure which chain an endpoint is on, watches its head, and finds out where its history
begins. Everything else that is asked, and what the answers mean, is the caller's business.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Raw

from gapless.providers.envelope import Call


class NodeQueries(Protocol):
    """The questions about a node itself, and how to read their answers."""

    chain: Call
    head: Call

    def chain_id(self, answer: Raw) -> int | None:
        """The chain that the node says it is on; None if the answer names none."""

    def height(self, answer: Raw) -> int | None:
        """The height of the node's latest block; None if the answer names none."""

    def about(self, call: Call, height: int) -> Call | None:
        """The same question about another block; None if it is not about one block or range."""
