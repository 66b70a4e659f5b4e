"""A node for benchmarks: a separate process that does as little as a node can.

    python -m bench.node --workload small --latency-ms 20 --rps 500 --faults null=0.01

prints its URL, serves until SIGTERM or SIGINT, then prints what it did and the CPU seconds that it
used. Calls that fetch a chain get rendered answers; the devnode's own methods answer all others,
and its injector makes the faults. `bench.null_client` measures how fast the node can be.
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
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Raw, Struct

from bench.answers import Answer, Answers
from bench.meter import Meter
from bench.rendered import WORKLOADS, rendered_from
from gapless.devnode import Chain, Limits, Parameters
from gapless.devnode.evm.blocks import EvmBuilder
from gapless.devnode.evm.methods import answer
from gapless.devnode.faults import Fault, Faults, parse_faults
from gapless.devnode.injector import Injector, Lot
from gapless.devnode.limits import Bucket, CallRefused
from gapless.devnode.store import stored
from gapless.devnode.view import NULL, MethodCall, View

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TOO_MANY = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"limit of requests exceeded"}}'
)
_BROKEN = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal server error"}}'
_HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


class _Call(Struct, gc=False):
    method: str
    params: Any = ()
    id: Raw = Raw(NULL)


_calls = msgspec.json.Decoder(list[_Call]).decode
_call = msgspec.json.Decoder(_Call).decode


@dataclass(frozen=True)
class Pace:
    """How a provider is slow: seconds before each HTTP answer, and calls per second.

    Unless it is `metered`, a batch may overdraw the budget of a second, and later requests wait.
    """

    latency: float = 0.0
    rps: float | None = None
    metered: bool = False

    @property
    def budget(self) -> Meter | Bucket | None:
        if self.rps is None:
            return None
        return Meter(self.rps) if self.metered else Bucket(self.rps)


class Sent(NamedTuple):
    """What is sent, and whether the connection ends after it."""

    text: bytes
    closes: bool = False


class Node:
    """Answers HTTP bodies, and counts what it did."""

    def __init__(
        self, chain: Chain, answers: Answers, pace: Pace, injector: Injector, *, per_call: bool
    ) -> None:
        self.requests = self.calls = self.bytes = self.refused = 0
        self.latency = pace.latency
        self.injector, self._per_call = injector, per_call
        self._budget = pace.budget
        self._too_many = b"" if pace.metered else _TOO_MANY
        self._view = View(chain, chain.head, Limits())
        self.answers = answers

    @property
    def injected(self) -> int:
        """How often each fault was injected."""
        return self.injector.injected.total()

    def respond(self, body: bytes) -> Sent:
        """The HTTP answer to a body: one call or a batch."""
        batch = body.lstrip()[:1] == b"["
        calls = _calls(body) if batch else [_call(body)]
        if self._budget is not None and not self._budget.take(len(calls)):
            self.refused += 1
            return Sent(_http([self._too_many], "429 Too Many Requests"))
        self.requests += 1
        self.calls += len(calls)
        lot = self._lot(calls, batch=batch) if self.injector.active else None
        parts: list[Answer] = [b"[" if batch else b""]
        for call in calls:
            parts += (b'{"jsonrpc":"2.0","id":', bytes(call.id), *self._outcome(call), b"},")
        parts[-1] = b"}]" if batch else b"}"
        sent = Sent(_http(parts)) if lot is None else _instead(lot, b"".join(parts))
        self.bytes += len(sent.text)
        return sent

    def _lot(self, calls: Sequence[_Call], *, batch: bool) -> Lot | None:
        """The fault of the whole request, if any."""
        raw = [_raw(call) for call in calls]
        draws = [[call] for call in raw] if self._per_call else [raw]
        for drawn in draws:
            lot = self.injector.of_request(self._view, drawn, batch=batch)
            if lot is not None:
                self.injector.count(lot)
                return lot
        return None

    def _outcome(self, call: _Call) -> tuple[bytes, Answer]:
        try:
            return b',"result":', self._result(call)
        except CallRefused as refused:
            error = {"code": refused.code, "message": refused.message}
            return b',"error":', msgspec.json.encode(error)

    def _result(self, call: _Call) -> Answer:
        result = self.answers.ready(call.method, call.params)
        if result is None:
            result = answer(self._view, call.method, _raw(call).params)
        if self.injector.active:
            asked = _raw(call)
            if (lot := self.injector.of_call(self._view, asked)) is not None:
                return self.injector.spoiled(lot, self._view, asked, bytes(result))
        return result


class Connection(asyncio.Protocol):
    """One client's connection: each request is answered after its latency."""

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

    def _send(self, answered: Sent) -> None:
        if self._transport is not None:
            self._transport.write(answered.text)
            if answered.closes:
                self._transport.close()


