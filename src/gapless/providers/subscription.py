"""Follow the head of a provider over a WebSocket, instead of asking for it again and again.

A subscription ends with a `TransportFailure`, whose message does not contain the URL: if the
connection is lost or cannot be opened, if the node refuses, or if it is silent. Notices can be lost
with a connection, so the caller must ask for the head after each failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from gapless.providers.calls import MalformedReply
from gapless.providers.endpoint import EndpointSpec
from gapless.providers.envelope import encode, read
from gapless.providers.http import Http
from gapless.providers.queries import HeadNotice, HeadSubscription, NodeQueries
from gapless.providers.transport import Socket, TransportFailure

_ID = 1  # of the only call


async def heads(
    spec: EndpointSpec, queries: NodeQueries, http: Http, *, silence: float
) -> AsyncGenerator[HeadNotice, None]:
    """Yield each head that the endpoint announces, until the connection fails.

    No notice within `silence` seconds counts as a failure, because a dead connection looks like
    that. Use `contextlib.aclosing`, so that the connection is closed when the loop is left.
    """
    subscription = queries.subscription
    if not spec.ws or subscription is None:
        raise TransportFailure("this endpoint has no subscriptions")
    async with http.socket(spec.ws) as socket:
        await socket.send(encode({_ID: subscription.call}))
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(silence):
                    notice = await _next_notice(spec, subscription, socket)
                yield notice
    raise TransportFailure(f"no new block within {silence:g} s", slow=True)


async def _next_notice(
    spec: EndpointSpec, subscription: HeadSubscription, socket: Socket
) -> HeadNotice:
    while True:
        message = await socket.receive()
        if (notice := subscription.read(message)) is not None:
            return notice
        _refuse_error(spec, message)


def _refuse_error(spec: EndpointSpec, message: bytes) -> None:
    """Raise if the message says that the node refuses the subscription."""
    try:
        reply = read(message, 200, {_ID})
    except MalformedReply:
        return
    for error in reply.errors:
        raise TransportFailure(
            f"the subscription was refused: {spec.redacted(error.message)}",
            hint="Does this endpoint support subscriptions?",
        )
