"""The node over a WebSocket: frames, calls and subscriptions."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from gapless.devnode import Chain, DevNode, Limits, Pace, ReorgSchedule
from gapless.devnode.websocket import (
    CloseCode,
    Opcode,
    ProtocolError,
    WebSocketFrame,
    encoded_frame,
    handshake,
    parsed_frame,
)
from tests.unit.devnode.asking import call, client_of
from tests.waiting import eventually

SUBSCRIBE = call("eth_subscribe", "newHeads")


def masked(opcode: int, payload: bytes, *, is_last: bool = True) -> bytes:
    """A frame as a client sends it."""
    frame = bytearray(encoded_frame(Opcode.TEXT, payload))
    frame[0] = opcode | (0x80 if is_last else 0)
    frame[1] |= 0x80
    mask = b"\x12\xf4\x56\x9a"
    start = len(frame) - len(payload)
    hidden = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes(frame[:start]) + mask + hidden


def test_the_handshake_of_the_standard() -> None:
    answer = handshake({"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="})
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
def test_a_frame_is_known_once_it_is_whole(size: int) -> None:
    payload = os.urandom(size)
    text = masked(Opcode.BINARY, payload)
    for cut in {0, 1, 2, 3, 5, 9, len(text) - 1}:
        assert parsed_frame(bytearray(text[: min(cut, len(text) - 1)])) == (None, 0)
    found = parsed_frame(bytearray(text + b"more"))
    assert found == (WebSocketFrame(Opcode.BINARY, payload), len(text))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (encoded_frame(Opcode.TEXT, b"not masked"), CloseCode.PROTOCOL_ERROR),
        (b"\xc1" + masked(Opcode.TEXT, b"an extension")[1:], CloseCode.PROTOCOL_ERROR),
        (b"\x81\xff" + (1 << 40).to_bytes(8, "big"), CloseCode.TOO_LARGE),
    ],
    ids=["not masked", "an extension", "too large"],
)
def test_what_is_no_frame_of_a_client(text: bytes, code: CloseCode) -> None:
    with pytest.raises(ProtocolError) as raised:
        parsed_frame(bytearray(text))
    assert raised.value.code is code


@asynccontextmanager
async def raw_connection(
    node: DevNode,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection after the handshake, of a client that may break the rules."""
    host, port = node.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_fragments_pings_and_pipelining(chain: Chain) -> None:
    async with DevNode(chain) as node, raw_connection(node) as (reader, writer):
        text = json.dumps(call("eth_chainId")).encode()
        writer.write(masked(Opcode.TEXT, text[:9], is_last=False))
        writer.write(masked(Opcode.PING, b"there?") + masked(Opcode.PONG, b""))
        writer.write(masked(Opcode.CONTINUATION, text[9:]) + masked(Opcode.CLOSE, b""))
        answers = await reader.read()
        assert answers == (
            encoded_frame(Opcode.PONG, b"there?")
            + encoded_frame(Opcode.TEXT, b'{"jsonrpc":"2.0","id":1,"result":"0x539"}')
            + encoded_frame(Opcode.CLOSE, b"\x03\xe8")
        )


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (masked(11, b""), CloseCode.PROTOCOL_ERROR),
        (
            masked(Opcode.TEXT, b"x" * 600_000, is_last=False)
            + masked(Opcode.CONTINUATION, b"x" * 600_000),
            CloseCode.TOO_LARGE,
        ),
    ],
    ids=["an unknown opcode", "too many fragments"],
)
async def test_a_client_that_breaks_the_rules(chain: Chain, sent: bytes, code: CloseCode) -> None:
    async with DevNode(chain) as node, raw_connection(node) as (reader, writer):
        writer.write(sent)
        assert await reader.read() == encoded_frame(Opcode.CLOSE, code.to_bytes(2, "big"))


@asynccontextmanager
async def socket_of(node: DevNode) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        node,
        aiohttp.ClientSession() as session,
        session.ws_connect(node.ws_url) as socket,
    ):
        yield socket


async def ask(socket: aiohttp.ClientWebSocketResponse, body: Any) -> Any:
    await socket.send_json(body)
    return await socket.receive_json()


async def test_calls_and_batches(chain: Chain) -> None:
    async with socket_of(DevNode(chain, pace=Pace(latency=0.01))) as socket:
        assert (await ask(socket, call("eth_blockNumber")))["result"] == "0x78"
        answers = await ask(socket, [call("eth_chainId"), {**SUBSCRIBE, "id": 2}])
        assert [each["id"] for each in answers] == [1, 2]
        assert answers[1]["result"].startswith("0x")
        assert (await ask(socket, 5))["error"]["code"] == -32600