def _raw(call: _Call) -> MethodCall:
    return MethodCall(call.method, Raw(msgspec.json.encode(call.params)), call.id)


def _instead(lot: Lot, honest: bytes) -> Sent:
    """The reply to a request with a fault."""
    match lot.fault:
        case Fault.LIMITED_BARE:
            return Sent(_http([_TOO_MANY], "429 Too Many Requests"))
        case Fault.BROKEN:
            return Sent(_http([_BROKEN], "500 Internal Server Error"))
        case Fault.MALFORMED:
            return Sent(_http([_HTML if lot.bits & 1 else honest[: len(honest) // 2]]))
        case Fault.DROP:
            whole = _http([honest])
            return Sent(whole[: len(whole) // 2 * (lot.bits & 1)], closes=True)
    raise ValueError(f"this node has no fault `{lot.fault}` for whole requests")


def _taken(buffer: bytearray) -> bytes | None:
    """Removes the body of the first complete request from the buffer."""
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
    """Starts to serve, on a port that the system chooses."""
    return await asyncio.get_running_loop().create_server(lambda: Connection(node), "127.0.0.1", 0)


def url_of(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()
    return f"http://{host}:{port}"


def node_of(
    parameters: Parameters,
    pace: Pace,
    cache: Path | None = None,
    faults: Faults | None = None,
    *,
    per_call: bool = False,
) -> Node:
    """The node of a chain from the cache."""
    builder = EvmBuilder(parameters)
    found = stored(builder, cache)  # read once, because each read is checked
    chain = Chain(parameters.chain_id, found.blocks, found.receipts, builder)
    injector = Injector(faults or Faults())
    return Node(chain, Answers(rendered_from(found)), pace, injector, per_call=per_call)


async def _serve_until_stopped(node: Node) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = await serve(node)
    print(url_of(server), flush=True)
    started = time.process_time()
    await stopped.wait()
    server.close()
    print(
        f"cpu_seconds={time.process_time() - started:.3f} requests={node.requests}"
        f" calls={node.calls} bytes={node.bytes} injected={node.injected} refused={node.refused}",
        flush=True,
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.node", description=__doc__)
    parser.add_argument("--workload", choices=WORKLOADS, default="small")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="delay of each HTTP answer")
    parser.add_argument("--rps", type=float, help="calls per second; unlimited by default")
    parser.add_argument(
        "--metered",
        action="store_true",
        help="refuse whole batches above --rps with an empty HTTP 429",
    )
    parser.add_argument("--faults", default="", help="faults to inject, as in the devnode")
    parser.add_argument(
        "--per-call",
        action="store_true",
        help="draw the faults of requests for each call; one fails its whole batch",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults")
    parser.add_argument("--prepare", action="store_true", help="derive all answers in advance")
    wanted = parser.parse_args(arguments)
    pace = Pace(wanted.latency_ms / 1000, wanted.rps, wanted.metered)
    faults = parse_faults(wanted.faults, wanted.seed)
    parameters = WORKLOADS[wanted.workload].parameters
    node = node_of(parameters, pace, faults=faults, per_call=wanted.per_call)
    if wanted.prepare:
        node.answers.prepare()
    asyncio.run(_serve_until_stopped(node))


if __name__ == "__main__":
    main(sys.argv[1:])
