"""Nodes with scripted answers, and pools on them that soon lose patience."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Self

from gapless.chains.evm.queries import QUERIES
from gapless.devnode import Chain, DevNode, Pace
from gapless.devnode.wire import HttpRequest, Reply
from gapless.providers import Call, EndpointSpec, Pool, Timeouts

KEY = "s3cr3t-k3y-0123456789"
NAMES = ("a", "b", "c")
Answering = Callable[[Any], Reply | None]  # from a request's JSON; None: the usual reply


class Outspoken(DevNode):
    """A node that may answer in its own way, and records its requests."""

    def __init__(self, chain: Chain, answering: Answering, *, latency: float = 0.0) -> None:
        super().__init__(chain, pace=Pace(latency=latency))
        self.answering = answering
        self.asked: list[Any] = []

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def respond(self, request: HttpRequest) -> Reply:
        asked = json.loads(request.body)
        self.asked.append(asked)
        return self.answering(asked) or super().respond(request)


def error(words: str, code: int = -32000, status: int = 200, **headers: str) -> Reply:
    """One error object, for any request."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": words}}
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(json.dumps(body).encode(), status, named)


def first(times: int, reply: Reply, *, batch: bool | None = None) -> Answering:
    """Answers like this the first times, but answers the calls of the first contact as usual."""
    left = times

    def answering(asked: Any) -> Reply | None:
        nonlocal left
        if isinstance(asked, dict) and asked["method"] == "eth_chainId":
            return None
        if left == 0 or (batch is not None and batch != isinstance(asked, list)):
            return None
        left -= 1
        return reply

    return answering


def pool_of(*nodes: DevNode, patience: float = 5.0, **options: Any) -> Pool:
    """A pool on these nodes, named a, b and c, with a key in every URL."""
    specs = [
        EndpointSpec(name, f"{node.url}/v2/{KEY}?token={KEY}", options.get("rps"))
        for name, node in zip(NAMES, nodes, strict=False)
    ]
    options.pop("rps", None)
    options.setdefault("timeouts", Timeouts(connect=0.1, read=0.2))
    return Pool(specs, QUERIES, patience=patience, **options)


def block_calls(heights: Sequence[int]) -> list[Call]:
    """The calls for each block and its receipts."""
    return [
        call
        for height in heights
        for call in (
            Call("eth_getBlockByNumber", (hex(height), True), height),
            Call("eth_getBlockReceipts", (hex(height),), height),
        )
    ]


def truth(chain: Chain, heights: Sequence[int]) -> list[bytes]:
    """The expected answers to `block_calls`."""
    return [part for at in heights for part in (chain.block(at), chain.receipts(at))]
