"""What a pool asks on its own, as one kind of node expects it.

A pool checks which chain an endpoint is on, tracks its head, and finds out where its history
begins. A subscription follows its head. All other calls, and the meaning of their answers, are up
to the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec import Raw

from gapless.providers.calls import Call
from gapless.providers.wire import Wire


class HeadNotice(NamedTuple):
    """A block that a node announced: a new head, or a block of a branch that replaced another."""

    height: int
    hash: bytes


class HeadSubscription(NamedTuple):
    """A call that asks a node for a notice of each new head, and how to read a notice."""

    call: Call
    read: Callable[[bytes], HeadNotice | None]  # None: the message is of another kind


class NodeQueries(Protocol):
    """Calls that ask a node about itself, and how to read their answers."""

    chain: Call
    head: Call

    @property
    def wire(self) -> Wire:
        """How calls travel to nodes of this kind."""

    @property
    def subscription(self) -> HeadSubscription | None:
        """How to subscribe to new heads; None if nodes of this kind send no notices."""

    def chain_id(self, answer: Raw) -> int | None:
        """Return the chain id that the node reports; None if the answer has none."""

    def height(self, answer: Raw) -> int | None:
        """Return the height of the node's latest block; None if the answer has none."""

    def about(self, call: Call, height: int) -> Call | None:
        """Return the same call for another block; None if it is not for a block or a range."""
