"""Subscriptions to new heads: `eth_subscribe` over a WebSocket.

A subscriber gets the header of every block that the node announces: a new block, or each block of
the branch that replaced others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from gapless.devnode.faults import Fault
from gapless.devnode.injector import Injector
from gapless.devnode.limits import CallRefused
from gapless.devnode.view import MethodCall
from gapless.devnode.wire import Ending, Reply

_SUBSCRIBE, _UNSUBSCRIBE = "eth_subscribe", "eth_unsubscribe"
METHODS = frozenset({_SUBSCRIBE, _UNSUBSCRIBE})


class Subscriber(Protocol):
    """Who gets notices: a WebSocket connection, or a test in the same process."""

    def send(self, text: bytes) -> None:
        """Takes a notice."""

    def drop(self) -> None:
        """Is cut off by a fault."""


class Subscriptions:
    """The subscriptions of one node."""

    def __init__(self) -> None:
        self._subscribers: dict[str, Subscriber] = {}  # by subscription
        self._silenced: set[Subscriber] = set()
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._subscribers)

    def add(self, subscriber: Subscriber) -> str:
        """Opens a subscription, and returns its id."""
        self._count += 1
        name = f"{self._count:#034x}"
        self._subscribers[name] = subscriber
        return name

    def remove(self, name: str, subscriber: Subscriber) -> bool:
        """Ends a subscription; False if the subscriber has no such one."""
        if self._subscribers.get(name) is not subscriber:
            return False
        del self._subscribers[name]
        return True

    def forget(self, subscriber: Subscriber) -> None:
        """Ends all subscriptions of a subscriber."""
        self._silenced.discard(subscriber)
        kept = {name: it for name, it in self._subscribers.items() if it is not subscriber}
        self._subscribers = kept

    def announce(self, height: int, block_hash: str, header: bytes, injector: Injector) -> None:
        """Sends the header of a block to all subscribers, unless a fault prevents it."""
        for name, subscriber in tuple(self._subscribers.items()):
            if subscriber in self._silenced:
                continue
            lot = injector.of_notice(height, block_hash) if injector.active else None
            if lot is not None:
                injector.count(lot)
            if lot is None:
                subscriber.send(_notice(name, header))
            elif lot.fault is Fault.WS_DROP:
                self.forget(subscriber)
                subscriber.drop()
            else:
                self._silenced.add(subscriber)

    def answer(self, call: MethodCall, subscriber: Subscriber | None) -> bytes:
        """The result of `eth_subscribe` or `eth_unsubscribe`; over HTTP, there is no subscriber."""
        if subscriber is None:
            raise CallRefused(-32601, "notifications not supported")
        try:
            given = msgspec.json.decode(call.params, type=list[Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise CallRefused(-32602, "non-array args") from None
        if call.method == _UNSUBSCRIBE:
            if not given or not self.remove(str(given[0]), subscriber):
                raise CallRefused(-32000, "subscription not found")
            return b"true"
        if given != ["newHeads"]:
            kind = given[0] if given else ""
            raise CallRefused(-32601, f'no "{kind}" subscription in eth namespace')
        return msgspec.json.encode(self.add(subscriber))


class SubscriberSession:
    """A WebSocket connection of a node: its calls, and its subscriptions."""

    def __init__(
        self,
        subscriber: Subscriber,
        subscriptions: Subscriptions,
        answer: Callable[[bytes, Subscriber], Reply],
    ) -> None:
        self._subscriber, self._subscriptions = subscriber, subscriptions
        self._answer = answer

    def received(self, text: bytes) -> None:
        reply = self._answer(text, self._subscriber)
        if reply.delay > 0:
            asyncio.get_running_loop().call_later(reply.delay, self._finish, reply)
        else:
            self._finish(reply)

    def lost(self) -> None:
        self._subscriptions.forget(self._subscriber)

    def _finish(self, reply: Reply) -> None:
        if reply.ending is Ending.CUT:
            self._subscriber.drop()
        elif reply.ending is Ending.KEPT:
            self._subscriber.send(reply.body)


def _notice(name: str, header: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"%b","result":%b}}'
        % (name.encode(), header)
    )
