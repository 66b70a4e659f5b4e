"""A node for benchmarks: a process of its own that does the least a node can do.

    python -m bench.node --workload small --latency-ms 20 --rps 500

prints its URL, serves until SIGTERM or SIGINT, and prints what it did and the CPU seconds that it
took. Blocks and receipts by number are spliced from rendered answers; whatever else is asked for
is answered by the devnode's own methods. `bench.null_client` measures how fast it can be.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from bench.rendered import WORKLOADS, Rendered, rendered
from gapless.devnode import Chain, Limits, Parameters, simulated
from gapless.devnode.limits import Bucket, Refused
from gapless.devnode.methods import NULL, View, answer

_HEAD_END = b"\r\n\r\n"
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,16}").fullmatch
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TOO_MANY = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"limit of requests exceeded"}}'
)


class _Call(Struct, gc=False):
    method: str
    params: Any = ()
    id: Raw = Raw(NULL)


_calls = msgspec.json.Decoder(list[_Call]).decode
_call = msgspec.json.Decoder(_Call).decode


@dataclass(frozen=True)
class Pace:
    """How a provider is slow: seconds before each HTTP answer, and calls a second."""

    latency: float = 0.0
    rps: float | None = None


class Node:
    """Answers HTTP bodies, and counts what it did."""

    def __init__(self, chain: Chain, answers: Rendered, pace: Pace) -> None:
        self.requests = self.calls = self.bytes = 0
        self.latency = pace.latency
        self._bucket = Bucket(pace.rps) if pace.rps else None
        self._view = View(chain, chain.head, Limits())
        self._tags = answers.tags
        # Each with the parameters behind the height: other blocks than whole ones are not rendered.
        self._rendered: dict[str, tuple[Sequence[memoryview], list[Any]]] = {
            "eth_getBlockByNumber": (answers.blocks, [True]),
            "eth_getBlockReceipts": (answers.receipts, []),
        }

    def respond(self, body: bytes) -> bytes:
        """The HTTP answer to a body: one call, or a batch of them."""
        batch = body.lstrip()[:1] == b"["
        calls = _calls(body) if batch else [_call(body)]
        if self._bucket is not None and not self._bucket.take(len(calls)):
            return _http([_TOO_MANY], "429 Too Many Requests")
        self.requests += 1
        self.calls += len(calls)
        parts: list[bytes | memoryview] = [b"[" if batch else b""]
        for call in calls:
            parts += (b'{"jsonrpc":"2.0","id":', bytes(call.id), *self._outcome(call), b"},")
        parts[-1] = b"}]" if batch else b"}"
        answered = _http(parts)
        self.bytes += len(answered)
        return answered

    def _outcome(self, call: _Call) -> tuple[bytes, bytes | memoryview]:
        if (ready := self._ready(call)) is not None:
            return b',"result":', ready
        try:
            params = Raw(msgspec.json.encode(call.params))
            return b',"result":', answer(self._view, call.method, params)
        except Refused as refused:
            error = {"code": refused.code, "message": refused.message}
            return b',"error":', msgspec.json.encode(error)

    def _ready(self, call: _Call) -> bytes | memoryview | None:
        """The rendered answer, if the call is of the kind that has one."""
        answers, behind = self._rendered.get(call.method, ((), []))
        match call.params:
            case [str(which), *rest] if answers and rest == behind:
                height = int(which, 16) if _QUANTITY(which) else self._tags.get(which)
                if height is not None:
                    return answers[height] if height < len(answers) else NULL
        return None


class Connection(asyncio.Protocol):
    """One client's connection: each request is answered when its latency is over."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (body := _taken(self._buffer)) is not None:
            answered = self._node.respond(body)
            if self._node.latency:
                loop = asyncio.get_running_loop()
                loop.call_later(self._node.latency, self._send, answered)
            else:
                self._send(answered)

    def _send(self, answered: bytes) -> None:
        if self._transport is not None:
            self._transport.write(answered)


def _taken(buffer: bytearray) -> bytes | None:
    """Takes the body of the first whole request out of the buffer."""
    end = buffer.find(_HEAD_END)
    if end < 0:
        return None
    length = _LENGTH.search(buffer, 0, end)
    start = end + len(_HEAD_END)
    stop = start + (int(length[1]) if length else 0)
    if len(buffer) < stop:
        return None
    body = bytes(buffer[start:stop])
    del buffer[:stop]
    return body


def _http(parts: Sequence[bytes | memoryview], status: str = "200 OK") -> bytes:
    size = sum(map(len, parts))
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    return b"".join((head.encode(), *parts))


async def serve(node: Node) -> asyncio.Server:
    """Starts to serve, on a port of the system's choice."""
    return await asyncio.get_running_loop().create_server(lambda: Connection(node), "127.0.0.1", 0)


def url_of(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()
    return f"http://{host}:{port}"


def node_of(parameters: Parameters, pace: Pace, cache: Path | None = None) -> Node:
    """The node of a chain out of the cache."""
    return Node(simulated(parameters, cache), rendered(parameters, cache), pace)


async def _serve_until_told(node: Node) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    server = await serve(node)
    print(url_of(server), flush=True)
    started = time.process_time()
    await told.wait()
    server.close()
    print(
        f"cpu_seconds={time.process_time() - started:.3f} requests={node.requests}"
        f" calls={node.calls} bytes={node.bytes}",
        flush=True,
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.node", description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, default="small")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="before each HTTP answer")
    parser.add_argument("--rps", type=float, help="calls a second; without it, any number")
    wanted = parser.parse_args(arguments)
    pace = Pace(wanted.latency_ms / 1000, wanted.rps)
    asyncio.run(_serve_until_told(node_of(WORKLOADS[wanted.workload].parameters, pace)))


if __name__ == "__main__":
    main(sys.argv[1:])
