"""How the nodes of a family are asked and answer; the rest of a node is the same for all.

A request is read as one call or as several. Each is answered by itself, so that each can have a
fault of its own, and the outcomes are joined to one body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gapless.devnode.faults import Fault
from gapless.devnode.limits import CallRefused

if TYPE_CHECKING:
    from gapless.devnode.view import MethodCall, View


class Asked(NamedTuple):
    """The calls of a request; None for one that cannot be read."""

    calls: Sequence[MethodCall | None]
    is_batch: bool = False
    method: str | None = None  # the one that it counts as, if it does not count as its calls

    @property
    def counted(self) -> int:
        """How many calls count against the rate."""
        return len(self.calls) if self.method is None else 1

    @property
    def counts_calls(self) -> bool:
        """Whether some of its calls can be refused while others are answered."""
        return self.is_batch and self.method is None


class CallOutcome(NamedTuple):
    """What came of a call: a result as JSON, or a refusal."""

    call: MethodCall | None
    result: bytes = b""
    refusal: CallRefused | None = None


class NodeDialect(Protocol):
    """The requests, methods and answers of one family's nodes."""

    words: str
    """The provider whose error messages it imitates, unless told otherwise."""
    logs_key: str
    """The key of the logs in what a transaction did."""
    befallen: Mapping[Fault, frozenset[str]]
    """The methods that a fault of single calls affects; a fault that is not listed affects all."""

    @property
    def header(self) -> Callable[[bytes], bytes] | None:
        """Returns the header of a block for subscribers; None: clients cannot subscribe."""

    def asked(self, path: str, body: bytes, missing: frozenset[str]) -> Asked:
        """Reads a request, given the methods that the node lacks.

        Raises `CallRefused` if there is nothing to answer.
        """

    def answer(self, view: View, call: MethodCall) -> bytes:
        """The result of a call as JSON; raises `CallRefused` if there is none."""

    def joined(self, asked: Asked, outcomes: Sequence[CallOutcome]) -> tuple[bytes, int]:
        """The body and the HTTP status of the answer to a request."""

    def refused(self, refusal: CallRefused) -> bytes:
        """The body of the answer to a request that is refused as a whole."""

    def heights_in(self, view: View, call: MethodCall) -> tuple[int, int] | None:
        """The heights that a call is about, as far as it names them."""

    def about(self, call: MethodCall, height: int) -> MethodCall:
        """The same call about another block."""

    def is_about_tip(self, call: MethodCall) -> bool:
        """Whether the answer changes with each new block."""

    def nothing(self, call: MethodCall) -> bytes:
        """The result of a call about something that does not exist."""

    def gone(self) -> CallRefused:
        """The refusal for history that the node has not kept."""

    def other_chain(self, view: View, call: MethodCall, honest: bytes) -> bytes:
        """The answer of a node of another chain to a call that identifies the chain."""