async def test_subscribers_get_new_heads_and_each_block_of_a_new_branch(chain: Chain) -> None:
    node = DevNode(chain)
    async with socket_of(node) as socket:
        name = (await ask(socket, SUBSCRIBE))["result"]
        node.advance(2)
        for height in (121, 122):
            notice = await socket.receive_json()
            assert notice["method"] == "eth_subscription"
            assert notice["params"]["subscription"] == name
            header, block = notice["params"]["result"], json.loads(chain.block(height))
            assert header.items() <= block.items()
            body = {"transactions", "uncles", "withdrawals", "size"}
            assert block.keys() - header.keys() == body
        node.reorg(3, length=2)
        for height in (120, 121):
            header = (await socket.receive_json())["params"]["result"]
            assert (header["number"], header["hash"]) == (hex(height), chain.hash(height))
        assert (await ask(socket, call("eth_unsubscribe", name)))["result"] is True
        node.advance()
        again = await ask(socket, call("eth_unsubscribe", name))
        assert again["error"]["message"] == "subscription not found"


async def test_the_head_grows_and_reorganises_by_schedule(chain: Chain) -> None:
    pace = Pace(head_every=0.005, reorgs=ReorgSchedule(4, depth=3, seed=1))
    async with socket_of(DevNode(chain, pace=pace)) as socket:
        await socket.send_json(SUBSCRIBE)
        seen: dict[int, str] = {}
        replaced = 0
        while replaced < 5:
            notice = await socket.receive_json()
            if "params" in notice:
                header = notice["params"]["result"]
                height = int(header["number"], 16)
                replaced += height in seen
                seen[height] = header["hash"]


async def test_what_cannot_be_subscribed_to(chain: Chain) -> None:
    async with socket_of(DevNode(chain)) as socket:
        for params in (["logs", {}], [], ["newHeads", 1]):
            answer = await ask(socket, call("eth_subscribe", *params))
            assert answer["error"]["code"] == -32601
        refused = await ask(socket, {**SUBSCRIBE, "params": {}})
        assert refused["error"]["code"] == -32602
    limits = Limits(missing=frozenset({"eth_subscribe"}))
    async with socket_of(DevNode(chain, limits=limits)) as socket:
        assert "does not exist" in (await ask(socket, SUBSCRIBE))["error"]["message"]
    async with client_of(DevNode(chain)) as client:
        error = await client.error("eth_subscribe", "newHeads")
        assert error["message"] == "notifications not supported"


async def test_a_connection_that_is_dropped(chain: Chain) -> None:
    node = DevNode(chain, faults="ws-drop@122")
    async with socket_of(node) as socket:
        await ask(socket, SUBSCRIBE)
        node.advance(2)
        assert (await socket.receive_json())["params"]["result"]["number"] == hex(121)
        message = await socket.receive()
        assert message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        assert node.injected == {"ws-drop": 1}


async def test_a_connection_that_goes_silent(chain: Chain) -> None:
    node = DevNode(chain, faults="ws-silent@121")
    async with socket_of(node) as socket:
        await ask(socket, SUBSCRIBE)
        node.advance(3)
        assert (await ask(socket, call("eth_blockNumber")))["result"] == hex(123)
        assert node.injected == {"ws-silent": 1}


async def test_faults_of_requests_reach_a_socket(chain: Chain) -> None:
    async with socket_of(DevNode(chain, faults="timeout@5,drop@6")) as socket:
        await socket.send_json(call("eth_getBlockByNumber", "0x5", False))
        answer = await ask(socket, call("eth_getBlockByNumber", "0x7", False))
        assert answer["result"]["number"] == "0x7"
        await socket.send_json(call("eth_getBlockByNumber", "0x6", False))
        assert (await socket.receive()).type is not aiohttp.WSMsgType.TEXT


async def test_a_client_that_leaves_is_forgotten(chain: Chain) -> None:
    node = DevNode(chain)
    async with node:
        async with aiohttp.ClientSession() as session, session.ws_connect(node.ws_url) as socket:
            await ask(socket, SUBSCRIBE)
            assert node.subscriptions
        await eventually(lambda: not node.subscriptions)
        node.advance()
