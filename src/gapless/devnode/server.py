"""The node: a chain behind its family's API, with its limits, its pace and its faults.

    async with DevNode(simulated(), faults="429=0.05,truncated=0.01") as node:
        ...  # ask node.url

A request passes these stages, each of which may end it: batch limit, rate limit, a fault of the
whole request; then each call is answered separately, and a fault may alter its answer.

`GET /_faults` reports the calls and the injected faults. At `ws_url`, a client can subscribe to new
heads.

Several nodes may share a chain, and each sees it in its own way (`observer`). A test commands the
chain with `advance` and `reorg`, and compares with `canonical`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from time import monotonic
from typing import Any

import msgspec

from gapless.devnode.chain import Chain, Move
from gapless.devnode.dialect import Asked, CallOutcome
from gapless.devnode.faults import Fault, Faults, parse_faults
from gapless.devnode.growth import Growth, ReorgSchedule, replace_last
from gapless.devnode.injector import Injector, Lot
from gapless.devnode.limits import Bucket, CallRefused, Limits, Metering
from gapless.devnode.observer import Observer, Visibility
from gapless.devnode.subscriptions import METHODS as SUBSCRIPTION_METHODS
from gapless.devnode.subscriptions import Subscriber, SubscriberSession, Subscriptions
from gapless.devnode.view import MethodCall, View
from gapless.devnode.wire import ClientConnection, Ending, HttpRequest, Reply

_HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the node answers and its chain grows."""

    latency: float = 0.0  # seconds before every answer
    head_every: float | None = None  # seconds between new blocks; None: none come
    reorgs: ReorgSchedule | None = None  # in place of some of these blocks
    shuffle: bool = False  # batches are answered in another order
    gzip: bool = True  # if the client accepts it


