"""How calls travel to one kind of node: in which requests, and how its answers are read.

A pool batches, paces and retries calls; a wire turns a batch into one HTTP request and its response
into results. `envelope` is the wire of JSON-RPC, `http_api` that of APIs with one path per method.
A family names the wire of its nodes among its `NodeQueries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from gapless.providers.calls import BatchReply, Call


class WireRequest(NamedTuple):
    """What is sent: the path below the endpoint's URL, and the body."""

    path: str
    body: bytes


class Wire(Protocol):
    """The requests and responses of one kind of node."""

    not_a_node: str
    """A hint for an address that answers differently."""
    counts_calls: bool
    """Whether providers count each call of a request; otherwise they count the request."""

    def shares(self, call: Call) -> bool:
        """Whether calls like this one can share a request, so that its size can be learned."""

    def joins(self, last: Call, call: Call) -> bool:
        """Whether a call can follow the last one of a request in the same request."""

    def counted(self, batch: Mapping[int, Call]) -> dict[int, str]:
        """Return the methods that a provider counts, each by the id of a call it answers."""

    def request(self, batch: Mapping[int, Call]) -> WireRequest:
        """Encode the request for these calls."""

    def read(self, body: bytes, status: int, batch: Mapping[int, Call]) -> BatchReply:
        """Decode what a response says about these calls; raise `MalformedReply` if nothing."""
