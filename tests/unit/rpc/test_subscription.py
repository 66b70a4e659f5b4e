"""Following a node's head over a real WebSocket, through reorgs and every kind of ending."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from gapless.chains.evm.queries import QUERIES, EvmQueries, read_notice
from gapless.core.errors import UsageError
from gapless.devnode import Chain, DevNode, Growth, Limits, ReorgSchedule
from gapless.providers import (
    Call,
    EndpointSpec,
    HeadNotice,
    HeadSubscription,
    Timeouts,
    TransportFailure,
    heads,
)
from gapless.providers.http import Http
from tests.toychain.source import QUERIES as TOY_QUERIES
from tests.unit.rpc.nodes import KEY
from tests.waiting import eventually

PATIENCE = 5.0


def spec_of(node: DevNode) -> EndpointSpec:
    return EndpointSpec("a", f"{node.url}/{KEY}", ws=f"{node.ws_url}/v2/{KEY}?token={KEY}")


@asynccontextmanager
async def transport() -> AsyncIterator[Http]:
    async with Http(Timeouts(connect=0.5, read=0.5)) as http:
        yield http


@asynccontextmanager
async def following(
    node: DevNode, *, silence: float = PATIENCE
) -> AsyncIterator[AsyncIterator[HeadNotice]]:
    """The heads of a node, from its next block on."""
    async with (
        node,
        transport() as http,
        aclosing(heads(spec_of(node), QUERIES, http, silence=silence)) as found,
    ):
        yield found


async def subscribed(node: DevNode) -> None:
    await eventually(lambda: bool(node.subscriptions))


async def failure_of(found: AsyncIterator[HeadNotice]) -> TransportFailure:
    """How the subscription ends; nothing about it contains the URL."""
    with pytest.raises(TransportFailure) as raised:
        async for _ in found:
            pass
    error: BaseException | None = raised.value
    while error is not None:
        shown = "".join(traceback.format_exception(error))
        assert KEY not in f"{error!r} {error} {vars(error)} {shown}"
        error = error.__context__
    return raised.value


async def test_it_sees_all_heads_and_reorgs(chain: Chain) -> None:
    node = DevNode(chain)
    announced: list[HeadNotice] = []
    chain.listeners.append(
        lambda move: announced.extend(
            HeadNotice(at, bytes.fromhex(chain.hash(at)[2:]))
            for at in range(move.first, move.last + 1)
        )
    )
    growth = Growth(chain, ReorgSchedule(5, depth=4, seed=3))
    async with following(node) as found:
        first = asyncio.ensure_future(anext(found))
        await subscribed(node)
        for _ in range(60):
            growth.step()
        seen = [await first]
        while len(seen) < len(announced):
            seen.append(await anext(found))
    assert seen == announced
    assert len({each.height for each in seen}) < len(seen), "some heights were replaced"
    canonical = {each.height: each.hash for each in seen}
    for height in range(121, chain.head + 1):
        assert canonical[height].hex() == node.canonical(height)[2:]


async def test_a_dropped_connection_ends_it(chain: Chain) -> None:
    node = DevNode(chain, faults="ws-drop@122")
    async with following(node) as found:
        first = asyncio.ensure_future(anext(found))
        await subscribed(node)
        node.advance(2)
        assert (await first).height == 121
        assert str(await failure_of(found)) == "the connection was lost"


async def test_a_silent_connection_ends_it(chain: Chain) -> None:
    node = DevNode(chain, faults="ws-silent@122")
    async with following(node, silence=0.3) as found:
        first = asyncio.ensure_future(anext(found))
        await subscribed(node)
        node.advance(3)
        assert (await first).height == 121
        failure = await failure_of(found)
        assert str(failure) == "no new block within 0.3 s"
        assert failure.slow
        await eventually(lambda: not node.subscriptions)


async def test_it_can_be_opened_again(chain: Chain) -> None:
    node = DevNode(chain, faults="ws-drop@121")
    async with node, transport() as http:
        for expected in (None, 122):
            async with aclosing(heads(spec_of(node), QUERIES, http, silence=PATIENCE)) as found:
                first = asyncio.ensure_future(anext(found))
                await subscribed(node)
                node.advance()
                if expected is None:
                    with pytest.raises(TransportFailure):
                        await first
                else:
                    assert (await first).height == expected


async def test_cancelling_closes_the_connection(chain: Chain) -> None:
    node = DevNode(chain)
    async with node, transport() as http:

        async def follow() -> None:
            async for _ in heads(spec_of(node), QUERIES, http, silence=PATIENCE):
                pass

        task = asyncio.create_task(follow())
        await subscribed(node)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await eventually(lambda: not node.subscriptions)


async def test_a_node_that_refuses(chain: Chain) -> None:
    limits = Limits(missing=frozenset({"eth_subscribe"}))
    async with following(DevNode(chain, limits=limits)) as found:
        failure = await failure_of(found)
        assert str(failure).startswith("the subscription was refused: the method eth_subscribe")
        assert failure.hint


async def test_a_refusal_that_repeats_our_key(chain: Chain) -> None:
    class Outspoken(EvmQueries):
        subscription = HeadSubscription(Call("eth_subscribe", (KEY,)), read_notice)

    node = DevNode(chain)
    async with node, transport() as http:
        found = heads(spec_of(node), Outspoken(), http, silence=PATIENCE)
        assert 'no "…" subscription' in str(await failure_of(found))


async def test_a_node_that_is_not_there(chain: Chain) -> None:
    async with DevNode(chain) as node:
        gone = spec_of(node)
    async with transport() as http:
        failure = await failure_of(heads(gone, QUERIES, http, silence=PATIENCE))
        assert str(failure) == "no connection (connection refused)"


async def test_a_server_without_websockets(chain: Chain) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, transport() as http:
        port = server.sockets[0].getsockname()[1]
        spec = EndpointSpec("a", "http://127.0.0.1", ws=f"ws://127.0.0.1:{port}/{KEY}")
        failure = await failure_of(heads(spec, QUERIES, http, silence=PATIENCE))
        assert str(failure) == "no WebSocket at this URL (HTTP 401)"
        assert "API key" in failure.hint


async def test_a_server_that_does_not_answer() -> None:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with (
        await asyncio.start_server(ignore, "127.0.0.1", 0) as server,
        Http(Timeouts(connect=0.1, read=0.1)) as http,
    ):
        port = server.sockets[0].getsockname()[1]
        spec = EndpointSpec("a", "http://127.0.0.1", ws=f"ws://127.0.0.1:{port}/{KEY}")
        failure = await failure_of(heads(spec, QUERIES, http, silence=PATIENCE))
        assert failure.slow


async def test_endpoints_and_families_without_subscriptions(chain: Chain) -> None:
    async with transport() as http, DevNode(chain) as node:
        for spec, queries in (
            (EndpointSpec("a", node.url), QUERIES),
            (spec_of(node), TOY_QUERIES),
        ):
            failure = await failure_of(heads(spec, queries, http, silence=PATIENCE))
            assert str(failure) == "this endpoint has no subscriptions"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b'{"jsonrpc":"2.0","id":1,"result":"0x1"}',
        b'{"method":"eth_subscription","params":{"subscription":"0x1","result":"0xabc"}}',
        b'{"method":"eth_subscription","params":{"result":{"number":"x","hash":"0xab"}}}',
        b'{"method":"eth_subscription","params":{"result":{"number":"0x1","hash":"0xa"}}}',
    ],
)
def test_messages_that_announce_no_head(message: bytes) -> None:
    assert read_notice(message) is None


def test_the_urls_of_an_endpoint() -> None:
    spec = EndpointSpec("a", "https://host/x", ws=f"wss://host/ws/{KEY}")
    assert repr(spec) == "EndpointSpec(name='a', rps=None)"
    assert spec.redacted(f"no project {KEY}") == "no project …"
    with pytest.raises(UsageError, match="no usable URL") as raised:
        EndpointSpec("a", f"wss://host/{KEY}")
    assert raised.value.hint is not None
    assert raised.value.hint.endswith("this one as `ws` of an endpoint in `gapless.toml`")
    with pytest.raises(UsageError, match="`ws` is not a usable URL"):
        EndpointSpec("a", "https://host", ws=f"https://host/{KEY}")