class DevNode:
    """A node that serves at `url` while the context is entered."""

    def __init__(
        self,
        chain: Chain,
        *,
        faults: Faults | str = "",
        limits: Limits | None = None,
        pace: Pace | None = None,
        visibility: Visibility | None = None,
        address: tuple[str, int] = ("127.0.0.1", 0),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.chain = chain
        self.limits, self.pace = limits or Limits(), pace or Pace()
        self._dialect = chain.dialect
        self._provider = self.limits.provider(self._dialect.words)
        self.injector = Injector(parse_faults(faults) if isinstance(faults, str) else faults)
        self.calls: Counter[str] = Counter()  # that were answered, by method
        self.requests = 0
        self.refused = 0  # requests above the rate limit, as a whole or in part
        self.subscriptions = Subscriptions()
        self._observer = Observer(chain, self.limits, visibility or Visibility(), clock)
        chain.listeners.append(self._moved)
        self._growth = Growth(chain, self.pace.reorgs)
        self._address = address
        self._bucket: Bucket | None = None
        if self.limits.rps:
            self._bucket = Bucket(self.limits.rps, self.limits.metering, clock)
        self._server: asyncio.Server | None = None
        self._connections: set[ClientConnection] = set()
        self._next_step: asyncio.TimerHandle | None = None

    @property
    def url(self) -> str:
        assert self._server is not None, "the node is not running"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def ws_url(self) -> str:
        return self.url.replace("http", "ws", 1)

    @property
    def injected(self) -> dict[str, int]:
        """How often each fault was injected."""
        return {str(fault): count for fault, count in self.injector.injected.items()}

    async def __aenter__(self) -> DevNode:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ClientConnection(
                self.respond,
                self._connections,
                packing=self.pace.gzip,
                opened=None if self._dialect.header is None else self._opened,
            ),
            *self._address,
        )
        self._step_later(loop)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._next_step is not None:
            self._next_step.cancel()
        if self._server is not None:
            self._server.close()
            for connection in tuple(self._connections):
                connection.close()
            await self._server.wait_closed()

    def advance(self, blocks: int = 1) -> None:
        """Adds blocks to the chain."""
        self.chain.grow(blocks)

    def reorg(self, depth: int, length: int | None = None) -> None:
        """Replaces the last `depth` blocks with `length` others; by default, with one more."""
        replace_last(self.chain, depth, length)

    def canonical(self, height: int) -> str:
        """The hash of the chain's block at a height, whatever this node sees of it."""
        return self.chain.hash(height)

    def respond(self, request: HttpRequest) -> Reply:
        """The answer to an HTTP request."""
        if request.method == "GET" and request.path == "/_faults":
            return Reply(msgspec.json.encode(self.report()))
        if request.method != "POST":
            return Reply(b'"ask with POST"', 405)
        return self._answered(request.path, request.body)

    def report(self) -> dict[str, Any]:
        """The calls and the injected faults."""
        return {
            "seed": self.injector.faults.seed,
            "head": self.chain.head,
            "requests": self.requests,
            "refused": self.refused,
            "calls": dict(self.calls),
            "injected": self.injected,
        }

    def _answered(self, path: str, body: bytes, subscriber: Subscriber | None = None) -> Reply:
        self.requests += 1
        return self._reply(path, body, subscriber)._replace(delay=self.pace.latency)

    def _reply(self, path: str, body: bytes, subscriber: Subscriber | None) -> Reply:
        try:
            asked = self._dialect.asked(path, body, self.limits.missing)
        except CallRefused as refused:
            return self._refused(refused)
        most = self.limits.max_batch
        if asked.is_batch and most is not None and len(asked.calls) > most:
            return self._refused(self._provider.batch.refusal(most=most, asked=len(asked.calls)))
        granted = asked.counted if self._bucket is None else self._bucket.take(asked.counted)
        if granted < asked.counted:
            self.refused += 1
            if not asked.counts_calls or self.limits.metering is not Metering.EACH:
                return self._too_many()
        lot = self._lot(asked) if self.injector.active else None
        if lot is not None and (instead := self._instead(lot)) is not None:
            return instead
        if asked.method is not None:
            self.calls[asked.method] += 1
        answered = len(asked.calls) if asked.method else granted
        outcomes = [self._one(call, asked, subscriber) for call in asked.calls[:answered]]
        outcomes += [self._one_too_many(call) for call in asked.calls[answered:]]
        if asked.is_batch:
            self._disturb(outcomes, lot)
        return _after(lot, *self._dialect.joined(asked, outcomes))

    def _lot(self, asked: Asked) -> Lot | None:
        """The fault of the whole request, if any."""
        calls = [call for call in asked.calls if call is not None]
        view = self._observer.view(self.requests)
        lot = self.injector.of_request(view, calls, batch=asked.is_batch)
        if lot is not None:
            self.injector.count(lot)
        return lot

    def _one(
        self, call: MethodCall | None, asked: Asked, subscriber: Subscriber | None
    ) -> CallOutcome:
        if call is None:
            return CallOutcome(None, refusal=CallRefused(-32600, "invalid request"))
        try:
            if call.method in _CONTROLS:
                return CallOutcome(call, self._controlled(call))
            view = self._observer.view(self.requests)
            result = self._observer.repeated(call)
            if result is None:
                result = self._result_of(view, call, subscriber)
                self._observer.remember(call, result)
            if asked.method is None:
                self.calls[call.method] += 1
            if self.injector.active and (lot := self.injector.of_call(view, call)) is not None:
                result = self.injector.spoiled(lot, view, call, result)
        except CallRefused as refused:
            return CallOutcome(call, refusal=refused)
        return CallOutcome(call, result)

    def _result_of(self, view: View, call: MethodCall, subscriber: Subscriber | None) -> bytes:
        if call.method in SUBSCRIPTION_METHODS - self.limits.missing:
            return self.subscriptions.answer(call, subscriber)
        return self._dialect.answer(view, call)

    def _one_too_many(self, call: MethodCall | None) -> CallOutcome:
        return CallOutcome(call, refusal=self._provider.rate.refusal())

    def _disturb(self, outcomes: list[CallOutcome], lot: Lot | None) -> None:
        """Changes the order of a batch's answers, or omits one."""
        if self.pace.shuffle:
            Random(self.requests).shuffle(outcomes)
        if lot is not None and lot.fault is Fault.OMIT:
            del outcomes[lot.bits % len(outcomes)]
        if lot is not None and lot.fault is Fault.SHUFFLE:
            Random(lot.bits).shuffle(outcomes)

    def _controlled(self, call: MethodCall) -> bytes:
        """`devnode_grow [blocks]` and `devnode_reorg [height]`; both answer the new head."""
        try:
            (number,) = msgspec.json.decode(call.params, type=tuple[int])
            _CONTROLS[call.method](self.chain, number)
        except (msgspec.MsgspecError, ValueError) as error:
            raise CallRefused(-32602, f"invalid argument 0: {error}") from None
        return f'"{self.chain.head:#x}"'.encode()

    def _refused(self, refused: CallRefused) -> Reply:
        return Reply(self._dialect.refused(refused), refused.status)

    def _too_many(self, *, told: bool = True) -> Reply:
        wait = self.limits.retry_after if told else None
        headers = () if wait is None else (("Retry-After", str(wait)),)
        return self._refused(self._provider.rate.refusal())._replace(headers=headers)

    def _instead(self, lot: Lot) -> Reply | None:
        """The reply to a request that fails as a whole."""
        match lot.fault:
            case Fault.LIMITED | Fault.LIMITED_BARE:
                return self._too_many(told=lot.fault is Fault.LIMITED)._replace(status=429)
            case Fault.BROKEN:
                return self._refused(CallRefused(-32603, "internal server error", 500))
            case Fault.TIMEOUT:
                return Reply(b"", ending=Ending.HANGING)
            case Fault.LONE_ERROR:
                return self._refused(CallRefused(-32000, "internal error"))
        return None

    def _opened(self, subscriber: Subscriber) -> SubscriberSession:
        return SubscriberSession(subscriber, self.subscriptions, partial(self._answered, "/"))

    def _moved(self, move: Move) -> None:
        """Tells the subscribers of the blocks that this node sees now."""
        header = self._dialect.header
        for height in self._observer.moved(move):
            if self.subscriptions and header is not None:
                self.subscriptions.announce(
                    height,
                    self.chain.hash(height),
                    header(self.chain.block(height)),
                    self.injector,
                )

    def _step_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.pace.head_every:
            self._next_step = loop.call_later(self.pace.head_every, self._step, loop)

    def _step(self, loop: asyncio.AbstractEventLoop) -> None:
        self._growth.step()
        self._step_later(loop)


_CONTROLS: dict[str, Callable[[Chain, int], None]] = {
    "devnode_grow": Chain.grow,
    "devnode_reorg": Chain.reorg,
}


def _after(lot: Lot | None, body: bytes, status: int = 200) -> Reply:
    """The reply with a correct body, which may still be damaged in transit."""
    if lot is not None and lot.fault is Fault.DROP:
        return Reply(body, ending=Ending.CUT, share=0.5 * (lot.bits & 1))
    if lot is not None and lot.fault is Fault.MALFORMED:
        return Reply(_HTML if lot.bits & 1 else body[: len(body) // 2])
    return Reply(body, status)
